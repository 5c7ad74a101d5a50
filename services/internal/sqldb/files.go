package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"
)

// ErrReplaced says that the database file, or a file that SQLite keeps beside it, is not the one that was opened. What is read would be
// of a file that is gone, and what is written would be lost with it, so that nothing is read or written until a restart.
var ErrReplaced = errors.New("the database file was replaced, overwritten, moved or deleted while it was in use; nothing is read or written any more: " +
	"see which file is the right one, then restart the service")

// files watches over a SQLite database's files. SQLite itself reads and writes on in files that have no name any more.
//
// A file that is overwritten in place keeps its name and its number. It is known by its mark, see mark.go.
//
// Opening one of the files and closing it again would drop SQLite's locks on it (POSIX), so that they are looked at by name, and the
// database also through one descriptor that stays open for as long as a connection is.
type files struct {
	paths    [3]string // the database, its WAL, and the WAL's index
	replaced atomic.Bool
	opening  chan struct{} // holds a value while the guard is being opened

	mu    sync.Mutex
	guard driver.Conn // stays open, so that SQLite itself never deletes the WAL, as it does with the last connection
	known [3]fs.FileInfo
	raw   *os.File // the database, as it is on the disk
	mark  mark     // the last that was found there
}

func newFiles(path string) *files {
	return &files{paths: [3]string{path, path + "-wal", path + "-shm"}, opening: make(chan struct{}, 1)}
}

// connector opens connections as long as the files are those that were opened first.
func (f *files) connector(name string) (driver.Connector, error) {
	inner, err := sqlite.NewConnector(name)
	return fileConnector{Connector: inner, files: f}, err
}

type fileConnector struct {
	driver.Connector
	files *files
}

// Connect implements driver.Connector.
func (c fileConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.files.hold(ctx, c.Connector); err != nil {
		return nil, err
	}
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.files.check(); err != nil { // replaced while it was opened
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// hold opens the guard before any other connection, and notes which files they are.
func (f *files) hold(ctx context.Context, connector driver.Connector) error {
	select {
	case f.opening <- struct{}{}:
		defer func() { <-f.opening }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := f.check(); err != nil || f.held() {
		return err
	}
	guard, err := connector.Connect(ctx)
	if err != nil {
		return err
	}
	if err := f.note(ctx, guard); err != nil {
		return errors.Join(err, guard.Close())
	}
	return nil
}

func (f *files) held() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.guard != nil
}

// note keeps the guard, and remembers the files that are there.
func (f *files) note(ctx context.Context, guard driver.Conn) error {
	// The WAL is opened with the first read.
	rows, err := guard.(driver.QueryerContext).QueryContext(ctx, "SELECT COUNT(*) FROM sqlite_schema", nil)
	if err != nil {
		return err
	}
	err = rows.Next(make([]driver.Value, 1))
	if err = errors.Join(err, rows.Close()); err != nil {
		return err
	}
	raw, err := descriptors.open(f.paths[0])
	if err != nil {
		return err
	}
	first, err := readMark(raw)
	if err != nil {
		return errors.Join(err, descriptors.close(f.paths[0], raw))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, path := range f.paths {
		found, err := os.Stat(path)
		if err != nil && (i == 0 || !errors.Is(err, fs.ErrNotExist)) {
			return errors.Join(err, descriptors.close(f.paths[0], raw))
		}
		f.known[i] = found // nil where there is none, as beside a database that is not in WAL mode
	}
	f.guard, f.raw, f.mark = guard, raw, first
	return nil
}

// check returns ErrReplaced once one of the files is another one. A nil receiver has no files.
func (f *files) check() error {
	if f == nil {
		return nil
	}
	if f.replaced.Load() {
		return ErrReplaced
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.guard == nil {
		return nil
	}
	for i, path := range f.paths {
		if f.known[i] == nil {
			continue
		}
		found, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || (err == nil && !os.SameFile(found, f.known[i])) {
			f.replaced.Store(true)
			return fmt.Errorf("%s: %w", path, ErrReplaced)
		}
	}
	found, err := readMark(f.raw)
	if err != nil {
		return fmt.Errorf("the database file's mark cannot be read: %w", err)
	}
	if !found.follows(f.mark) {
		f.replaced.Store(true)
		return fmt.Errorf("%s was overwritten: %w", f.paths[0], ErrReplaced)
	}
	f.mark = found
	return nil
}

// refused is what check found earlier, without looking again.
func (f *files) refused() error {
	if f != nil && f.replaced.Load() {
		return ErrReplaced
	}
	return nil
}

// close closes the guard, and returns what closes the descriptor after the other connections. The guard of files that were replaced stays open until the process ends: the last connection deletes the WAL,
// by its name, and that name is another database's by now.
func (f *files) close() (closeRaw func() error, err error) {
	nothing := func() error { return nil }
	if f.check() != nil {
		return nothing, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.guard == nil {
		return nothing, nil
	}
	guard, raw := f.guard, f.raw
	f.guard, f.raw = nil, nil
	return func() error { return descriptors.close(f.paths[0], raw) }, guard.Close()
}
