package ingress

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/heartbeat/internal/record"
)

const (
	// linger is how long the first heartbeat of a batch waits for others.
	linger = 10 * time.Millisecond
	// most is how many go into one call to the registry, parallel how many calls are under way side by side.
	most, parallel = 500, 4
	// maxFailures in a row give a batch up: halving 500 down to one at fault takes 10.
	maxFailures = 12
	// doubt is how long a registry that did not take heartbeats counts as not taking them, unless it takes one before.
	doubt = time.Minute
)

// Why a heartbeat was not stored, beside what the registry says of it.
var (
	errFull    = errors.New("too many heartbeats wait for the registry")
	errRefused = errors.New("the registry refuses the heartbeat")
	errPoison  = errors.New("the registry fails at this heartbeat while it takes others")
	errAway    = errors.New("the registry does not take heartbeats")
	errEnded   = errors.New("the control server stops")
)

// Gathering makes few calls to the registry of many agents' heartbeats: the first one waits a little for others, and while calls are
// under way more gather. Whoever waits is answered with its own result, once it is stored (I-7) or cannot be.
type Gathering struct {
	recorder record.Recorder
	// report brings evidence to the registry. A canary does that in the place where a heartbeat is recorded.
	report  func(context.Context) error
	metrics *Metrics
	logger  *slog.Logger

	calls    chan *call    // room for all that may be pending
	turn     chan struct{} // holds one: the worker that gathers
	pending  *pending
	ended    chan struct{}
	good     atomic.Pointer[call]      // one that the registry has taken
	failedAt atomic.Pointer[time.Time] // nil: the registry took the last ones
}

// NewGathering makes it; report is what a canary does at the registry.
func NewGathering(registry record.Registry, report func(context.Context) error, metrics *Metrics, logger *slog.Logger) *Gathering {
	g := &Gathering{
		recorder: record.Recorder{Registry: registry, Duration: metrics.Registry, Failures: metrics.RegistryFailures},
		report:   report, metrics: metrics, logger: logger,
		calls: make(chan *call, maxPending), turn: make(chan struct{}, 1), pending: newPending(), ended: make(chan struct{}),
	}
	metrics.pending(func() float64 { calls, _ := g.pending.count(); return float64(calls) })
	return g
}

// Record has a heartbeat stored and returns what it did. If the caller's time ends sooner, it may yet be stored.
func (g *Gathering) Record(ctx context.Context, observed *registryv1.ObservedHeartbeat) (*registryv1.RecordedHeartbeat, error) {
	return g.wait(ctx, &call{observed: observed, bytes: proto.Size(observed), since: time.Now(), answer: make(chan answer, 1)})
}

// Prove sends a canary the way of the heartbeats, to the registry and back.
func (g *Gathering) Prove(ctx context.Context) error {
	_, err := g.wait(ctx, &call{since: time.Now(), answer: make(chan answer, 1)})
	return err
}

func (g *Gathering) wait(ctx context.Context, one *call) (*registryv1.RecordedHeartbeat, error) {
	if !g.pending.add(one) {
		return nil, errFull
	}
	g.calls <- one
	select {
	case got := <-one.answer:
		return got.recorded, got.err
	case <-g.ended:
		return nil, errEnded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Failing tells whether the registry did not take heartbeats lately.
func (g *Gathering) Failing() bool {
	at := g.failedAt.Load()
	return at != nil && time.Since(*at) < doubt
}

// Oldest is the age of the oldest heartbeat that waits for its answer.
func (g *Gathering) Oldest() time.Duration {
	_, since := g.pending.count()
	if since.IsZero() {
		return 0
	}
	return max(0, time.Since(since))
}

// Run goes on until the context ends; then all that waits is recorded first.
func (g *Gathering) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for batch := g.gather(ctx); len(batch) > 0; batch = g.gather(ctx) {
				g.handle(ctx, batch)
			}
		})
	}
	workers.Wait()
	close(g.ended)
	return nil
}

// gather waits for a batch. After the end of the context it takes what is there, and nothing at last.
func (g *Gathering) gather(ctx context.Context) []*call {
	g.turn <- struct{}{}
	defer func() { <-g.turn }()
	first := g.next(ctx.Done())
	if first == nil {
		return nil
	}
	batch, bytes := []*call{first}, first.bytes
	lingered, stop := context.WithTimeout(ctx, linger)
	defer stop()
	for len(batch) < most && bytes < record.MaxBytes {
		one := g.next(lingered.Done())
		if one == nil {
			break
		}
		batch, bytes = append(batch, one), bytes+one.bytes
	}
	return batch
}

