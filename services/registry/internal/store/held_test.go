package store_test

import (
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// A heartbeat of a known age grows older while it waits for the database.
func TestI11_AHeartbeatGrowsOlderWhileTheDatabaseIsLocked(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		const age, locked = 10 * time.Second, 2 * time.Second
		s, raw := openBeside(t, engine)
		record(t, s, beat(t, "BM-1", "a", 1, at(1)))
		release := hold(t, raw)
		released := make(chan time.Time, 1)
		time.AfterFunc(locked, func() {
			released <- time.Now()
			release()
		})
		next := beat(t, "BM-1", "a", 2, time.Time{})
		next.Age = enrollment.Age{Of: age, Known: true}
		record(t, s, next)
		// Half of the time is for this test to come from the lock to the call.
		if heard, latest := read(t, s, "BM-1").LastBusAt, (<-released).Add(-age-locked/2); heard.After(latest) || heard.Before(latest.Add(-time.Minute)) {
			t.Errorf("heard at %s, which is %s too late", heard, heard.Sub(latest))
		}
	})
}
