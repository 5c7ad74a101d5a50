package store

import (
	"context"
	"database/sql"
	"io/fs"
	"time"

	"github.com/commandcenter/fleet/services/internal/servernames"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

// OpenWith opens a store some of whose statements are others.
func OpenWith(url string, statements fs.FS) (*Store, error) {
	db, err := sqldb.Open(url, statements)
	return &Store{db: db, names: servernames.New(db)}, err
}

// Writer is the pool that writes; on SQLite it has one connection.
func (s *Store) Writer() *sql.DB { return s.db.Writer() }

// Lease tells who holds the lease now, and whether anybody does.
func (s *Store) Lease(ctx context.Context) (Lease, bool, error) { return readLease(ctx, s.db) }

// StepClock steps the database's clock, for this store.
func (s *Store) StepClock(offset time.Duration) { s.db.StepClock(offset) }
