package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// deaf is a database whose connections do not close until they are released.
type deaf struct {
	driver.Conn
	released chan struct{}
}

func (d deaf) Connect(context.Context) (driver.Conn, error) { return d, nil }
func (deaf) Driver() driver.Driver                          { return nil }
func (d deaf) Close() error                                 { <-d.released; return nil }

func TestADatabaseThatDoesNotCloseIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := deaf{released: make(chan struct{})}
		pool := sql.OpenDB(server)
		db := &DB{Dialect: SQLServer, read: pool, write: pool}
		if err := db.Ping(t.Context()); err != nil { // there is a connection now
			t.Fatal(err)
		}
		began := time.Now()
		if err := db.Close(); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != closeLimit {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		close(server.released)
	})
}
