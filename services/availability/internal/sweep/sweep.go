package sweep

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

// sweep is one pass: read, decide, write what changed.
func (j *Job) sweep(ctx context.Context) (result, error) {
	known, err := j.read(ctx)
	if err != nil {
		return databaseFailed, err
	}
	j.term.acts = known.fleet.Acts
	if known.agents != nil {
		j.aim(known.targets())
	}
	out := verdict.Sweep(known.input(j.Limits))
	writes := known.writes(out, j.secondWriters(known.fleet))
	writes.Token, writes.LeaseDuration, writes.Own = j.term.token, j.LeaseDuration, j.Own
	j.term.wrote = nil // until it is sure what was written
	if !idle(known.fleet.Paths, writes) {
		recorded, err := j.Store.Record(ctx, writes)
		if err != nil {
			return resultOf(err), err
		}
		j.tell(known.fleet, writes, recorded)
	}
	j.term.wrote = decided(out)
	j.Metrics.judged(known.fleet, out)
	if known.agents == nil {
		return registryUnreachable, nil
	}
	return done, nil
}

func resultOf(err error) result {
	if errors.Is(err, store.ErrLeaseLost) {
		return leaseLost
	}
	return databaseFailed
}

// read reads database and registry side by side. Without the registry a sweep still applies maintenance.
func (j *Job) read(ctx context.Context) (facts, error) {
	known := facts{probes: j.term.rounds.History()}
	group, reading := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		known.fleet, err = j.Store.Fleet(reading)
		return err
	})
	group.Go(func() error {
		// Half of the interval: the other half is for the rest of the sweep.
		bounded, cancel := context.WithTimeout(reading, j.Limits.SweepInterval/2)
		defer cancel()
		found, err := readAgents(bounded, j.Registry, leftAges*j.Limits.MaxAge)
		if err != nil && reading.Err() == nil {
			j.Logger.Warn("the registry did not answer: nobody goes online or offline but for maintenance", "error", err)
		}
		known.agents = found
		return nil
	})
	if err := group.Wait(); err != nil {
		return facts{}, err
	}
	known.maintenance = j.term.schedule.servers(known.fleet)
	return known, nil
}

// secondWriters are the servers whose Online is not what it was after the last sweep: somebody else changed it. While only
// observing, somebody else is meant to.
func (j *Job) secondWriters(fleet store.Fleet) map[int64]bool {
	if !j.Own || j.term.wrote == nil {
		return nil
	}
	found := map[int64]bool{}
	for i := range fleet.Servers {
		if wrote, known := j.term.wrote[fleet.Servers[i].Key]; known && wrote != fleet.Servers[i].Online {
			found[fleet.Servers[i].Key] = true
		}
	}
	return found
}

func decided(out verdict.Outcomes) map[int64]bool {
	online := make(map[int64]bool, len(out.Statuses))
	for _, status := range out.Statuses {
		online[status.Key] = status.Online
	}
	return online
}

// tell logs and counts what was written.
func (j *Job) tell(fleet store.Fleet, writes store.Sweep, recorded store.Recorded) {
	reasons := make(map[int64]verdict.Reason, len(writes.Changes))
	names := make(map[int64]string, len(writes.Changes))
	for _, change := range writes.Changes {
		reasons[change.Key], names[change.Key] = change.Reason, ""
	}
	for i := range fleet.Servers {
		if _, changed := names[fleet.Servers[i].Key]; changed {
			names[fleet.Servers[i].Key] = fleet.Servers[i].Name
		}
	}
	for _, key := range recorded.Online {
		j.Logger.Info("online", "server", names[key], "server_key", key, "reason", reasons[key])
		j.Metrics.transitions.WithLabelValues("online", string(reasons[key])).Inc()
	}
	for _, key := range recorded.Offline {
		j.Logger.Warn("offline", "server", names[key], "server_key", key, "reason", reasons[key])
		j.Metrics.transitions.WithLabelValues("offline", string(reasons[key])).Inc()
	}
	if second := len(writes.SecondWriters); second > 0 {
		j.Metrics.secondWriter.Add(float64(second))
		j.Logger.Error("another writer changed Online: switch the legacy one off, or run this service in mode observe",
			"servers", second, "server_keys", writes.SecondWriters[:min(second, 20)])
	}
}
