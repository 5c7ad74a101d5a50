package simulated

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/commandcenter/fleet/agent/host"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// Clock tells the host the time and lets it wait.
type Clock interface {
	Now() time.Time
	// After sends once, when d has passed.
	After(d time.Duration) <-chan time.Time
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Options of a host. The zero value is a host of seed 0 on the system's clock with the default durations.
type Options struct {
	// Seed and the name together decide what the host holds.
	Seed uint64
	// Clock; default the system's.
	Clock Clock
	// StartDuration is how long a service or pool takes to start; default 400 ms; below 0: no time at all.
	StartDuration time.Duration
	// StopDuration is how long a service or pool takes to stop; default 300 ms; below 0: no time at all.
	StopDuration time.Duration
	// WorkDuration is how long one package or product takes; default 150 ms; below 0: no time at all.
	WorkDuration time.Duration
	// AgentService is the name of a service that the agent runs as; it is added to the others. Empty: there is none.
	AgentService string
	// RestartAgent ends the agent and starts it again; it is called once AgentService was restarted, and must not wait for
	// the agent to end. Nil: nothing happens, as on a host that promises a restart and does not do it.
	RestartAgent func()
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	for field, standard := range map[*time.Duration]time.Duration{
		&o.StartDuration: 400 * time.Millisecond,
		&o.StopDuration:  300 * time.Millisecond,
		&o.WorkDuration:  150 * time.Millisecond,
	} {
		if *field == 0 {
			*field = standard
		}
		*field = max(*field, 0)
	}
	return o
}

// Host is a simulated machine. Its methods are safe for concurrent use.
type Host struct {
	name    string
	options Options

	mu            sync.Mutex
	random        *rand.Rand
	services      []*unit
	pools         []*unit
	certificates  []*agentv1.Certificate
	installations []*agentv1.Installation
	packages      []*agentv1.Package // installed
	configured    []*agentv1.Package // what an empty wanted set means
	bindings      []*agentv1.IisBinding
	failures      map[string]error // by folded name of a service, pool, package or installation
}

var _ host.Host = (*Host)(nil)

// New makes the machine of that name.
func New(name string, opts Options) *Host {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(fold(name)))
	h := &Host{
		name: name, options: opts.withDefaults(), failures: map[string]error{},
		random: rand.New(rand.NewPCG(opts.Seed, hash.Sum64())),
	}
	h.furnish()
	return h
}

// Hang makes a service or pool stay in its pending state whenever it is started, stopped or recycled, as a process
// does that no longer answers, until Release.
func (h *Host) Hang(name string) { h.each(name, func(u *unit) { u.hang() }) }

// Release lets a hung service or pool go on to where it was going.
func (h *Host) Release(name string) { h.each(name, func(u *unit) { u.release() }) }

// Fail makes every write to the service, pool, package or installation of that name fail with the error; nil ends it.
func (h *Host) Fail(name string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.failures, fold(name))
		return
	}
	h.failures[fold(name)] = err
}

// SetBindings replaces the IIS bindings, as an administrator of the machine would.
func (h *Host) SetBindings(bindings []*agentv1.IisBinding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bindings = copies(bindings)
}

func (h *Host) each(name string, do func(*unit)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range slices.Concat(h.services, h.pools) {
		if fold(u.name) == fold(name) {
			do(u)
		}
	}
}

// Certificates implements host.Certificates.
func (h *Host) Certificates(context.Context) ([]*agentv1.Certificate, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return copies(h.certificates), nil
}

// Bindings implements host.Bindings.
func (h *Host) Bindings(context.Context) ([]*agentv1.IisBinding, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return copies(h.bindings), nil
}

// Installations implements host.Installations.
func (h *Host) Installations(context.Context) ([]*agentv1.Installation, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return copies(h.installations), nil
}

// Uninstall implements host.Installations.
func (h *Host) Uninstall(ctx context.Context, id string) ([]*agentv1.Change, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	find := func() int {
		return slices.IndexFunc(h.installations, func(i *agentv1.Installation) bool { return fold(i.GetId()) == fold(id) })
	}
	at := find()
	if at < 0 {
		return nil, &host.NotFoundError{Kind: "installation", Name: id}
	}
	subject := "installation " + h.installations[at].GetId()
	if err := h.work(ctx, subject, id); err != nil {
		return nil, err
	}
	at = find() // the lock was open meanwhile
	if at < 0 {
		return nil, nil
	}
	gone := h.installations[at]
	h.installations = slices.Delete(h.installations, at, at+1)
	return []*agentv1.Change{{Subject: subject, Before: gone.GetProduct() + " " + gone.GetVersion()}}, nil
}

// SyncPackages implements host.Packages.
func (h *Host) SyncPackages(ctx context.Context, wanted []*agentv1.Package) ([]*agentv1.Change, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(wanted) == 0 {
		wanted = h.configured
	}
	var made []*agentv1.Change
	for _, step := range difference(h.packages, wanted) {
		if err := h.work(ctx, "package "+step.id, step.id); err != nil {
			return made, err
		}
		h.packages = step.apply(h.packages)
		made = append(made, &agentv1.Change{Subject: "package " + step.id, Before: step.before, After: step.after})
	}
	return made, nil
}

// work takes WorkDuration, and then fails if it was told to. Host.mu is held, but open while it waits.
func (h *Host) work(ctx context.Context, subject, name string) error {
	h.mu.Unlock()
	select {
	case <-h.options.Clock.After(h.options.WorkDuration):
	case <-ctx.Done():
	}
	h.mu.Lock()
	if ctx.Err() != nil {
		return &host.FailedError{Subject: subject, Detail: "given up before it was changed", Err: context.Cause(ctx)}
	}
	return h.failure(subject, name)
}

func (h *Host) failure(subject, name string) error {
	if err := h.failures[fold(name)]; err != nil {
		return &host.FailedError{Subject: subject, Detail: "failed", Err: err}
	}
	return nil
}

// step brings one package from one version to another; no version means not installed.
type step struct{ id, before, after string }

// difference is what leads from the packages there are to those wanted: first what is installed or changed, in the
// wanted order, then what is removed, in the present order.
func difference(present, wanted []*agentv1.Package) []step {
	installed, keep := map[string]*agentv1.Package{}, map[string]bool{}
	for _, p := range present {
		installed[fold(p.GetId())] = p
	}
	var steps []step
	for _, p := range wanted {
		key := fold(p.GetId())
		if keep[key] {
			continue // wanted twice: the first counts
		}
		keep[key] = true
		if before := installed[key].GetVersion(); before != p.GetVersion() {
			steps = append(steps, step{p.GetId(), before, p.GetVersion()})
		}
	}
	for _, p := range present {
		if !keep[fold(p.GetId())] {
			steps = append(steps, step{p.GetId(), p.GetVersion(), ""})
		}
	}
	return steps
}

func (s step) apply(packages []*agentv1.Package) []*agentv1.Package {
	packages = slices.DeleteFunc(packages, func(p *agentv1.Package) bool { return fold(p.GetId()) == fold(s.id) })
	if s.after == "" {
		return packages
	}
	return append(packages, &agentv1.Package{Id: s.id, Version: s.after})
}

func fold(name string) string { return strings.ToLower(name) }

func copies[M proto.Message](messages []M) []M {
	out := make([]M, len(messages))
	for i, m := range messages {
		out[i] = proto.Clone(m).(M)
	}
	return out
}
