package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"
)

// probed is a database with the row that is read and written, in a file at path.
func probed(t *testing.T, path string) (*DB, *Health, *atomic.Bool) {
	t.Helper()
	db, err := Open("sqlite:"+path, fstest.MapFS{
		"sqlite/probe_read.sql":  {Data: []byte("SELECT ProbedAt FROM P WHERE K = 1")},
		"sqlite/probe_write.sql": {Data: []byte("UPDATE P SET ProbedAt = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE K = 1")},
		"sqlite/add.sql":         {Data: []byte("INSERT INTO T (V) VALUES (@v)")},
		"sqlite/count.sql":       {Data: []byte("SELECT COUNT(*) FROM T")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS P (K INTEGER PRIMARY KEY, ProbedAt TEXT NOT NULL)", "INSERT OR IGNORE INTO P VALUES (1, '2026-01-01T00:00:00.000Z')",
		"CREATE TABLE IF NOT EXISTS T (V TEXT)",
	} {
		if _, err := db.Writer().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	serving := &atomic.Bool{}
	health := NewHealth(db, HealthOptions{Logger: slog.New(slog.DiscardHandler), Serving: serving.Store})
	return db, health, serving
}

func add(t *testing.T, db *DB, value string) error {
	t.Helper()
	return db.Change(t.Context(), func(tx *Tx) error { _, err := tx.Exec(t.Context(), "add", sql.Named("v", value)); return err })
}

// refusal is what a change must say, and what Health must say then of writes.
func refusal(t *testing.T, db *DB, health *Health, serving *atomic.Bool, reads bool, want string) {
	t.Helper()
	err := add(t, db, "x")
	var unwritten *WriteError
	if !errors.As(err, &unwritten) || !strings.Contains(unwritten.Problem, want) {
		t.Errorf("a change says %v, want %q", err, want)
	}
	health.Look(t.Context())
	if err := health.Writes(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "since ") {
		t.Errorf("writes: %v, want %q", err, want)
	}
	if (health.Reads() == nil) != reads || serving.Load() != reads {
		t.Errorf("reads: %v, serving %v, want %v", health.Reads(), serving.Load(), reads)
	}
}

func works(t *testing.T, health *Health, serving *atomic.Bool) {
	t.Helper()
	health.Look(t.Context())
	if health.Reads() != nil || health.Writes() != nil || !serving.Load() {
		t.Fatalf("reads: %v, writes: %v, serving %v", health.Reads(), health.Writes(), serving.Load())
	}
}

// While another process holds the lock, reads go on, and writes are said not to work, with the cause.
func TestALockedDatabaseIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	db, health, serving := probed(t, path)
	works(t, health, serving)
	other, err := sql.Open("sqlite", "file:"+path) // a connection of its own is to the file what a process is
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	conn, err := other.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Writer().ExecContext(t.Context(), "PRAGMA busy_timeout = 50"); err != nil {
		t.Fatal(err)
	}
	refusal(t, db, health, serving, true, "holds the lock")
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := add(t, db, "x"); err != nil {
		t.Fatal(err)
	}
	db.written.failed = db.written.failed.Add(-failureShown) // that long ago
	works(t, health, serving)
}

func TestADatabaseThatIsReadOnlyIsTold(t *testing.T) {
	db, health, serving := probed(t, filepath.Join(t.TempDir(), "fleet.db"))
	if _, err := db.Writer().ExecContext(t.Context(), "PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	refusal(t, db, health, serving, true, "read-only")
}

// One row fits where others do not: what failed is told, whatever the probe says.
func TestADatabaseThatIsFullIsTold(t *testing.T) {
	db, health, serving := probed(t, filepath.Join(t.TempDir(), "fleet.db"))
	works(t, health, serving)
	if _, err := db.Writer().ExecContext(t.Context(), "PRAGMA max_page_count = 1"); err != nil { // the least is what it has
		t.Fatal(err)
	}
	if err := add(t, db, strings.Repeat("x", 1<<16)); err == nil || !strings.Contains(err.Error(), "full") {
		t.Fatal(err)
	}
	health.Look(t.Context())
	if err := health.Writes(); err == nil || !strings.Contains(err.Error(), "is full") || health.Reads() != nil {
		t.Errorf("writes: %v, reads: %v", err, health.Reads())
	}
}

func TestADamagedDatabaseIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	db, _, _ := probed(t, path)
	for range 200 { // pages that are in no cache
		if err := add(t, db, strings.Repeat("x", 4000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte(strings.Repeat("\xff", int(size)-4096)), 4096); err != nil { // all but the first page
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	statements := fstest.MapFS{"sqlite/probe_read.sql": {Data: []byte("SELECT ProbedAt FROM P WHERE K = 1")}, "sqlite/probe_write.sql": {Data: []byte("UPDATE P SET ProbedAt = '' WHERE K = 1")}, "sqlite/add.sql": {Data: []byte("INSERT INTO T (V) VALUES (@v)")}}
	damaged, err := Open("sqlite:"+path, statements)
	if err != nil {
		t.Fatal(err)
	}
	defer damaged.Close()
	serving := &atomic.Bool{}
	health := NewHealth(damaged, HealthOptions{Logger: slog.New(slog.DiscardHandler), Serving: serving.Store})
	refusal(t, damaged, health, serving, false, "is damaged")
}

// A file that was replaced is neither written nor read any more, whichever of the three it is.
func TestReplacedFilesAreRefused(t *testing.T) {
	for what, replace := range map[string]func(t *testing.T, path string){
		"an older copy overwrites it": func(t *testing.T, path string) {
			content, err := os.ReadFile(path + ".backup")
			must(t, err)
			overwrite(t, path, content)
		},
		"another database overwrites it": func(t *testing.T, path string) {
			other, _ := strings.CutSuffix(path, ".db")
			db, health, serving := probed(t, other+"-other.db")
			for range 4 {
				works(t, health, serving) // its count is higher
			}
			must(t, db.Close())
			content, err := os.ReadFile(other + "-other.db")
			must(t, err)
			overwrite(t, path, content)
		},
		"a copy is being written over it": func(t *testing.T, path string) { overwrite(t, path, nil) },
		"the WAL is deleted":              func(t *testing.T, path string) { must(t, os.Remove(path+"-wal")) },
		"its index is deleted":            func(t *testing.T, path string) { must(t, os.Remove(path+"-shm")) },
		"the database is deleted":         func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"the database is moved away":      func(t *testing.T, path string) { must(t, os.Rename(path, path+".old")) },
		"a copy takes its place": func(t *testing.T, path string) {
			content, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path+".copy", content, 0o600))
			must(t, os.Rename(path+".copy", path))
		},
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "fleet.db")
			db, health, serving := probed(t, path)
			works(t, health, serving)
			backup(t, path)
			must(t, add(t, db, "before"))
			works(t, health, serving) // busy: it is not probed
			replace(t, path)
			before := listing(t, path)
			refusal(t, db, health, serving, false, "replaced")
			if err := db.View(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, ErrReplaced) {
				t.Errorf("a view: %v", err)
			}
			if err := db.Rows(t.Context(), "count", func(func(...any) error) error { return nil }); !errors.Is(err, ErrReplaced) {
				t.Errorf("a read: %v", err)
			}
			must(t, db.Close())
			if after := listing(t, path); after != before {
				t.Errorf("what is there was touched: %s, before %s", after, before)
			}
		})
	}
}

