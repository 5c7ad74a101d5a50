package store

import (
	"context"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb"
)

// LogCursor is where a page of the offline log ended. The log has no key, so entries of one instant are told apart by number:
// new ones come at the other end and move nothing.
type LogCursor struct {
	LastAt time.Time // the last entry shown
	Shown  int       // how many entries of that very instant were shown
}

// LogSpan is the part of the log that is read; a zero time is no bound.
type LogSpan struct {
	StartAt, EndAt time.Time // StartAt is included, EndAt is not
	OldestFirst    bool
}

// OfflineLog reads a page of a server's transitions to offline, and where the next one begins (nil on the last).
// The server may be of any type.
func (s *Store) OfflineLog(ctx context.Context, server string, span LogSpan, limit int, after *LogCursor) (entries []time.Time, next *LogCursor, err error) {
	if after == nil {
		after = &LogCursor{}
	}
	s.names.Refresh(ctx)
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		entries, next = nil, nil
		found, _, err := s.oneServer(ctx, tx, server)
		if err != nil {
			return err
		}
		last, statement := *after, "offline_log"
		if span.OldestFirst {
			statement = "offline_log_oldest"
		}
		return tx.Rows(ctx, statement, func(scan func(...any) error) error {
			var at sqldb.Time
			err := scan(&at)
			if len(entries) == limit {
				next = &LogCursor{last.LastAt, last.Shown}
				return err
			}
			if !at.Time.Equal(last.LastAt) {
				last = LogCursor{LastAt: at.Time}
			}
			last.Shown++
			entries = append(entries, at.Time)
			return err
		}, named("serverKey", found.Key), named("startAt", sqldb.NullText(span.StartAt)), named("endAt", sqldb.NullText(span.EndAt)),
			named("lastAt", sqldb.NullText(after.LastAt)), named("limit", limit+1), named("skip", after.Shown))
	})
	return entries, next, err
}
