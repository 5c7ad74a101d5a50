package sqldb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/fstest"
	"testing/synctest"

	mssql "github.com/microsoft/go-mssqldb"
)

// A command ends where waiting does not mend what is wrong; what may pass it waits for.
func TestAMigrationWaitsOnlyForWhatPasses(t *testing.T) {
	for number, lasts := range map[int32]bool{229: true, 262: true, 18456: true, 4060: false, 40613: false, 1222: false, 9002: false} {
		synctest.Test(t, func(t *testing.T) {
			attempts := 0
			err := AwaitMigration(t.Context(), slog.New(slog.DiscardHandler), func(context.Context) error {
				if attempts++; attempts == 3 {
					return nil
				}
				return fmt.Errorf("migrate: %w", mssql.Error{Number: number})
			})
			var unfit *UnfitError
			if lasts != errors.As(err, &unfit) || lasts != (attempts == 1) {
				t.Errorf("%d: %d attempts: %v", number, attempts, err)
			}
		})
	}
}

// A migration that the database refuses ends even the start of a service, with the version that the schema has.
func TestAMigrationThatIsRefusedIsNotTriedAgain(t *testing.T) {
	db, err := Open("sqlite:"+filepath.Join(t.TempDir(), "fleet.db"), fstest.MapFS{"sqlite/a.sql": {Data: []byte("SELECT 1")}})
	must(t, err)
	defer db.Close()
	broken := Migrations{Table: "V", Files: fstest.MapFS{
		"sqlite/00001_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE A (K INTEGER);\n")},
		"sqlite/00002_b.sql": {Data: []byte("-- +goose Up\nINSERT INTO Missing VALUES (1);\n")},
	}}
	attempts := 0
	err = Await(t.Context(), slog.New(slog.DiscardHandler), func(error) {}, func(ctx context.Context) error {
		attempts++
		_, _, err := db.Migrate(ctx, broken)
		return err
	})
	var unfit *UnfitError
	if !errors.As(err, &unfit) || attempts > 2 { // the first attempt got on to version 1
		t.Errorf("%d attempts: %v", attempts, err)
	}
}
