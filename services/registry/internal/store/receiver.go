package store

import (
	"context"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// ReportAnswer notes whether an agent answered a command that was sent to it over the bus so long ago. One that was not answered counts
// only if none was answered since it was sent: the receiver was alive then. An agent that is not known is left alone.
func (s *Store) ReportAnswer(ctx context.Context, name enrollment.Name, answered bool, sentAge time.Duration) error {
	return s.db.Change(ctx, func(tx *sqldb.Tx) error {
		at, err := now(ctx, tx)
		if err != nil {
			return err
		}
		if answered {
			return noteReceiver(ctx, tx, "receiver_answered", enrollment.Receiver{AnsweredAt: at}, named("nameKey", name.Key), named("now", sqldb.Text(at)))
		}
		sentAt := at.Add(-sentAge)
		return noteReceiver(ctx, tx, "receiver_unanswered", enrollment.Receiver{Unanswered: 1, UnansweredSince: sentAt},
			named("nameKey", name.Key), named("now", sqldb.Text(at)), named("sentAt", sqldb.Text(sentAt)))
	})
}

// noteReceiver changes what is known of a receiver, or begins to know it. Two that begin at once: the second is run again.
func noteReceiver(ctx context.Context, tx *sqldb.Tx, statement string, first enrollment.Receiver, args ...any) error {
	rows, err := tx.Exec(ctx, statement, args...)
	if err != nil || rows > 0 {
		return err
	}
	_, err = tx.Exec(ctx, "insert_receiver", args[0], named("answeredAt", sqldb.NullText(first.AnsweredAt)),
		named("unanswered", first.Unanswered), named("unansweredSince", sqldb.NullText(first.UnansweredSince)))
	return err
}

// CountSuspectReceivers counts the agents whose receivers are to be taken for dead, of those that take commands over the bus.
func (s *Store) CountSuspectReceivers(ctx context.Context) (count int64, err error) {
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Row(ctx, "count_suspect_receivers", []any{&count}, named("suspectFrom", enrollment.SuspectFrom()), named("accepted", int(enrollment.Accepted)))
		return err
	})
	return count, err
}
