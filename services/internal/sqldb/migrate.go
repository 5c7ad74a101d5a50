package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

// checkTimeout bounds the reads by which a start decides whether the database fits.
const checkTimeout = 15 * time.Second

// Migrations is a service's schema, one folder of files per dialect, with a version table of its own.
type Migrations struct {
	Files fs.FS
	Table string
	// Command brings the schema up, for error messages.
	Command string
}

func (db *DB) provider(migrations Migrations) (*goose.Provider, database.Store, error) {
	files, err := fs.Sub(migrations.Files, string(db.Dialect))
	if err != nil {
		return nil, nil, err
	}
	dialect := database.DialectSQLite3
	if db.Dialect == SQLServer {
		dialect = database.DialectMSSQL
	}
	store, err := database.NewStore(dialect, migrations.Table)
	if err != nil {
		return nil, nil, err
	}
	provider, err := goose.NewProvider("", db.write, files, goose.WithStore(store), goose.WithDisableGlobalRegistry(true))
	return provider, store, err
}

// versions are what the schema is, and what this binary needs. Nothing is written, so that a database that takes no writes can be read.
func (db *DB) versions(ctx context.Context, provider *goose.Provider, store database.Store) (current, target int64, err error) {
	for _, source := range provider.ListSources() {
		target = max(target, source.Version)
	}
	if err := db.usable(true); err != nil {
		return 0, target, err
	}
	if absent, err := db.absent(ctx, store.Tablename()); err != nil || absent {
		return 0, target, err
	}
	current, err = store.GetLatestVersion(ctx, db.read)
	if errors.Is(err, database.ErrVersionNotFound) || noSuchTable(err) {
		return 0, target, nil
	}
	return current, target, err
}

// absent reports that SQL Server has no such table. It is asked, since the error of a read is not the same on all that speak its protocol.
func (db *DB) absent(ctx context.Context, table string) (bool, error) {
	if db.Dialect != SQLServer {
		return false, nil
	}
	var id sql.NullInt64
	err := db.read.QueryRowContext(ctx, "SELECT OBJECT_ID(@p1, N'U')", table).Scan(&id)
	return !id.Valid, err
}

func noSuchTable(err error) bool {
	var server mssql.Error
	if errors.As(err, &server) {
		return server.Number == 208
	}
	return err != nil && strings.Contains(err.Error(), "no such table")
}

// Migrate brings the schema up to what this binary needs, and returns the versions before and after.
func (db *DB) Migrate(ctx context.Context, migrations Migrations) (before, after int64, err error) {
	provider, store, err := db.provider(migrations)
	if err != nil {
		return 0, 0, err
	}
	before, after, err = db.versions(ctx, provider, store)
	switch {
	case err != nil || before == after:
		return before, after, err
	case before > after:
		return before, after, tooNew(before, after)
	}
	if err = db.makeShared(ctx); err == nil {
		_, err = provider.Up(ctx)
	}
	if err == nil || ctx.Err() != nil || passing(err) || lasting(err) {
		return before, after, err
	}
	if now, _, unread := db.versions(ctx, provider, store); unread != nil || now > before {
		return before, after, err // it got on, or another process did: the next attempt begins there
	}
	return before, after, Unfit("a migration failed; the schema stays at version %d: %s", before, InWords(err))
}

// CheckSchema refuses a schema that is older or newer than what this binary needs, saying what to run.
func (db *DB) CheckSchema(ctx context.Context, migrations Migrations) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	provider, store, err := db.provider(migrations)
	if err != nil {
		return err
	}
	current, target, err := db.versions(ctx, provider, store)
	switch {
	case err != nil:
		return fmt.Errorf("the schema's version cannot be read: %w", err)
	case current < target:
		return Unfit("the database's schema is version %d, older than the %d this binary needs; nothing was changed: run `%s` first", current, target, migrations.Command)
	case current > target:
		return tooNew(current, target)
	}
	return nil
}

func tooNew(current, target int64) error {
	return Unfit("the database's schema is version %d, newer than the %d this binary knows; nothing was changed: run the release that made it, or a newer one", current, target)
}
