package sqldb

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

// Migrations is a service's schema, one folder of files per dialect, with a version table of its own.
type Migrations struct {
	Files fs.FS
	Table string
	// Command brings the schema up, for error messages.
	Command string
}

func (db *DB) provider(migrations Migrations) (*goose.Provider, error) {
	files, err := fs.Sub(migrations.Files, string(db.Dialect))
	if err != nil {
		return nil, err
	}
	dialect := database.DialectSQLite3
	if db.Dialect == SQLServer {
		dialect = database.DialectMSSQL
	}
	store, err := database.NewStore(dialect, migrations.Table)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider("", db.write, files, goose.WithStore(store), goose.WithDisableGlobalRegistry(true))
}

// Migrate brings the schema up to what this binary needs, and returns the versions before and after.
func (db *DB) Migrate(ctx context.Context, migrations Migrations) (before, after int64, err error) {
	provider, err := db.provider(migrations)
	if err != nil {
		return 0, 0, err
	}
	before, after, err = provider.GetVersions(ctx)
	if err != nil {
		return before, after, err
	}
	if before > after {
		return before, after, tooNew(before, after)
	}
	_, err = provider.Up(ctx)
	return before, after, err
}

// CheckSchema refuses a schema that is older or newer than what this binary needs, saying what to run.
func (db *DB) CheckSchema(ctx context.Context, migrations Migrations) error {
	provider, err := db.provider(migrations)
	if err != nil {
		return err
	}
	current, target, err := provider.GetVersions(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("the schema's version cannot be read: %w", err)
	case current < target:
		return fmt.Errorf("the database's schema is version %d, older than the %d this binary needs; nothing was changed: run `%s` first", current, target, migrations.Command)
	case current > target:
		return tooNew(current, target)
	}
	return nil
}

func tooNew(current, target int64) error {
	return fmt.Errorf("the database's schema is version %d, newer than the %d this binary knows; nothing was changed: run the release that made it, or a newer one", current, target)
}
