package agent

import "time"

// moment is a point in time on every clock of this machine. No single clock counts everything: a process that is stopped misses
// nothing, a machine that sleeps stops Go's monotonic clock on some systems, and the wall clock may be set back.
type moment struct {
	at        time.Time     // the wall clock and Go's monotonic clock
	suspended time.Duration // how long the machine had slept since it started; 0 where the system does not say
}

func now() moment { return moment{time.Now(), suspended()} }

// age is how long ago the moment is.
func (m moment) age() time.Duration { return m.until(now()) }

// until is the time from m to a later moment, by the clock that counted most. A wall clock that was set forward makes the time
// look longer than it was, so that too little is started rather than too late.
func (m moment) until(later moment) time.Duration {
	monotonic := later.at.Sub(m.at) + max(0, later.suspended-m.suspended)
	return max(monotonic, later.at.Round(0).Sub(m.at.Round(0)))
}

// earlier is the moment d before m.
func (m moment) earlier(d time.Duration) moment {
	m.at = m.at.Add(-d)
	return m
}
