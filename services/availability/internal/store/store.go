package store

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"io/fs"
	"sync/atomic"

	"github.com/commandcenter/fleet/services/internal/servernames"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

//go:embed sql
var statementFiles embed.FS

//go:embed migrations
var migrationFiles embed.FS

// ServerType is the type of the servers that are judged.
const ServerType = "BenefitManager"

// Store is one database.
type Store struct {
	db    *sqldb.DB
	names *servernames.Names
	// servers is how many the last Fleet had, so that the next, of as many, is not copied while it grows.
	servers atomic.Int64
	clock   clock
}

// Statements are the statement files, a folder per dialect.
func Statements() fs.FS { return sub(statementFiles, "sql") }

func sub(files embed.FS, folder string) fs.FS {
	inner, err := fs.Sub(files, folder)
	if err != nil { // cannot be: the folder is embedded
		panic(err)
	}
	return inner
}

// Migrations is availability's schema.
func Migrations() sqldb.Migrations {
	return sqldb.Migrations{Files: sub(migrationFiles, "migrations"), Table: "availability_schema_version", Command: "availability migrate"}
}

// Open prepares the store. Nothing is connected to until the first statement.
func Open(url string) (*Store, error) {
	db, err := sqldb.Open(url, Statements())
	if err != nil {
		return nil, err
	}
	return New(db), nil
}

// New is the store of a database that was opened with Statements.
func New(db *sqldb.DB) *Store { return &Store{db: db, names: servernames.New(db)} }

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// Migrate brings the schema up, and returns the versions before and after.
func (s *Store) Migrate(ctx context.Context) (before, after int64, err error) {
	return s.db.Migrate(ctx, Migrations())
}

func named(name string, value any) sql.NamedArg { return sql.Named(name, value) }

// flagOf is a condition as both dialects take it.
func flagOf(condition bool) int64 {
	if condition {
		return 1
	}
	return 0
}

// batch is many values as one parameter. A nil list is an empty one.
func batch[T any](name string, values []T) (sql.NamedArg, error) {
	if values == nil {
		values = []T{}
	}
	encoded, err := json.Marshal(values)
	return named(name, string(encoded)), err
}
