package store

import (
	"context"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb"
)

func readWindows(ctx context.Context, from reader, statement string, args ...any) ([]Window, error) {
	var windows []Window
	err := from.Rows(ctx, statement, func(scan func(...any) error) error {
		var w Window
		var startAt, endAt, createdAt, lastEndAt sqldb.Time
		var start, zone, rule sqldb.String
		var milliseconds sqldb.Int
		err := scan(&w.ID, &w.ServerKey, &startAt, &endAt, &start, &zone, &rule, &milliseconds, &w.Reason, &w.CreatedBy, &createdAt, &lastEndAt)
		w.StartAt, w.EndAt, w.CreatedAt, w.LastEndAt = startAt.Time, endAt.Time, createdAt.Time, lastEndAt.Time
		w.Start, w.Zone, w.Rule, w.Duration = string(start), string(zone), string(rule), time.Duration(milliseconds)*time.Millisecond
		windows = append(windows, w)
		return err
	}, args...)
	return windows, err
}

// AddWindow adds a window to a server, and returns it as stored, with the database's time.
func (s *Store) AddWindow(ctx context.Context, server string, w Window, actor string) (added Window, now time.Time, err error) {
	w = w.stored()
	err = s.db.Change(ctx, func(tx *sqldb.Tx) error {
		added = w
		found, err := judgedServer(ctx, tx, server)
		if err != nil {
			return err
		}
		if now, err = act(ctx, tx); err != nil {
			return err
		}
		if !w.LastEndAt.IsZero() && !w.LastEndAt.After(now) {
			return &PastError{EndAt: w.LastEndAt, Now: now}
		}
		var count int
		if _, err := tx.Row(ctx, "count_windows", []any{&count}, named("serverKey", found.Key)); err != nil {
			return err
		}
		if count >= MaxWindows {
			return &TooManyError{Server: found.Name}
		}
		added.ServerKey, added.CreatedBy, added.CreatedAt = found.Key, actor, now
		_, err = tx.Row(ctx, "insert_window", []any{&added.ID}, named("serverKey", found.Key), named("startAt", sqldb.NullText(w.StartAt)),
			named("endAt", sqldb.NullText(w.EndAt)), named("startLocal", sqldb.Null(w.Start)), named("zone", sqldb.Null(w.Zone)), named("rrule", sqldb.Null(w.Rule)),
			named("durationMs", sqldb.Null(w.Duration.Milliseconds())), named("reason", w.Reason), named("createdBy", actor),
			named("createdAt", sqldb.Text(now)), named("lastEndAt", sqldb.NullText(w.LastEndAt)))
		return err
	})
	return added, now, err
}

// stored is the window as it can be stored, in milliseconds. Ends are rounded up, so that the shortest window does not vanish.
func (w Window) stored() Window {
	w.StartAt, w.EndAt, w.LastEndAt = w.StartAt.UTC().Truncate(time.Millisecond), roundUp(w.EndAt), roundUp(w.LastEndAt)
	w.Duration = (w.Duration + time.Millisecond - 1).Truncate(time.Millisecond)
	if !w.EndAt.IsZero() {
		w.LastEndAt = w.EndAt
	}
	return w
}

func roundUp(at time.Time) time.Time {
	return at.UTC().Add(time.Millisecond - 1).Truncate(time.Millisecond)
}

// DeleteWindow removes a server's window; one in progress ends with it. Who did it is for the caller to log.
func (s *Store) DeleteWindow(ctx context.Context, server string, id int64) error {
	return s.db.Change(ctx, func(tx *sqldb.Tx) error {
		found, err := judgedServer(ctx, tx, server)
		if err != nil {
			return err
		}
		if _, err := act(ctx, tx); err != nil {
			return err
		}
		rows, err := tx.Exec(ctx, "delete_window", named("windowKey", id), named("serverKey", found.Key))
		if err == nil && rows == 0 {
			return &WindowNotFoundError{Server: found.Name, ID: id}
		}
		return err
	})
}
