package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"testing"
)

// spoken is a connection that notes what is said to it.
type spoken struct{ words []string }

func (s *spoken) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s *spoken) Driver() driver.Driver                        { return nil }
func (s *spoken) Prepare(string) (driver.Stmt, error)          { return nil, driver.ErrSkip }
func (s *spoken) Close() error                                 { return nil }
func (s *spoken) Begin() (driver.Tx, error)                    { s.words = append(s.words, "begin"); return s, nil }

func (s *spoken) Commit() error { s.words = append(s.words, "commit"); return nil }

func (s *spoken) Rollback() error { s.words = append(s.words, "rollback"); return nil }

func (s *spoken) ExecContext(_ context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if len(args) == 0 {
		text += " without parameters"
	}
	s.words = append(s.words, text)
	return driver.RowsAffected(1), nil
}

func TestEveryChangeOnSQLServerAbortsWhole(t *testing.T) {
	for dialect, want := range map[Dialect][]string{
		SQLServer: {"begin", "SET XACT_ABORT ON without parameters", "UPDATE", "commit", "begin", "rollback"},
		SQLite:    {"begin", "UPDATE", "commit"},
	} {
		var said spoken
		pool := sql.OpenDB(&said)
		db := &DB{Dialect: dialect, read: pool, write: pool, statements: map[string]string{"update": "UPDATE"}}
		err := db.Change(t.Context(), func(tx *Tx) error { _, err := tx.Exec(t.Context(), "update", sql.Named("k", 1)); return err })
		if err != nil {
			t.Fatal(err)
		}
		if dialect == SQLServer { // a view needs none; the double of SQLite knows no read-only transaction
			if err := db.View(t.Context(), func(*Tx) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(said.words, want) {
			t.Errorf("%s hears %q, want %q", dialect, said.words, want)
		}
		if err := pool.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Only an error of the commit itself leaves it open whether something is stored.
func TestACommitThatFailsIsToldApart(t *testing.T) {
	db := openFile(t)
	for _, statement := range []string{
		"CREATE TABLE Parent (K INTEGER PRIMARY KEY)", "DROP TABLE T",
		"CREATE TABLE T (K INTEGER PRIMARY KEY REFERENCES Parent (K) DEFERRABLE INITIALLY DEFERRED)",
	} {
		if _, err := db.Writer().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	add := func(k any) error {
		return db.Change(t.Context(), func(tx *Tx) error { _, err := tx.Exec(t.Context(), "add", sql.Named("k", k)); return err })
	}
	if err := add(1); !errors.Is(err, ErrCommit) || !Rejected(err) {
		t.Errorf("a commit that the database refuses: %v", err)
	}
	if err := add("no number"); err == nil || errors.Is(err, ErrCommit) {
		t.Errorf("a statement that the database refuses: %v", err)
	}
}
