package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commandcenter/fleet/services/internal/lifecycle"
)

// Dialect names the set of statements a database understands.
type Dialect string

// The dialects; each is also the name of its folder of statements.
const (
	SQLServer Dialect = "sqlserver"
	SQLite    Dialect = "sqlite"
)

// Pool limits. Azure drops connections that idle for 30 min.
const (
	maxConnections  = 16
	connMaxLifetime = 20 * time.Minute
)

// DB is one database with its statements.
type DB struct {
	Dialect    Dialect
	statements map[string]string
	// read and write are one pool for SQL Server. SQLite has a single writer, so that writers queue here and not in the file.
	read, write *sql.DB
	prepared    sync.Map     // name to *sql.Stmt, of the read pool
	step        atomic.Int64 // of the clock, in nanoseconds; see StepClock
	files       *files       // nil for SQL Server
	written     written
}

// CheckURL tells what is wrong with a database URL, without connecting.
func CheckURL(text string) error {
	_, _, err := source(text)
	return err
}

// Open prepares the pool; statements holds <dialect>/<name>.sql. Nothing is connected to until the first statement.
func Open(text string, statements fs.FS) (*DB, error) {
	dialect, name, err := source(text)
	if err != nil {
		return nil, err
	}
	db := &DB{Dialect: dialect, written: written{suspect: make(chan struct{}, 1)}}
	if db.statements, err = Statements(statements, dialect); err != nil {
		return nil, err
	}
	if dialect == SQLServer {
		connector, err := newSQLServerConnector(name)
		if err != nil {
			return nil, err
		}
		db.write = sql.OpenDB(connector)
		db.read = db.write
		db.write.SetConnMaxLifetime(connMaxLifetime)
		db.write.SetMaxOpenConns(maxConnections)
		// By default two are kept, and each burst would log in again and let the server make its plans once more.
		db.write.SetMaxIdleConns(maxConnections)
		return db, nil
	}
	db.files = newFiles(strings.TrimPrefix(text, sqliteScheme))
	return db, db.openFile(name)
}

// openFile makes the two pools of a SQLite file.
func (db *DB) openFile(name string) error {
	writing, err := db.files.connector(name)
	if err != nil {
		return err
	}
	reading, err := db.files.connector(name + "&_pragma=query_only(1)")
	if err != nil {
		return err
	}
	db.write, db.read = sql.OpenDB(writing), sql.OpenDB(reading)
	db.write.SetMaxOpenConns(1)
	db.read.SetMaxOpenConns(max(4, runtime.NumCPU()))
	db.read.SetMaxIdleConns(max(4, runtime.NumCPU()))
	return nil
}

// sqliteScheme begins the URL of a database file.
const sqliteScheme = "sqlite:"

// source turns a URL into a driver's data source name.
func source(text string) (Dialect, string, error) {
	if path, ok := strings.CutPrefix(text, sqliteScheme); ok {
		if path == "" || strings.ContainsAny(path, "?#") {
			return "", "", errors.New("must be sqlite:<path of a file>, without parameters")
		}
		// A transaction that will write takes its lock at once, so that two never wait for each other to give way.
		return SQLite, "file:" + (&url.URL{Path: path}).EscapedPath() +
			"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)", nil
	}
	name, err := sqlServerSource(text)
	return SQLServer, name, err
}

// closeLimit is how long Close waits: a stop is to end within 10 s, whatever the database does.
const closeLimit = time.Second

// Close closes the pool. What does not close in time is left behind: nothing that was committed depends on it.
func (db *DB) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	err := lifecycle.Leave(ctx, db.close)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return fmt.Errorf("the database did not close within %s and is left behind: %w", closeLimit, err)
	}
	return err
}

func (db *DB) close() error {
	if db.files != nil {
		closeRaw, err := db.files.close()
		return errors.Join(err, db.read.Close(), db.write.Close(), closeRaw())
	}
	return db.write.Close()
}

// Ping tells whether the database answers.
func (db *DB) Ping(ctx context.Context) error { return db.read.PingContext(ctx) }

// Writer is the pool that migrations run on.
func (db *DB) Writer() *sql.DB { return db.write }

// Statements reads a dialect's statements by name.
func Statements(files fs.FS, dialect Dialect) (map[string]string, error) {
	found := map[string]string{}
	names, err := fs.Glob(files, string(dialect)+"/*.sql")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		short := strings.TrimSuffix(strings.TrimPrefix(name, string(dialect)+"/"), ".sql")
		// SQLite's driver takes anything behind the statement, even a line feed, for a second one, and parses each run twice.
		found[short] = strings.TrimSpace(string(text))
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no statements for %s", dialect)
	}
	return found, nil
}
