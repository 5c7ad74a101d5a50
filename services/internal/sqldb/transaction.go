package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"modernc.org/sqlite"
)

// attempts bounds how often a whole transaction is run.
const attempts = 5

// retryTime is how long a transaction is run again at most: SQLite alone waits 5 s for a lock, and callers are to hear of that.
const retryTime = 5 * time.Second

// Tx runs statements by name within a transaction.
type Tx struct {
	tx *sql.Tx
	db *DB
}

// View runs statements that change nothing: it always rolls back.
func (db *DB) View(ctx context.Context, run func(*Tx) error) error {
	return db.once(ctx, db.read, false, run)
}

// Change runs statements that change something, and commits. It is run again, whole, after a passing failure; so run must be
// idempotent and keep nothing from an earlier attempt. A *WriteError says that the database takes no writes.
func (db *DB) Change(ctx context.Context, run func(*Tx) error) error {
	began := time.Now()
	err := db.asUnanswered(ctx, began, db.change(ctx, run))
	db.written.note(err)
	return asWriteError(err)
}

func (db *DB) change(ctx context.Context, run func(*Tx) error) error {
	var before error // why the attempt before failed
	for attempt, began := 1, time.Now(); ; attempt++ {
		err := db.once(ctx, db.write, true, run)
		if ctx.Err() != nil && err != nil && !errors.Is(err, ErrCommit) {
			err = errors.Join(err, before)
		}
		if err == nil || attempt == attempts || !Transient(err) || time.Since(began) > retryTime {
			return err
		}
		before = err
		pause := time.NewTimer(time.Duration(attempt) * (10 + rand.N(time.Duration(40))) * time.Millisecond)
		select {
		case <-ctx.Done():
			pause.Stop()
			return errors.Join(err, ctx.Err())
		case <-pause.C:
		}
	}
}

func (db *DB) once(ctx context.Context, pool *sql.DB, commit bool, run func(*Tx) error) error {
	if err := db.usable(commit); err != nil {
		return err
	}
	tx, err := pool.BeginTx(ctx, &sql.TxOptions{ReadOnly: !commit && db.Dialect == SQLite})
	if err != nil && commit {
		return db.written.explain(err)
	}
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing; after a failure the failure is what counts
	if commit && db.Dialect == SQLServer {
		// So that no failure leaves half of a transaction open. It has no parameter and is sent as it stands: within a statement
		// with parameters it would end with that. The driver resets it with the connection's next use.
		if _, err := tx.ExecContext(ctx, "SET XACT_ABORT ON"); err != nil {
			return fmt.Errorf("SET XACT_ABORT ON: %w", err)
		}
	}
	if err := run(&Tx{tx: tx, db: db}); err != nil {
		return err
	}
	if !commit {
		return nil
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", ErrCommit, err)
	}
	if err := db.files.check(); err != nil { // replaced meanwhile: it was written to a file that is gone, or to the one that is there
		return fmt.Errorf("%w: %w", ErrCommit, err)
	}
	return nil
}

// usable refuses files that were replaced. Before each write it looks; before a read it goes by what was found before.
func (db *DB) usable(writing bool) error {
	if writing {
		return db.files.check()
	}
	return db.files.refused()
}

// Rows runs a named statement within the transaction and calls scan for every row.
func (t *Tx) Rows(ctx context.Context, name string, scan func(scan func(dest ...any) error) error, args ...any) error {
	text, err := t.db.statement(name)
	if err != nil {
		return err
	}
	rows, err := t.tx.QueryContext(ctx, t.db.onClock(text), t.db.bound(args)...)
	if err == nil && strings.Contains(text, ownResult) {
		skipOthers(rows)
	}
	return read(name, rows, err, scan)
}

// ownResult names the first column that a statement selects which writes a table of another codebase: triggers there may give result sets too.
const ownResult = "OwnResult"

// skipOthers goes on to the result set that is the statement's own. Where none is, rows is at its end, or has the error that tells why.
func skipOthers(rows *sql.Rows) {
	for {
		if columns, err := rows.Columns(); err == nil && len(columns) > 0 && strings.EqualFold(columns[0], ownResult) {
			return
		}
		for rows.Next() { // the driver sees the next result set only at the end of this one
		}
		if !rows.NextResultSet() {
			return
		}
	}
}

// Rows runs a named statement that reads, in no transaction but its own, and calls scan for every row. It is prepared once.
func (db *DB) Rows(ctx context.Context, name string, scan func(scan func(dest ...any) error) error, args ...any) error {
	if err := db.usable(false); err != nil {
		return err
	}
	if offset := db.offset(); offset != 0 {
		text, err := db.statement(name)
		if err != nil {
			return err
		}
		rows, err := db.read.QueryContext(ctx, onClock(db.Dialect, text, offset), db.bound(args)...)
		return read(name, rows, err, scan)
	}
	statement, err := db.prepare(ctx, name)
	if err != nil {
		return err
	}
	rows, err := statement.QueryContext(ctx, db.bound(args)...)
	return read(name, rows, err, scan)
}

