// Package store is the only owner of TblAgent, of the tables of control servers, and of TblServer's Name, Url, Type and Active. It is written
// once; each statement is a named file in both dialects. It returns domain values and domain errors.
package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"
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
	return &Store{db: db, names: servernames.New(db), defaults: serverDefaults}, nil
}

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// Ping tells whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.db.Ping(ctx) }

// Migrate brings the schema up, and returns the versions before and after.
func (s *Store) Migrate(ctx context.Context) (before, after int64, err error) {
	return s.db.Migrate(ctx, Migrations())
}

// Check refuses a schema of another version, and a TblServer that lacks what we use.
func (s *Store) Check(ctx context.Context) error {
	if err := s.db.CheckSchema(ctx, Migrations()); err != nil {
		return err
	}
	return s.checkLegacy(ctx)
}

// kinds of column types, by what their names begin with in either dialect.
var (
	wholeNumber = []string{"int", "bigint", "smallint", "integer"}
	text        = []string{"nvarchar", "varchar", "nchar", "char", "text", "ntext"}
	flag        = []string{"bit", "int", "integer", "boolean", "tinyint"}
)

// legacy are the columns of TblServer that are used.
var legacy = []struct {
	column string
	types  []string
}{
	{"ServerKey", wholeNumber}, {"Name", text}, {"Url", text}, {"Type", text}, {"Active", flag}, {"Online", flag},
}

type column struct {
	kind     string
	required bool // not null, without a default
}

// checkLegacy names what is missing from TblServer, which another codebase owns, and what a new row of it would need.
func (s *Store) checkLegacy(ctx context.Context) error {
	columns := map[string]column{}
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		return tx.Rows(ctx, "columns", func(scan func(...any) error) error {
			var name, kind string
			var required sqldb.Int
			if err := scan(&name, &kind, &required); err != nil {
				return err
			}
			columns[strings.ToLower(name)] = column{kind, required == 1}
			return nil
		}, named("table", "TblServer"))
	})
	if err != nil {
		return err
	}
	return s.missing(columns)
}

func (s *Store) missing(columns map[string]column) error {
	var problems []string
	used := map[string]bool{}
	for _, need := range legacy {
		found, ok := columns[strings.ToLower(need.column)]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("TblServer.%s is missing", need.column))
		case !hasPrefix(found.kind, need.types):
			problems = append(problems, fmt.Sprintf("TblServer.%s is %s, expected one of %v", need.column, found.kind, need.types))
		}
		used[strings.ToLower(need.column)] = true
	}
	given := map[string]bool{}
	for name := range s.defaults {
		given[strings.ToLower(name)] = true
		if _, ok := columns[strings.ToLower(name)]; !ok || used[strings.ToLower(name)] {
			problems = append(problems, fmt.Sprintf("database.serverDefaults.%s is not a column of TblServer that needs a default", name))
		}
	}
	for name, column := range columns {
		if column.required && !used[name] && !given[name] {
			problems = append(problems, fmt.Sprintf("TblServer.%s requires a value and has no default: give one as database.serverDefaults.%s", name, name))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("TblServer cannot be used: %s", strings.Join(problems, "; "))
	}
	return nil
}

func hasPrefix(kind string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(kind, prefix) {
			return true
		}
	}
	return false
}

// now is the database's clock, the only one that decides.
func now(ctx context.Context, tx *sqldb.Tx) (time.Time, error) {
	var at sqldb.Time
	_, err := tx.Row(ctx, "now", []any{&at})
	return at.Time, err
}
