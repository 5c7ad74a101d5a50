package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb"
)

func readWindows(ctx context.Context, from reader, statement string, args ...any) ([]Window, error) {
	var windows []Window
	err := from.Rows(ctx, statement, func(scan func(...any) error) error {
		var w Window
		var startAt, endAt, createdAt, lastEndAt sqldb.Time
		var start, zone, rule, ends sqldb.String
		var milliseconds sqldb.Int
		err := scan(&w.ID, &w.ServerKey, &startAt, &endAt, &start, &zone, &rule, &milliseconds, &ends, &w.Reason, &w.CreatedBy, &createdAt, &lastEndAt)
		w.StartAt, w.EndAt, w.CreatedAt, w.LastEndAt = startAt.Time, endAt.Time, createdAt.Time, lastEndAt.Time
		w.Start, w.Zone, w.Rule, w.Ends = string(start), string(zone), string(rule), string(ends)
		if w.Ends == "" {
			w.Duration = time.Duration(milliseconds) * time.Millisecond
		}
		windows = append(windows, w)
		return err
	}, args...)
	return windows, err
}

// keyLifetime is how long the key under which a window was made is remembered.
const keyLifetime = 24 * time.Hour

// AddWindow adds a window to a server, and returns it as stored, with the database's time. If the key is not empty and a window was made
// under it lately, that one is returned, and none is added.
func (s *Store) AddWindow(ctx context.Context, server string, w Window, actor, key string) (added Window, now time.Time, err error) {
	w = w.stored()
	err = s.db.Change(ctx, func(tx *sqldb.Tx) error {
		found, err := s.judgedServer(ctx, tx, server)
		if err != nil {
			return err
		}
		added = w
		added.ServerKey, added.CreatedBy = found.Key, actor
		hash := added.hash()
		if key != "" {
			made, at, err := madeUnder(ctx, tx, key, hash)
			if err != nil || made != nil {
				if made != nil {
					added, now = *made, at
				}
				return err
			}
		}
		if now, err = act(ctx, tx); err != nil {
			return err
		}
		if err := insertWindow(ctx, tx, found, &added, now); err != nil || key == "" {
			return err
		}
		return rememberKey(ctx, tx, key, hash, added.ID, now)
	})
	return added, now, err
}

func insertWindow(ctx context.Context, tx *sqldb.Tx, server Server, w *Window, now time.Time) error {
	if !w.LastEndAt.IsZero() && !w.LastEndAt.After(now) {
		return &PastError{EndAt: w.LastEndAt, Now: now}
	}
	var count int
	if _, err := tx.Row(ctx, "count_windows", []any{&count}, named("serverKey", server.Key)); err != nil {
		return err
	}
	if count >= MaxWindows {
		return &TooManyError{Server: server.Name}
	}
	occurs, err := w.Window()
	if err != nil {
		return err
	}
	w.CreatedAt = now
	_, err = tx.Row(ctx, "insert_window", []any{&w.ID}, named("serverKey", server.Key), named("startAt", sqldb.NullText(w.StartAt)),
		named("endAt", sqldb.NullText(w.EndAt)), named("startLocal", sqldb.Null(w.Start)), named("zone", sqldb.Null(w.Zone)), named("rrule", sqldb.Null(w.Rule)),
		named("durationMs", sqldb.Null(occurs.Nominal().Milliseconds())), named("ends", sqldb.Null(w.Ends)), named("reason", w.Reason),
		named("createdBy", w.CreatedBy), named("createdAt", sqldb.Text(now)), named("lastEndAt", sqldb.NullText(w.LastEndAt)))
	return err
}

// madeUnder returns the window that was made under a key, with the database's time; nil if none was.
func madeUnder(ctx context.Context, tx *sqldb.Tx, key, hash string) (*Window, time.Time, error) {
	var id int64
	var was string
	found, err := tx.Row(ctx, "maintenance_key", []any{&id, &was}, named("key", key))
	if err != nil || !found {
		return nil, time.Time{}, err
	}
	if was != hash {
		return nil, time.Time{}, &KeyReusedError{Key: key}
	}
	made, err := readWindows(ctx, tx, "window", named("windowKey", id))
	if err != nil {
		return nil, time.Time{}, err
	}
	if len(made) == 0 {
		return nil, time.Time{}, &MadeAndGoneError{Key: key, ID: id}
	}
	at, err := readState(ctx, tx)
	return &made[0], at.now, err
}

// rememberKey fails where another replica was first under the key: the whole is run again, and finds that one's window.
func rememberKey(ctx context.Context, tx *sqldb.Tx, key, hash string, id int64, now time.Time) error {
	if _, err := tx.Exec(ctx, "prune_maintenance_keys", named("before", sqldb.Text(now.Add(-keyLifetime)))); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "insert_maintenance_key", named("key", key), named("windowKey", id), named("hash", hash), named("createdAt", sqldb.Text(now)))
	return err
}

// hash is of all that a request for the window says, and of who made it.
func (w Window) hash() string {
	said, _ := json.Marshal([]any{ // only numbers, texts and times: it cannot fail
		w.ServerKey, w.StartAt, w.EndAt, w.Start, w.Zone, w.Rule, w.Duration, w.Ends, w.Reason, w.CreatedBy,
	})
	sum := sha256.Sum256(said)
	return hex.EncodeToString(sum[:])
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
		found, err := s.judgedServer(ctx, tx, server)
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
