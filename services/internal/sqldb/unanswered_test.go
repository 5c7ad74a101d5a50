package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// locked is a SQL Server on which another session holds a lock on the table T: a change of it waits for as long as its context does.
type locked struct{ driver.Conn }

func (locked) Connect(context.Context) (driver.Conn, error)                 { return locked{}, nil }
func (locked) Driver() driver.Driver                                        { return nil }
func (locked) Close() error                                                 { return nil }
func (locked) Commit() error                                                { return nil }
func (locked) Rollback() error                                              { return nil }
func (locked) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return locked{}, nil }
func (locked) CheckNamedValue(*driver.NamedValue) error                     { return nil }
func (locked) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return noRow{}, nil
}

func (locked) ExecContext(ctx context.Context, text string, _ []driver.NamedValue) (driver.Result, error) {
	if strings.Contains(text, "INTO T") {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return driver.RowsAffected(1), nil
}

// noRow is what the read of the probe finds.
type noRow struct{}

func (noRow) Columns() []string         { return []string{"ProbedAt"} }
func (noRow) Close() error              { return nil }
func (noRow) Next([]driver.Value) error { return io.EOF }

// A lock that somebody else holds on one of our tables is told as what it may be, though the probe's own row can be written.
func TestALockOnSQLServerIsTold(t *testing.T) {
	for what, row := range map[string]struct {
		budget, cancelled time.Duration
		told              bool
	}{
		"the caller's time is over":   {budget: 5 * time.Second, told: true},
		"the caller had no time":      {budget: time.Second},
		"the caller went away itself": {budget: 10 * time.Second, cancelled: 5 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := sql.OpenDB(locked{})
				defer pool.Close()
				db := &DB{
					Dialect: SQLServer, read: pool, write: pool, written: written{suspect: make(chan struct{}, 1)},
					statements: map[string]string{"add": "INSERT INTO T (V) VALUES (@v)", writeProbe: "UPDATE P", readProbe: "SELECT ProbedAt FROM P"},
				}
				health := NewHealth(db, HealthOptions{Logger: slog.New(slog.DiscardHandler), Serving: func(bool) {}})
				health.Look(t.Context())
				if err := health.Writes(); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), row.budget)
				defer cancel()
				if row.cancelled > 0 {
					time.AfterFunc(row.cancelled, cancel)
				}
				err := db.Change(ctx, func(tx *Tx) error { _, err := tx.Exec(ctx, "add"); return err })
				var unwritten *WriteError
				if err == nil || errors.As(err, &unwritten) != row.told {
					t.Errorf("the change says %v", err)
				}
				health.Look(t.Context())
				told := health.Writes()
				if (told != nil) != row.told || (told != nil && !strings.Contains(told.Error(), "another session may hold a lock")) {
					t.Errorf("writes: %v", told)
				}
				time.Sleep(failureShown)
				if health.Look(t.Context()); health.Writes() != nil {
					t.Errorf("long after: %v", health.Writes())
				}
			})
		})
	}
}