func (db *DB) prepare(ctx context.Context, name string) (*sql.Stmt, error) {
	if found, ok := db.prepared.Load(name); ok {
		return found.(*sql.Stmt), nil
	}
	text, err := db.statement(name)
	if err != nil {
		return nil, err
	}
	statement, err := db.read.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if found, raced := db.prepared.LoadOrStore(name, statement); raced {
		return found.(*sql.Stmt), statement.Close()
	}
	return statement, nil
}

// read reads rows to the end and returns late errors.
func read(name string, rows *sql.Rows, err error, scan func(scan func(dest ...any) error) error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Row runs a named statement that gives at most one row, and tells whether it did.
func (t *Tx) Row(ctx context.Context, name string, dest []any, args ...any) (bool, error) {
	found := false
	err := t.Rows(ctx, name, func(scan func(...any) error) error {
		found = true
		return scan(dest...)
	}, args...)
	return found, err
}

// Exec runs a named statement and tells how many rows it changed.
func (t *Tx) Exec(ctx context.Context, name string, args ...any) (int64, error) {
	text, err := t.db.statement(name)
	if err != nil {
		return 0, err
	}
	result, err := t.tx.ExecContext(ctx, t.db.onClock(text), t.db.bound(args)...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return result.RowsAffected()
}

// ExecText runs a statement that had to be put together, such as an INSERT with columns known only from configuration.
func (t *Tx) ExecText(ctx context.Context, text string, args ...any) error {
	_, err := t.tx.ExecContext(ctx, text, t.db.bound(args)...)
	return err
}

func (db *DB) statement(name string) (string, error) {
	text, ok := db.statements[name]
	if !ok {
		return "", fmt.Errorf("no statement %s for %s", name, db.Dialect)
	}
	return text, nil
}

// transientNumbers of SQL Server: deadlock victim, and Azure SQL's busy, failing over and throttled.
var transientNumbers = map[int32]bool{1205: true, 40197: true, 40501: true, 40613: true, 49918: true, 49919: true, 49920: true}

// uniqueNumbers are violations of a unique index or constraint: another transaction inserted first.
var uniqueNumbers = map[int32]bool{2627: true, 2601: true}

// SQLite's result codes, without their extension.
const (
	sqliteBusy       = 5
	sqliteLocked     = 6
	sqliteConstraint = 19
	sqliteUnique     = 2067
	sqliteRowidTaken = 1555
)

// ErrCommit marks a commit that was not confirmed: what the transaction did is stored or it is not. After any other error of a
// Change nothing is stored.
var ErrCommit = errors.New("the commit was not confirmed")

// ErrConflict is returned by a Change that found another transaction's work in its way; the whole is run again.
var ErrConflict = errors.New("changed by another transaction meanwhile")

// Transient tells whether running the whole transaction again may succeed.
func Transient(err error) bool {
	var server mssql.Error
	if errors.As(err, &server) {
		return transientNumbers[server.Number] || uniqueNumbers[server.Number]
	}
	var file *sqlite.Error
	if errors.As(err, &file) {
		code := file.Code() & 0xff
		return code == sqliteBusy || code == sqliteLocked || Unique(err)
	}
	return errors.Is(err, ErrConflict)
}

// Unique tells a violation of a unique index.
func Unique(err error) bool {
	var server mssql.Error
	if errors.As(err, &server) {
		return uniqueNumbers[server.Number]
	}
	var file *sqlite.Error
	return errors.As(err, &file) && (file.Code() == sqliteUnique || file.Code() == sqliteRowidTaken)
}

// dataNumbers of SQL Server are faults of the values themselves. They are listed, and not told by their class: class 16 also
// holds a read-only secondary (3906), a missing table (208), a lock timeout (1222) and Azure's resource limits (10928, 10929),
// for which no value is to blame.
var dataNumbers = map[int32]bool{
	220: true, 8115: true, // overflow of a number
	241: true, 242: true, 245: true, 8114: true, // a text that is no instant or number
	515: true, 547: true, // NULL, CHECK
	2628: true, 8152: true, // too long
	13609: true, // text that is no JSON
}

// Rejected tells an error that the database will give again for the same data: the data is at fault, not the database.
func Rejected(err error) bool {
	var server mssql.Error
	if errors.As(err, &server) {
		return dataNumbers[server.Number]
	}
	var file *sqlite.Error
	if errors.As(err, &file) {
		return file.Code()&0xff == sqliteConstraint && !Unique(err) || strings.Contains(file.Error(), "malformed JSON")
	}
	return false
}
