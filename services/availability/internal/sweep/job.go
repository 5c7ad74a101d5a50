package sweep

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/probe"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

const (
	// actsInterval is how often the holder looks whether an operator did something, to sweep at once.
	actsInterval = time.Second
	// resignTimeout bounds giving the lease back at the end.
	resignTimeout = 2 * time.Second
	// leftAges is after how many maximum heartbeat ages on one path alone an agent has left the other.
	leftAges = 10
)

// Store is what is called of the database; *store.Store is one.
type Store interface {
	TakeLease(ctx context.Context, holder string, duration time.Duration) (store.Lease, bool, error)
	RenewLease(ctx context.Context, token int64, duration time.Duration) (store.Lease, error)
	ReleaseLease(ctx context.Context, token int64) error
	PruneStatuses(ctx context.Context, token int64) error
	Fleet(ctx context.Context) (store.Fleet, error)
	Record(ctx context.Context, sweep store.Sweep) (store.Recorded, error)
	Acts(ctx context.Context) (int64, error)
}

// Prober runs rounds of probes; *probe.Prober is one.
type Prober interface {
	Round(ctx context.Context, targets []probe.Target, interval time.Duration) probe.Round
}

// Job competes for the lease and sweeps while it holds it. All exported fields are required.
type Job struct {
	Store    Store
	Registry FleetReader
	Prober   Prober
	Limits   verdict.Limits
	// LeaseDuration is more than one sweep interval, so that a sweep which comes to nothing costs no lease.
	LeaseDuration time.Duration
	// Own writes Online and the offline log; otherwise the job only shows what it would write.
	Own bool
	// Holder names this process; no other process, before or after, has the same name.
	Holder  string
	Metrics *Metrics
	Logger  *slog.Logger

	term *term // nil: another holds the lease, or nobody
}

// term is one time of holding the lease.
type term struct {
	token    int64
	until    time.Time // at the latest, unless renewed; each sweep begins with that
	schedule schedule
	rounds   *probe.Rounds
	targets  atomic.Pointer[[]probe.Target]
	// wrote is each server's Online as it was after the last sweep; nil: not known for sure.
	wrote map[int64]bool
	acts  int64
	// probing runs from the first sweep on; end stops it, and waits for that.
	probing sync.Once
	end     func()
}

// Run sweeps until the context ends, and then gives the lease back.
func (j *Job) Run(ctx context.Context) error {
	defer j.resign(ctx)
	for ctx.Err() == nil {
		next := time.Now().Add(j.Limits.SweepInterval)
		if err := j.Step(ctx); err != nil && ctx.Err() == nil {
			j.Logger.Error("the sweep came to nothing; it is tried again", "error", err)
			next = time.Now().Add(j.Limits.SweepInterval / 3) // sooner, or a passing failure could cost the lease
		}
		j.wait(ctx, next)
	}
	return nil
}

// Step takes the lease if it is free, and sweeps once if it is held.
func (j *Job) Step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, j.Limits.SweepInterval)
	defer cancel()
	startedAt := time.Now()
	result, err := databaseFailed, j.hold(ctx)
	if err == nil {
		if j.term == nil {
			return nil
		}
		result, err = j.sweep(ctx)
	}
	if errors.Is(err, store.ErrLeaseLost) {
		j.lose()
		err = nil
	}
	j.Metrics.swept(result, time.Since(startedAt))
	return err
}

// hold renews the lease, or takes it. While the database does not answer, the lease is given up as lost when it must have run out.
func (j *Job) hold(ctx context.Context) error {
	until := time.Now().Add(j.LeaseDuration) // of this process' own clock, and no later than the database has it
	if j.term != nil {
		_, err := j.Store.RenewLease(ctx, j.term.token, j.LeaseDuration)
		switch {
		case err == nil:
			j.term.until = until
			return nil
		case errors.Is(err, store.ErrLeaseLost):
			j.lose()
		case !time.Now().Before(j.term.until):
			j.lose()
			return err
		default:
			return err
		}
	}
	lease, taken, err := j.Store.TakeLease(ctx, j.Holder, j.LeaseDuration)
	if err != nil || !taken {
		return err
	}
	j.Logger.Info("holds the lease", "token", lease.Token)
	j.begin(lease.Token, until)
	return j.Store.PruneStatuses(ctx, lease.Token)
}

// begin starts a term. A new holder knows no probes: it has to see the failures itself.
func (j *Job) begin(token int64, until time.Time) {
	j.term = &term{token: token, until: until, schedule: schedule{logger: j.Logger}, rounds: &probe.Rounds{}, end: func() {}}
	j.Metrics.holds(true)
}

// aim gives the prober its targets. It keeps the last ones while the registry does not answer.
func (j *Job) aim(targets []probe.Target) {
	t := j.term
	t.targets.Store(&targets)
	t.probing.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		group.Go(func() { j.probe(ctx, t) })
		t.end = func() { cancel(); group.Wait() }
	})
}

func (j *Job) lose() {
	j.Logger.Warn("lost the lease: another replica holds it, or it ran out; nothing more is written with it", "token", j.term.token)
	j.endTerm()
}

func (j *Job) endTerm() {
	j.term.end()
	j.term = nil
	j.Metrics.holds(false)
}

// resign gives the lease back, so that another replica sweeps at once.
func (j *Job) resign(ctx context.Context) {
	if j.term == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	if err := j.Store.ReleaseLease(ctx, j.term.token); err != nil {
		j.Logger.Warn("the lease could not be given back; another replica waits until it runs out", "error", err)
	}
	j.endTerm()
}

// probe runs one round after the other.
func (j *Job) probe(ctx context.Context, t *term) {
	ticker := time.NewTicker(j.Limits.SweepInterval)
	defer ticker.Stop()
	for {
		t.rounds.Add(j.Prober.Round(ctx, *t.targets.Load(), j.Limits.SweepInterval))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// wait waits for the next sweep, which an operator's act brings forward.
func (j *Job) wait(ctx context.Context, next time.Time) {
	ticker := time.NewTicker(actsInterval)
	defer ticker.Stop()
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-ticker.C:
			if j.acted(ctx) {
				return
			}
		}
	}
}

// acted tells whether an operator did something since the last sweep.
func (j *Job) acted(ctx context.Context) bool {
	if j.term == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, actsInterval)
	defer cancel()
	acts, err := j.Store.Acts(ctx)
	return err == nil && acts != j.term.acts
}
