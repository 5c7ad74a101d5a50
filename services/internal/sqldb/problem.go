package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"modernc.org/sqlite"
)

// More of SQLite's result codes, without their extension but for the last.
const (
	sqlitePerm          = 3
	sqliteReadonly      = 8
	sqliteInterrupt     = 9
	sqliteIO            = 10
	sqliteCorrupt       = 11
	sqliteFull          = 13
	sqliteCantOpen      = 14
	sqliteAuth          = 23
	sqliteNotADB        = 26
	sqliteReadonlyMoved = 1032 // SQLITE_READONLY_DBMOVED
)

// sqliteProblems says what keeps SQLite from writing, by result code.
var sqliteProblems = map[int]string{
	sqliteBusy:     "another process or transaction holds the lock of the database file",
	sqliteLocked:   "another connection holds the lock of the database file",
	sqlitePerm:     "the service may not write the database file",
	sqliteReadonly: "the database file, its folder or its file system is read-only",
	sqliteIO:       "the disk gave an error",
	sqliteCorrupt:  "the database file is damaged",
	sqliteFull:     "the disk, or what the database may use of it, is full",
	sqliteCantOpen: "the database file or its WAL cannot be opened",
	sqliteAuth:     "the service may not write the database file",
	sqliteNotADB:   "the file is no database, or is damaged",
}

// serverProblems says what keeps SQL Server from writing, by error number.
var serverProblems = map[int32]string{
	229: "the login has no right to write a table", 230: "the login has no right to write a column", 262: "the login lacks a right in the database",
	823: "the disk gave an error", 824: "a page of the database is damaged", 825: "the disk gives errors",
	916: "the login may not use the database", 945: "the database cannot be opened: files, memory or disk space are missing",
	926: "the database is marked suspect", 942: "the database is offline", 952: "the database is changing its state", 976: "the database is a secondary replica",
	978: "the database is a secondary replica", 983: "the database is a replica that is not synchronised", 1101: "a file group of the database is full",
	1105: "a file group of the database is full", 1222: "another transaction holds a lock", 3906: "the database is read-only",
	3908: "the database is in recovery", 4060: "the login cannot open the database", 9002: "the transaction log is full", 10928: "a limit of the database's resources is reached",
	10929: "a limit of the database's resources is reached", 18456: "the login is refused", 40197: "the database is failing over", 40501: "the database is too busy",
	40544: "the database has reached its maximum size", 40613: "the database is not available at present", 40549: "the database ended a transaction that took too long",
	49918: "the database is too busy", 49919: "the database is too busy", 49920: "the database is too busy",
}

// lastingNumbers of SQL Server stay until somebody grants a right, or gives another login.
var lastingNumbers = map[int32]bool{229: true, 230: true, 262: true, 18456: true}

// lasting reports whether a database's error stays however long one waits.
func lasting(err error) bool {
	var server mssql.Error
	if errors.As(err, &server) {
		return lastingNumbers[server.Number]
	}
	var file *sqlite.Error
	if errors.As(err, &file) {
		code := file.Code() & 0xff
		return code == sqliteReadonly || code == sqliteCorrupt || code == sqliteNotADB
	}
	return errors.Is(err, ErrReplaced)
}

