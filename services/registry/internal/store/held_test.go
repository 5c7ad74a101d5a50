package store_test

import (
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// A heartbeat of a known age grows older while it waits for the database.
func TestI11_AHeartbeatGrowsOlderWhileTheDatabaseIsLocked(t *testing.T) {
	const age, locked = 10 * time.Second, 2 * time.Second
	s, raw := onSQLite(t)
	record(t, s, beat(t, "BM-1", "a", 1, at(1)))
	writer, err := raw.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := writer.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	released := make(chan time.Time, 1)
	time.AfterFunc(locked, func() {
		released <- time.Now()
		if _, err := writer.ExecContext(t.Context(), "ROLLBACK"); err != nil {
			t.Error(err)
		}
	})
	next := beat(t, "BM-1", "a", 2, time.Time{})
	next.Age = enrollment.Age{Of: age, Known: true}
	record(t, s, next)
	// Half of the time is for this test to come from the lock to the call.
	if heard, latest := read(t, s, "BM-1").LastBusAt, (<-released).Add(-age-locked/2); heard.After(latest) || heard.Before(latest.Add(-time.Minute)) {
		t.Errorf("heard at %s, which is %s too late", heard, heard.Sub(latest))
	}
}