// overwrite does what cp does: the file keeps its name and its number.
func overwrite(t *testing.T, path string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(path, content, 0o600))
}

// backup copies the file as it is on the disk.
func backup(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path+".backup", content, 0o600))
}

// What a busy service and another one at the same file commit, and their checkpoints, are no other file.
func TestAFileOfTwoServicesStaysTheirs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	one, first, oneServes := probed(t, path)
	two, second, twoServes := probed(t, path)
	for range 20 {
		must(t, add(t, one, strings.Repeat("x", 4000)))
		works(t, first, oneServes)
		must(t, add(t, two, strings.Repeat("y", 4000)))
		works(t, second, twoServes)
	}
	must(t, two.Close())
	must(t, add(t, one, "z"))
	works(t, first, oneServes)
	must(t, one.Close())
	again, third, serves := probed(t, path)
	must(t, add(t, again, "z"))
	works(t, third, serves)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// listing are the names and sizes of what is there.
func listing(t *testing.T, path string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	must(t, err)
	var names []string
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		names = append(names, entry.Name()+":"+info.ModTime().String())
	}
	return strings.Join(names, " ")
}

// The probe writes only where the service itself committed nothing lately.
func TestABusyServiceIsNotProbed(t *testing.T) {
	db, health, serving := probed(t, filepath.Join(t.TempDir(), "fleet.db"))
	works(t, health, serving) // nothing was committed yet: it is probed
	at := func() (text string) {
		must(t, db.Writer().QueryRowContext(t.Context(), "SELECT ProbedAt FROM P").Scan(&text))
		return text
	}
	first := at()
	if first == "2026-01-01T00:00:00.000Z" {
		t.Fatal("an idle service was not probed")
	}
	must(t, add(t, db, "x"))
	must(t, func() error {
		_, err := db.Writer().ExecContext(t.Context(), "UPDATE P SET ProbedAt = 'untouched'")
		return err
	}())
	health.Look(t.Context())
	if at() != "untouched" {
		t.Error("a busy service was probed")
	}
	db.written.at = time.Now().Add(-idleInterval)
	health.Look(t.Context())
	if at() == "untouched" {
		t.Error("an idle service was not probed")
	}
}

// A driver that does not return is asked once, and does not hold up the look.
func TestOneQuestionAtATime(t *testing.T) {
	var f flight
	asked, release := 0, make(chan struct{})
	hangs := func(context.Context) error { asked++; <-release; return nil }
	if err := f.ask(t.Context(), time.Millisecond, hangs); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := f.ask(t.Context(), time.Millisecond, hangs); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has not answered for") {
		t.Error(err)
	}
	close(release)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if err := f.ask(t.Context(), time.Second, func(context.Context) error { return nil }); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it never asks again")
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
