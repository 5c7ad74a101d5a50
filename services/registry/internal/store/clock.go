package store

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/commandcenter/fleet/services/internal/dbclock"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

const (
	// steppedBack is how far back heartbeats are moved along with a clock that was stepped. Older ones are long stale either way.
	steppedBack = 15 * time.Minute
	// settled is the age from which an instant is of the clock before the step; younger ones were stored since.
	settled = 2*dbclock.LookInterval + 4*time.Second
)

// clock is what this process knows of the database's clock.
type clock struct {
	mu   sync.Mutex
	last dbclock.Reading
}

// LookAtClock looks whether the database's clock was stepped, and by how much; 0: it was not. What a step makes wrong is mended in the
// same transaction: heartbeats, verifications and leases keep their ages, so that nothing stored lies in the future, and what was
// proven of the heartbeat paths has to be proven again.
func (s *Store) LookAtClock(ctx context.Context) (step time.Duration, err error) {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	var reading dbclock.Reading
	err = s.db.Change(ctx, func(tx *sqldb.Tx) error {
		asked := time.Now()
		state, at, err := readClock(ctx, tx)
		if err != nil {
			return err
		}
		reading, step = dbclock.Read(asked, at), 0
		known := state
		if known.SeenAt.IsZero() { // never looked at; what is stored tells what was seen
			if known.SeenAt, err = newestInstant(ctx, tx); err != nil {
				return err
			}
		}
		next, stepped := known.Look(s.clock.last, reading)
		if err := changed(tx.Exec(ctx, "see_clock", named("seenAt", sqldb.Text(next.SeenAt)), named("steppedAt", sqldb.NullText(next.SteppedAt)),
			named("stepMs", next.Step.Milliseconds()), named("before", sqldb.NullText(state.SeenAt)))); err != nil || stepped == 0 {
			return err
		}
		step = stepped
		return mend(ctx, tx, known.SeenAt, at, stepped)
	})
	if err == nil {
		s.clock.last = reading
	}
	return step, err
}

// mend moves what was stored by the clock before a step along with it. Seen is the last that was seen of that clock.
func mend(ctx context.Context, tx *sqldb.Tx, seen, at time.Time, step time.Duration) error {
	// Whole seconds, rather too old than too young: DATEADD takes no more for a step of years.
	move := []any{named("now", sqldb.Text(at)), named("seconds", int64(math.Floor(step.Seconds())))}
	heard, renewed := seen.Add(-steppedBack), time.Time{}
	if step < 0 {
		heard, renewed = at.Add(-steppedBack), at
	}
	if _, err := tx.Exec(ctx, "step_agents", append(move, named("since", sqldb.Text(heard)), named("settled", sqldb.Text(at.Add(-settled))))...); err != nil {
		return err
	}
	// A control server that renewed since must not look silent: only leases in the future are moved back, and all are moved ahead.
	if _, err := tx.Exec(ctx, "step_control_servers", append(move, named("since", sqldb.Text(renewed)))...); err != nil {
		return err
	}
	for _, statement := range []string{"step_receivers", "step_evidence"} {
		if _, err := tx.Exec(ctx, statement, named("now", sqldb.Text(at))); err != nil {
			return err
		}
	}
	return nil
}

// Clock is what is known of the database's clock, and what it reads.
func (s *Store) Clock(ctx context.Context) (state dbclock.State, at time.Time, err error) {
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		state, at, err = readClock(ctx, tx)
		return err
	})
	return state, at, err
}

func readClock(ctx context.Context, from reader) (dbclock.State, time.Time, error) {
	var at, seen, stepped sqldb.Time
	var step sqldb.Int
	err := from.Rows(ctx, "clock", func(scan func(...any) error) error { return scan(&at, &seen, &stepped, &step) })
	return dbclock.State{SeenAt: seen.Time, SteppedAt: stepped.Time, Step: time.Duration(step) * time.Millisecond}, at.Time, err
}

// newestInstant is the latest instant that is stored of any agent or control server.
func newestInstant(ctx context.Context, tx *sqldb.Tx) (time.Time, error) {
	var at sqldb.Time
	_, err := tx.Row(ctx, "newest_instant", []any{&at})
	return at.Time, err
}
