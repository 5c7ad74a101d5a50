package store

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

// maxDetail is the length of a status's detail, in characters.
const maxDetail = 1024

// advance moves the one state row on. Its lock is held until the end, so that revisions become visible in their order.
func advance(ctx context.Context, tx *sqldb.Tx, acts int, secondWriterAt time.Time) (revision int64, now time.Time, err error) {
	var at sqldb.Time
	_, err = tx.Row(ctx, "advance", []any{&revision, &at}, named("acts", acts), named("secondWriterAt", sqldb.NullText(secondWriterAt)))
	return revision, at.Time, err
}

// act counts an operator's act, and tells the database's time.
func act(ctx context.Context, tx *sqldb.Tx) (time.Time, error) {
	_, now, err := advance(ctx, tx, 1, time.Time{})
	return now, err
}

// Record writes what one sweep decided, in one transaction that holds the lease from its first statement on (I-15). It may run
// again after its commit was not answered: what is as it should be is not changed again, and not logged again (I-9).
func (s *Store) Record(ctx context.Context, sweep Sweep) (Recorded, error) {
	var done Recorded
	err := s.db.Change(ctx, func(tx *sqldb.Tx) error {
		done = Recorded{}
		var err error
		if done.Lease, done.At, err = hold(ctx, tx, sweep.Token, sweep.LeaseDuration); err != nil {
			return err
		}
		if sweep.Own {
			if err := done.setOnline(ctx, tx, sweep.Changes); err != nil {
				return err
			}
		}
		return done.show(ctx, tx, sweep)
	})
	if err != nil {
		return Recorded{}, err
	}
	return done, nil
}

// setOnline changes the rows that really differ, and logs those that went offline.
func (done *Recorded) setOnline(ctx context.Context, tx *sqldb.Tx, changes []verdict.Change) error {
	if len(changes) == 0 {
		return nil
	}
	rows := make([][2]int64, 0, len(changes))
	for _, change := range changes {
		rows = append(rows, [2]int64{change.Key, flagOf(change.Online)})
	}
	wanted, err := batch("batch", rows)
	if err != nil {
		return err
	}
	err = tx.Rows(ctx, "set_online", func(scan func(...any) error) error {
		var key int64
		var online sqldb.Int
		err := scan(&key, &online)
		if online == 1 {
			done.Online = append(done.Online, key)
		} else {
			done.Offline = append(done.Offline, key)
		}
		return err
	}, wanted)
	slices.Sort(done.Online)
	slices.Sort(done.Offline)
	if err != nil || len(done.Offline) == 0 {
		return err
	}
	offline, err := batch("keys", done.Offline)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "log_offline", offline, named("now", sqldb.Text(done.At)))
	return err
}

// show writes what is shown, and moves the revision on if there is anything.
func (done *Recorded) show(ctx context.Context, tx *sqldb.Tx, sweep Sweep) error {
	stored, err := readPaths(ctx, tx)
	if err != nil {
		return err
	}
	paths := pathRows(sweep.Paths, stored)
	marks := done.marks(sweep.SecondWriters)
	if len(sweep.Statuses) == 0 && len(marks) == 0 && len(paths) == 0 {
		return nil
	}
	var secondWriterAt time.Time
	if len(sweep.SecondWriters) > 0 {
		secondWriterAt = done.At
	}
	revision, _, err := advance(ctx, tx, 0, secondWriterAt)
	if err != nil {
		return err
	}
	if err := write(ctx, tx, "write_statuses", statusRows(sweep.Statuses), named("revision", revision)); err != nil {
		return err
	}
	if err := write(ctx, tx, "mark_statuses", marks, named("revision", revision), named("now", sqldb.Text(done.At))); err != nil {
		return err
	}
	return write(ctx, tx, "write_paths", paths)
}

func write(ctx context.Context, tx *sqldb.Tx, statement string, rows [][]any, args ...any) error {
	if len(rows) == 0 {
		return nil
	}
	encoded, err := batch("batch", rows)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, statement, append([]any{encoded}, args...)...)
	return err
}

// marks are the servers that show something new beside their status: an Online that was changed, by us or by another writer.
func (done *Recorded) marks(secondWriters []int64) [][]any {
	rows := make([][]any, 0, len(secondWriters)+len(done.Online)+len(done.Offline))
	marked := make(map[int64]bool, len(secondWriters))
	for _, key := range secondWriters {
		marked[key] = true
		rows = append(rows, []any{key, 1})
	}
	for _, key := range slices.Concat(done.Online, done.Offline) {
		if !marked[key] {
			rows = append(rows, []any{key, 0})
		}
	}
	return rows
}

// Shortened is a status's detail as it is stored.
func Shortened(detail string) string {
	if utf8.RuneCountInString(detail) > maxDetail {
		return string([]rune(detail)[:maxDetail])
	}
	return detail
}

func statusRows(statuses []Status) [][]any {
	rows := make([][]any, 0, len(statuses))
	for _, s := range statuses {
		detail := Shortened(s.Detail)
		rows = append(rows, []any{
			s.Key, int(s.Verdict.Availability), string(s.Verdict.Reason), detail, flagOf(s.Online), flagOf(s.Maintenance),
			string(s.Held), int(s.HeldPath), sqldb.NullText(s.Verdict.HeardAt), int(s.Verdict.Path), sqldb.Text(s.Since),
		})
	}
	return rows
}

// pathRows are the paths that differ from what is stored. The order is left alone, but for one that the sweep obeyed and that
// ended with its mass: that one is named by its instant.
func pathRows(paths, stored verdict.PerPath[Path]) [][]any {
	var rows [][]any
	for i, path := range paths {
		var ended any
		if path.State.Brake.Order == verdict.NoOrder {
			ended = sqldb.NullText(path.OrderedAt)
		}
		row := append(pathRow(i, path), ended)
		if !slices.Equal(row, append(pathRow(i, stored[i]), nil)) {
			rows = append(rows, row)
		}
	}
	return rows
}

func pathRow(index int, p Path) []any {
	brake := p.State.Brake
	return []any{
		index, sqldb.NullText(p.State.FrozenSince), sqldb.NullText(brake.Since), brake.Proofs, sqldb.NullText(brake.JudgedAt),
		string(p.Blind), flagOf(p.Braked), p.Crowd.Online, p.Crowd.Silent, p.Held,
		sqldb.Null(p.Broker.Ahead.Milliseconds()), sqldb.Null(p.Broker.Within.Milliseconds()),
		sqldb.NullText(p.StartingUntil),
	}
}
