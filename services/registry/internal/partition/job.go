package partition

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

const (
	lookInterval  = time.Second
	lookTimeout   = 5 * time.Second
	countInterval = 15 * time.Second
	// partitionTimeout bounds one partition, which takes a second or so with 100,000 agents.
	partitionTimeout = 2 * time.Minute
	forgetInterval   = time.Hour
)

// Job looks whether agents have to be spread anew, and does it.
type Job struct {
	store    *store.Cloud
	debounce time.Duration
	returns  cloud.Returns
	metrics  *Metrics
	logger   *slog.Logger

	directory atomic.Pointer[cloud.Directory] // nil: not read yet
	displaced atomic.Pointer[cloud.Displacement]

	// Of the goroutine that looks.
	neededSince time.Time // zero: it is not needed
	countedAt   time.Time
	counted     int // agents, when they were last counted
	partitioned int // and as of the last partition before that
	forgottenAt time.Time
	// What is said already, so that it is said once.
	blind, nobody, frozen bool
}

// New makes the job. Debounce is how long changes are gathered before agents are spread again; returns go out with lists.
func New(cloudStore *store.Cloud, debounce time.Duration, returns cloud.Returns, metrics *Metrics, logger *slog.Logger) *Job {
	return &Job{store: cloudStore, debounce: debounce, returns: returns, metrics: metrics, logger: logger}
}

// Run looks until the context ends.
func (j *Job) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			j.Look(ctx, now)
		}
	}
}

// Look looks once, and spreads the agents if that has been needed for the debounce. Now is this process's clock.
func (j *Job) Look(ctx context.Context, now time.Time) {
	look, err := j.look(ctx, now)
	if ctx.Err() != nil {
		return
	}
	j.sees(err)
	if err != nil {
		return
	}
	j.metrics.looked(look)
	j.forget(ctx, now)
	needed := j.needed(look)
	if !j.possible(look, needed) || !needed {
		j.neededSince = time.Time{}
		return
	}
	if j.neededSince.IsZero() {
		j.neededSince = now
	}
	if now.Sub(j.neededSince) < j.debounce {
		return
	}
	if err := j.partition(ctx); err != nil {
		if ctx.Err() != nil {
			return
		}
		j.metrics.ended(failed, 0)
		j.logger.Error("agents could not be spread anew; it is tried again while that is needed", "error", err)
		j.neededSince = now // what fails for long is not tried every second
		return
	}
	j.neededSince = time.Time{}
}

// sees tells when looking begins or ceases to fail.
func (j *Job) sees(err error) {
	if err != nil {
		j.metrics.lookFailures.Inc()
	}
	if blind := err != nil; blind != j.blind {
		j.blind = blind
		if blind {
			j.logger.Warn("the control servers cannot be looked at; lists stay as they are meanwhile", "error", err)
		} else {
			j.logger.Info("looking at the control servers works again")
		}
	}
}

// possible tells whether there is anybody to spread agents over.
func (j *Job) possible(look store.Look, needed bool) bool {
	nobody := len(look.Eligible()) == 0
	if nobody && needed && !j.nobody && len(look.Members) > 0 {
		j.logger.Warn("agents cannot be spread anew", "error", cloud.ErrNobody)
	}
	j.nobody = nobody && needed
	return !nobody
}

// needed tells whether agents are to be spread anew.
func (j *Job) needed(look store.Look) bool {
	return look.Requested || look.Unassigned || j.strayed(look) || len(j.known().Changes(look.Membership)) > 0
}

// strayed tells whether agents were removed since the last partition.
func (j *Job) strayed(look store.Look) bool {
	return look.Epoch > 0 && j.counted != j.partitioned && look.Agents == j.partitioned
}

// known is the directory as last read; of version 0 before that.
func (j *Job) known() cloud.Directory {
	if d := j.directory.Load(); d != nil {
		return *d
	}
	return cloud.Directory{}
}

// look reads the little that tells whether something is to be done, and takes over a directory that another replica committed.
func (j *Job) look(ctx context.Context, now time.Time) (store.Look, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	look, err := j.store.Look(ctx)
	if err != nil {
		return look, err
	}
	displaced := look.Displacement()
	j.displaced.Store(&displaced)
	if look.DirectoryVersion != j.known().Version {
		directory, err := j.store.Directory(ctx)
		if err != nil {
			return look, err
		}
		j.directory.Store(&directory)
	}
	if look.Frozen() != j.frozen {
		j.frozen = look.Frozen()
		if j.frozen {
			j.logger.Warn("evictions are held: more than half of the control servers fell silent at once", "since", look.FrozenSince)
		} else {
			j.logger.Info("evictions are no longer held")
		}
	}
	if now.Sub(j.countedAt) < countInterval {
		return look, nil
	}
	return look, j.count(ctx, now, look)
}

// count counts the agents now and then: those removed show in nothing else.
func (j *Job) count(ctx context.Context, now time.Time, look store.Look) error {
	counts, err := j.store.AgentsByPrimary(ctx)
	if err != nil {
		return err
	}
	j.metrics.counted(look, counts)
	j.countedAt, j.partitioned, j.counted = now, look.Agents, 0
	for _, n := range counts {
		j.counted += n
	}
	return nil
}

// forget deletes old partition events, whether or not there are new ones. If it fails, the next look tries it again.
func (j *Job) forget(ctx context.Context, now time.Time) {
	if now.Sub(j.forgottenAt) < forgetInterval {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := j.store.ForgetEvents(ctx); err != nil {
		j.logger.Warn("old partition events could not be deleted; it is tried again", "error", err)
		return
	}
	j.forgottenAt = now
}

// partition spreads the agents, and commits that.
func (j *Job) partition(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, partitionTimeout)
	defer cancel()
	startedAt := time.Now()
	event, result, err := j.commit(ctx)
	if errors.Is(err, store.ErrOvertaken) {
		j.metrics.ended(overtaken, time.Since(startedAt))
		return nil // what is still needed shows at the next look
	}
	if err != nil {
		return err
	}
	j.metrics.ended(result, time.Since(startedAt))
	if result == committed {
		j.metrics.moved(event)
		j.logger.Info("agents were spread anew", "epoch", event.Epoch, "causes", event.Causes, "agents", event.Agents, "placed", event.Placed,
			"primaries_moved", event.PrimariesMoved, "secondaries_moved", event.SecondariesMoved, "took", time.Since(startedAt))
	}
	return nil
}

func (j *Job) commit(ctx context.Context) (cloud.Event, result, error) {
	situation, err := j.store.Situation(ctx)
	if err != nil {
		return cloud.Event{}, failed, err
	}
	partition, err := situation.Directory.Repartition(situation.Membership, situation.Agents)
	if err != nil {
		return cloud.Event{}, failed, err
	}
	if partition.Unchanged() {
		return cloud.Event{}, unchanged, j.store.Settle(ctx, situation)
	}
	event, err := j.store.Commit(ctx, situation, partition)
	if err != nil {
		return event, failed, err
	}
	j.directory.Store(&partition.Directory)
	return event, committed, nil
}