// next is the next call; nil if there is none once it is over.
func (g *Gathering) next(over <-chan struct{}) *call {
	select {
	case one := <-g.calls:
		return one
	default:
	}
	select {
	case one := <-g.calls:
		return one
	case <-over:
		return nil
	}
}

func (g *Gathering) handle(ctx context.Context, batch []*call) {
	heartbeats, canaries := make([]*call, 0, len(batch)), []*call(nil)
	for _, one := range batch {
		if one.observed == nil {
			canaries = append(canaries, one)
		} else {
			heartbeats = append(heartbeats, one)
		}
	}
	if len(heartbeats) > 0 {
		g.metrics.Batch.Observe(float64(len(heartbeats)))
		g.record(ctx, heartbeats)
	}
	if len(canaries) == 0 {
		return
	}
	// While heartbeats cannot be recorded, a registry that answers otherwise proves nothing.
	err := errAway
	if !g.Failing() {
		err = g.report(ctx)
	}
	for _, one := range canaries {
		g.pending.end(one, answer{err: err})
	}
}

// record records a batch and answers each heartbeat. If the registry fails for what may be one heartbeat's fault, it is halved.
func (g *Gathering) record(ctx context.Context, batch []*call) {
	groups, failures := [][]*call{batch}, 0
	for len(groups) > 0 {
		group := groups[len(groups)-1]
		groups = groups[:len(groups)-1]
		err := g.call(ctx, group)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		blame := record.BlameFor(err)
		switch {
		case blame == record.Nobody || failures >= maxFailures:
			g.away(append(groups, group), err)
			return
		case len(group) > 1:
			middle := len(group) / 2
			groups = append(groups, group[middle:], group[:middle])
		case blame == record.Culprit:
			g.refuse(group[0], errRefused, err)
		case g.takesAnother(ctx):
			failures = 0
			g.refuse(group[0], errPoison, err)
		default:
			g.away([][]*call{group}, err)
		}
	}
}

// away answers that nothing is stored, through no fault of the heartbeats.
func (g *Gathering) away(groups [][]*call, err error) {
	now, heartbeats := time.Now(), 0
	g.failedAt.Store(&now)
	for _, group := range groups {
		heartbeats += len(group)
		for _, one := range group {
			g.pending.end(one, answer{err: errAway})
		}
	}
	g.logger.Error("the registry does not take heartbeats; their agents are asked to try again", "heartbeats", heartbeats, "error", err)
}

func (g *Gathering) refuse(one *call, why, cause error) {
	g.logger.Warn("a heartbeat cannot be stored", "agent", one.observed.GetHeartbeat().GetName(), "why", why, "error", cause)
	g.pending.end(one, answer{err: why})
}

// call records a group, and answers it if the registry does.
func (g *Gathering) call(ctx context.Context, group []*call) error {
	observed, asked := make([]*registryv1.ObservedHeartbeat, len(group)), time.Now()
	for i, one := range group {
		observed[i] = one.aged(asked)
	}
	results, err := g.recorder.Call(ctx, observed)
	if err != nil {
		return err
	}
	g.failedAt.Store(nil)
	now := time.Now()
	for i, one := range group {
		result := results[i]
		if taken(result.GetResult()) {
			g.good.Store(&call{observed: one.observed, since: one.since})
		}
		g.metrics.Heartbeats.WithLabelValues(label(result.GetResult())).Inc()
		g.metrics.Lag.Observe(max(0, now.Sub(one.since).Seconds()))
		g.pending.end(one, answer{recorded: result})
	}
	return nil
}

// takesAnother is the proof that a heartbeat which failed alone is to blame: right after its failure the registry takes once more
// what it took before. It must not enrol that again: its token may have been reset meanwhile.
func (g *Gathering) takesAnother(ctx context.Context) bool {
	good := g.good.Load()
	if good == nil {
		return false
	}
	again := good.aged(time.Now())
	again.Identity = &registryv1.DirectIdentity{TokenHash: again.GetIdentity().GetTokenHash(), ListEtag: again.GetIdentity().GetListEtag()}
	_, err := g.recorder.Call(ctx, []*registryv1.ObservedHeartbeat{again})
	return err == nil
}
