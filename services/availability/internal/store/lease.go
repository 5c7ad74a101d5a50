package store

import (
	"context"
	"errors"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb"
)

var errNoLeaseRow = errors.New("TblJobLease has no row of the job 'availability', which the migration makes: restore it, with a FencingToken higher than any before")

func scanLease(scan func(...any) error, extra ...any) (Lease, error) {
	var lease Lease
	var expires sqldb.Time
	err := scan(append([]any{&lease.Holder, &lease.Token, &expires}, extra...)...)
	lease.ExpiresAt = expires.Time
	return lease, err
}

// TakeLease takes the job's lease if nobody holds it or it has run out, with a higher token than any before; else it returns the
// lease another holds, and false. A holder of the same name is another: it may be an earlier start of the same replica.
func (s *Store) TakeLease(ctx context.Context, holder string, duration time.Duration) (lease Lease, taken bool, err error) {
	err = s.db.Change(ctx, func(tx *sqldb.Tx) error {
		taken = false
		err := tx.Rows(ctx, "take_lease", func(scan func(...any) error) error {
			lease, err = scanLease(scan)
			taken = true
			return err
		}, named("holder", holder), named("milliseconds", duration.Milliseconds()))
		if err != nil || taken {
			return err
		}
		lease, _, err = readLease(ctx, tx)
		return err
	})
	return lease, taken && err == nil, err
}

// RenewLease lets a lease that is still held last for the duration from now on.
func (s *Store) RenewLease(ctx context.Context, token int64, duration time.Duration) (Lease, error) {
	var lease Lease
	err := s.db.Change(ctx, func(tx *sqldb.Tx) error {
		var err error
		lease, _, err = hold(ctx, tx, token, duration)
		return err
	})
	return lease, err
}

// hold fences a transaction, as its first statement: the lease's row stays locked until the end. With a duration it is renewed,
// too. Now is the database's time.
func hold(ctx context.Context, tx *sqldb.Tx, token int64, duration time.Duration) (lease Lease, now time.Time, err error) {
	held := false
	var at sqldb.Time
	err = tx.Rows(ctx, "hold_lease", func(scan func(...any) error) error {
		lease, err = scanLease(scan, &at)
		held = true
		return err
	}, named("token", token), named("milliseconds", duration.Milliseconds()))
	if err == nil && !held {
		err = ErrLeaseLost
	}
	return lease, at.Time, err
}

// ReleaseLease lets another take the lease at once. One that was lost is left as it is.
func (s *Store) ReleaseLease(ctx context.Context, token int64) error {
	return s.db.Change(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "release_lease", named("token", token))
		return err
	})
}

// reader runs statements that read: a transaction, or the database by itself.
type reader interface {
	Rows(ctx context.Context, name string, scan func(scan func(dest ...any) error) error, args ...any) error
}

func readLease(ctx context.Context, from reader) (lease Lease, held bool, err error) {
	found := false
	err = from.Rows(ctx, "lease", func(scan func(...any) error) error {
		var lasts sqldb.Int
		lease, err = scanLease(scan, &lasts)
		found, held = true, lasts == 1
		return err
	})
	switch {
	case err == nil && !found:
		return Lease{}, false, errNoLeaseRow
	case err != nil || !held:
		return Lease{}, false, err
	}
	return lease, true, nil
}