// passing reports whether what ended a migration may be over at the next attempt: a lock, a lack of space, a lost connection or time.
// A statement that the database refuses is refused again.
func passing(err error) bool {
	var server mssql.Error
	var file *sqlite.Error
	switch {
	case Transient(err):
		return true
	case errors.As(err, &server):
		return serverProblems[server.Number] != ""
	case errors.As(err, &file):
		code := file.Code() & 0xff
		return sqliteProblems[code] != "" || code == sqliteInterrupt
	}
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.As(err, &network) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// unansweredAfter is how long a change waits for SQL Server at least before its end shows that writes do not work. A lock of another
// session on one of our tables gives no error of its own: only the caller's time ends, and the probe's row is of another table.
const unansweredAfter = 3 * time.Second

// unanswered is a change that SQL Server did not answer until its caller's time was over.
type unanswered struct {
	after time.Duration
	cause error
}

func (e *unanswered) Error() string {
	return fmt.Sprintf("no answer for %s: %s", e.after.Round(100*time.Millisecond), e.cause)
}

func (e *unanswered) Unwrap() error { return e.cause }

// asUnanswered makes an unanswered of a change's error if that is what it shows. A caller that gave up before its deadline shows nothing.
func (db *DB) asUnanswered(ctx context.Context, began time.Time, err error) error {
	deadline, bounded := ctx.Deadline()
	after := time.Since(began)
	if err == nil || db.Dialect != SQLServer || !bounded || time.Now().Before(deadline) || after < unansweredAfter {
		return err
	}
	if problem, _ := writeProblem(err); problem != "" {
		return err
	}
	return &unanswered{after: after, cause: err}
}

// WriteError says that a Change wrote nothing, since the database takes no writes. Problem is the cause in plain words.
type WriteError struct {
	Problem string
	cause   error
}

func (e *WriteError) Error() string {
	return "the database takes no writes: " + e.Problem + ": " + e.cause.Error()
}

// Unwrap returns the database's own error.
func (e *WriteError) Unwrap() error { return e.cause }

// asWriteError makes a WriteError of an error that shows that writes do not work, unless the change may be stored all the same.
func asWriteError(err error) error {
	problem, certain := writeProblem(err)
	if problem == "" || (errors.Is(err, ErrCommit) && !certain) {
		return err
	}
	return &WriteError{Problem: problem, cause: err}
}

// writeProblem also returns whether nothing is stored even if it was the commit that failed.
func writeProblem(err error) (problem string, certain bool) {
	if errors.Is(err, ErrReplaced) {
		return ErrReplaced.Error(), false
	}
	var server mssql.Error
	if errors.As(err, &server) && serverProblems[server.Number] != "" {
		return serverProblems[server.Number], false
	}
	var slow *unanswered
	if errors.As(err, &slow) {
		return "the database did not answer a change in time; another session may hold a lock", false
	}
	var file *sqlite.Error
	if !errors.As(err, &file) {
		return "", false
	}
	if file.Code() == sqliteReadonlyMoved {
		return ErrReplaced.Error(), false
	}
	code := file.Code() & 0xff
	return sqliteProblems[code], code == sqliteFull || code == sqliteReadonly
}

// written remembers how the last changes ended.
type written struct {
	mu      sync.Mutex
	at      time.Time // of the last that was committed
	failure error     // of the last that the database did not write
	failed  time.Time
	suspect chan struct{}
}

// note remembers how a change ended. What its caller gave up, or what the data are to blame for, shows nothing.
func (w *written) note(err error) {
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.at = time.Now()
		return
	}
	if problem, _ := writeProblem(err); problem == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failure, w.failed = err, time.Now()
	select {
	case w.suspect <- struct{}{}:
	default:
	}
}

// last is when a change was last committed, and when one last failed with which error.
func (w *written) last() (at, failed time.Time, failure error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at, w.failed, w.failure
}

// InWords is the problem of a database that is not usable, for people: the known cause before the database's own words.
func InWords(err error) string {
	if err == nil {
		return ""
	}
	if problem, _ := writeProblem(err); problem != "" {
		if errors.Is(err, ErrReplaced) {
			return problem
		}
		return problem + " (" + err.Error() + ")"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "the database did not answer in time (" + err.Error() + ")"
	}
	return err.Error()
}

// forget drops the failure, if it is still the one of that time.
func (w *written) forget(failed time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed.Equal(failed) {
		w.failure = nil
	}
}

// explain adds to the error of a transaction that did not begin in time why others failed lately: it waited behind them.
func (w *written) explain(err error) error {
	_, failed, failure := w.last()
	if failure == nil || time.Since(failed) > failureShown || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errors.Join(err, failure)
}
