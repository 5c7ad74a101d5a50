package store

import (
	"context"
	"embed"
	"io/fs"
	"time"

	"github.com/commandcenter/fleet/services/internal/servernames"
	"github.com/commandcenter/fleet/services/internal/sqldb"
)

//go:embed sql
var statementFiles embed.FS

//go:embed migrations
var migrationFiles embed.FS

// ServerType is the type of servers that have agents.
const ServerType = "BenefitManager"

// Store is one database.
type Store struct {
	db       *sqldb.DB
	names    *servernames.Names
	defaults map[string]string
	clock    clock
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

// Migrations is the registry's schema.
func Migrations() sqldb.Migrations {
	return sqldb.Migrations{Files: sub(migrationFiles, "migrations"), Table: "registry_schema_version", Command: "registry migrate"}
}

// Open prepares the store. ServerDefaults give values for columns of TblServer that we don't know and that require one.
func Open(url string, serverDefaults map[string]string) (*Store, error) {
	db, err := sqldb.Open(url, Statements())
	if err != nil {
		return nil, err
	}
	return New(db, serverDefaults), nil
}

// New is the store of a database that was opened with Statements.
func New(db *sqldb.DB, serverDefaults map[string]string) *Store {
	return &Store{db: db, names: servernames.New(db), defaults: serverDefaults}
}

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// Migrate brings the schema up, and returns the versions before and after.
func (s *Store) Migrate(ctx context.Context) (before, after int64, err error) {
	return s.db.Migrate(ctx, Migrations())
}

// Check refuses a schema of another version, and a TblServer that lacks what we use.
func (s *Store) Check(ctx context.Context) error {
	if err := s.db.CheckSchema(ctx, Migrations()); err != nil {
		return err
	}
	return s.db.CheckLegacy(ctx, sqldb.LegacyTable{
		Name: "TblServer", Appends: true, Given: s.defaults, GivenKey: "database.serverDefaults",
		Uses: []sqldb.LegacyColumn{
			{Name: "ServerKey", Types: sqldb.WholeNumber},
			{Name: "Name", Types: sqldb.AnyText},
			{Name: "Url", Types: sqldb.AnyText},
			{Name: "Type", Types: sqldb.AnyText},
			{Name: "Active", Types: sqldb.Flag},
			{Name: "Online", Types: sqldb.Flag},
		},
	})
}

// now is the database's clock, the only one that decides.
func now(ctx context.Context, tx *sqldb.Tx) (time.Time, error) {
	var at sqldb.Time
	_, err := tx.Row(ctx, "now", []any{&at})
	return at.Time, err
}
