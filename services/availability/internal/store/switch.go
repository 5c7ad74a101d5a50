package store

import (
	"context"
	"strconv"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb"
)

// Etag names the present state of the switch.
func (s Switch) Etag() string { return strconv.FormatInt(s.Version, 10) }

// switchRow scans a switch, if there is one.
type switchRow struct {
	on, version       sqldb.Int
	reason, changedBy sqldb.String
	endAt, changedAt  sqldb.Time
}

func (r *switchRow) dest() []any {
	return []any{&r.on, &r.reason, &r.endAt, &r.changedBy, &r.changedAt, &r.version}
}

func (r *switchRow) value() Switch {
	return Switch{
		On: r.on == 1, Reason: string(r.reason), EndAt: r.endAt.Time, ChangedBy: string(r.changedBy), ChangedAt: r.changedAt.Time, Version: int64(r.version),
	}
}

// Maintenance reads a server's switch, and its windows but for those that ended for good, as of now, the database's time.
func (s *Store) Maintenance(ctx context.Context, server string) (found Server, windows []Window, now time.Time, err error) {
	s.names.Refresh(ctx)
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		found, windows, now, err = s.readMaintenance(ctx, tx, server)
		return err
	})
	return found, windows, now, err
}

func (s *Store) readMaintenance(ctx context.Context, from reader, name string) (Server, []Window, time.Time, error) {
	at, err := readState(ctx, from)
	if err != nil {
		return Server{}, nil, time.Time{}, err
	}
	server, err := s.judgedServer(ctx, from, name)
	if err != nil {
		return Server{}, nil, time.Time{}, err
	}
	windows, err := readWindows(ctx, from, "windows_of", named("serverKey", server.Key))
	return server, windows, at.now, err
}

// End is when a switch ends by itself: At an instant, or In some time from the database's now. Zero: it does not.
type End struct {
	At time.Time
	In time.Duration
}

func (e End) from(now time.Time) time.Time {
	if e.In > 0 {
		return now.Add(e.In)
	}
	return e.At
}

// SetSwitch turns a server's maintenance switch on, or changes its reason or end, or turns it off. What is off stays as it is when
// it is turned off.
func (s *Store) SetSwitch(ctx context.Context, server, etag string, on bool, reason string, end End, actor string) (found Server, windows []Window, now time.Time, err error) {
	s.names.Refresh(ctx)
	err = s.db.Change(ctx, func(tx *sqldb.Tx) error {
		found, windows, now, err = s.readMaintenance(ctx, tx, server)
		if err != nil {
			return err
		}
		if err := checkEtag(etag, found.Switch.Etag()); err != nil {
			return err
		}
		if !on && !found.Switch.OnAt(now) {
			return nil
		}
		endAt := end.from(now)
		if on && !endAt.IsZero() && !endAt.After(now) {
			return &PastError{EndAt: endAt, Now: now}
		}
		return turn(ctx, tx, &found, Switch{On: on, Reason: reason, EndAt: endAt, ChangedBy: actor})
	})
	return found, windows, now, err
}

func turn(ctx context.Context, tx *sqldb.Tx, server *Server, next Switch) error {
	at, err := act(ctx, tx)
	if err != nil {
		return err
	}
	if !next.On {
		next.EndAt = time.Time{}
	}
	next.ChangedAt, next.Version = at, server.Switch.Version+1
	next.EndAt = next.EndAt.UTC().Truncate(time.Millisecond)
	args := []any{
		named("serverKey", server.Key), named("isOn", flagOf(next.On)), named("reason", next.Reason), named("endAt", sqldb.NullText(next.EndAt)),
		named("changedBy", next.ChangedBy), named("changedAt", sqldb.Text(at)),
	}
	statement := "insert_switch" // another that was first makes its key taken: the whole is run again, and the etag tells
	if server.Switch.Version > 0 {
		statement, args = "update_switch", append(args, named("version", server.Switch.Version))
	}
	rows, err := tx.Exec(ctx, statement, args...)
	if err != nil {
		return err
	}
	if rows == 0 {
		return sqldb.ErrConflict
	}
	server.Switch = next
	return nil
}
