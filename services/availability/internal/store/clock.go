package store

import (
	"context"
	"sync"
	"time"

	"github.com/commandcenter/fleet/services/internal/dbclock"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

// clock is what this process knows of the database's clock.
type clock struct {
	mu   sync.Mutex
	last dbclock.Reading
}

// LookAtClock looks whether the database's clock was stepped, and by how much; 0: it was not. After a step back nothing that is stored may
// lie in the future: a lease that its holder no longer renews lasts no longer than lease from now, and what has lasted since then lasts
// since now. Proofs of a brake start again after any step. Windows and switches follow the clock as it is: they are operators' own
// instants. Lease is the duration that leases are taken for.
func (s *Store) LookAtClock(ctx context.Context, lease time.Duration) (step time.Duration, err error) {
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
		rows, err := tx.Exec(ctx, "see_clock", named("seenAt", sqldb.Text(next.SeenAt)), named("steppedAt", sqldb.NullText(next.SteppedAt)),
			named("stepMs", next.Step.Milliseconds()), named("before", sqldb.NullText(state.SeenAt)))
		switch {
		case err != nil:
			return err
		case rows == 0:
			return sqldb.ErrConflict
		case stepped == 0:
			return nil
		}
		step = stepped
		return mend(ctx, tx, at, lease)
	})
	if err == nil {
		s.clock.last = reading
	}
	return step, err
}

func mend(ctx context.Context, tx *sqldb.Tx, at time.Time, lease time.Duration) error {
	now := named("now", sqldb.Text(at))
	if _, err := tx.Exec(ctx, "step_lease", named("expiresAt", sqldb.Text(at.Add(lease))), named("latest", sqldb.Text(at.Add(lease+dbclock.Tolerance)))); err != nil {
		return err
	}
	for _, statement := range []string{"step_state", "step_paths", "step_statuses"} {
		if _, err := tx.Exec(ctx, statement, now); err != nil {
			return err
		}
	}
	return nil
}

func readClock(ctx context.Context, from reader) (dbclock.State, time.Time, error) {
	var at, seen, stepped sqldb.Time
	var step sqldb.Int
	err := from.Rows(ctx, "clock", func(scan func(...any) error) error { return scan(&at, &seen, &stepped, &step) })
	return dbclock.State{SeenAt: seen.Time, SteppedAt: stepped.Time, Step: time.Duration(step) * time.Millisecond}, at.Time, err
}

// newestInstant is the latest instant that is stored of the job's work.
func newestInstant(ctx context.Context, tx *sqldb.Tx) (time.Time, error) {
	var at sqldb.Time
	_, err := tx.Row(ctx, "newest_instant", []any{&at})
	return at.Time, err
}
