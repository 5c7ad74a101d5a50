package sqldb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
)

// mark tells a SQLite file from an older copy of itself, and from another database. It is two numbers of the file's header that SQLite
// leaves to applications: the id (application_id) is random and never changes, the count (user_version) grows with each look. Both are
// read from the file itself: what SQLite reads is the WAL's copy of the header, for as long as there is one.
//
// A checkpoint only ever brings a later header into the file, so that a count that falls is an older file's.
type mark struct {
	there     bool // false: nothing is in the file yet, all is in the WAL
	id, count uint32
}

const (
	headerSize    = 100
	headerCountAt = 60
	headerIDAt    = 68
)

// readMark reads the mark that is on the disk.
func readMark(file io.ReaderAt) (mark, error) {
	var header [headerSize]byte
	switch n, err := file.ReadAt(header[:], 0); {
	case errors.Is(err, io.EOF) && n < headerSize:
		return mark{}, nil
	case err != nil:
		return mark{}, err
	}
	return mark{there: true, id: binary.BigEndian.Uint32(header[headerIDAt:]), count: binary.BigEndian.Uint32(header[headerCountAt:])}, nil
}

// follows reports whether a file that had the mark before may have this one now.
func (m mark) follows(before mark) bool {
	return !before.there || (m.there && (before.id == 0 || m.id == before.id) && m.count >= before.count)
}

// advance writes the next mark within a transaction.
func (t *Tx) advance(ctx context.Context) error {
	var id, count int32
	if err := t.tx.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return fmt.Errorf("application_id: %w", err)
	}
	if err := t.tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&count); err != nil {
		return fmt.Errorf("user_version: %w", err)
	}
	if id == 0 {
		if err := t.ExecText(ctx, fmt.Sprintf("PRAGMA application_id = %d", 1+rand.Int32N(1<<31-1))); err != nil {
			return fmt.Errorf("application_id: %w", err)
		}
	}
	if err := t.ExecText(ctx, fmt.Sprintf("PRAGMA user_version = %d", count+1)); err != nil {
		return fmt.Errorf("user_version: %w", err)
	}
	return nil
}

// settle brings the mark from the WAL into the file, as far as no reader holds it up, and looks at it.
func (db *DB) settle(ctx context.Context) error {
	if err := db.files.check(); err != nil { // a checkpoint would bring the mark into a file that is another one
		return err
	}
	var busy, frames, moved int
	if err := db.write.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &frames, &moved); err != nil {
		return fmt.Errorf("wal_checkpoint: %w", err)
	}
	return db.files.check()
}

// mark advances the mark while the service itself commits. SQL Server has none.
func (db *DB) mark(ctx context.Context) error {
	if db.files == nil {
		return nil
	}
	if err := db.once(ctx, db.write, true, func(tx *Tx) error { return tx.advance(ctx) }); err != nil {
		return err
	}
	return db.settle(ctx)
}

// descriptors are the open database files of this process. The last user of a file closes it: a close drops the locks that the process
// has on the file, also those of other connections.
var descriptors = &shared{users: map[string]map[*os.File]int{}}

type shared struct {
	mu    sync.Mutex
	users map[string]map[*os.File]int // by path; a path may have named several files
}

func (s *shared) open(path string) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	for file := range s.users[path] {
		if found, err := file.Stat(); err == nil && os.SameFile(found, now) {
			s.users[path][file]++
			return file, nil
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if s.users[path] == nil {
		s.users[path] = map[*os.File]int{}
	}
	s.users[path][file] = 1
	return file, nil
}

func (s *shared) close(path string, file *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[path][file]--; s.users[path][file] > 0 {
		return nil
	}
	delete(s.users[path], file)
	if len(s.users[path]) == 0 {
		delete(s.users, path)
	}
	return file.Close()
}
