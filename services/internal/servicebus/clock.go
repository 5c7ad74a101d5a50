package servicebus

import (
	"sync"
	"time"
)

// Clock is the broker's clock as far as this process can tell: an instant that the broker stamped, carried on by this process's
// monotonic clock. So the age of a message is told by one clock, whatever this machine's own reads. The zero value knows nothing yet.
type Clock struct {
	mu     sync.Mutex
	known  bool
	at     time.Time // the broker's clock read at least this
	readAt time.Time // when this process's clock read this
	within time.Duration
}

// Stamped takes in that the broker stamped a message of ours between two readings of this process's clock: when its send began, and when
// the broker had confirmed it. An estimate that fits is kept; one that does not was carried on over a step of the broker's clock.
func (c *Clock) Stamped(at, from, to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := max(0, to.Sub(from))
	if c.known {
		if later := c.now(to).Sub(at); later >= 0 && later <= took {
			c.within = took - later
			return
		}
	}
	c.known, c.at, c.readAt, c.within = true, at.Round(0), to, took
}

// Seen takes in that a message, received at that reading of this process's clock, was stamped at an instant: the broker's clock was not
// earlier. That mends an estimate at once after a step ahead, or after this machine stood still.
func (c *Clock) Seen(at, received time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return
	}
	later := at.Sub(c.now(received))
	if later <= 0 {
		return
	}
	c.at, c.readAt = at.Round(0), received
	if c.within -= later; c.within < 0 { // it was wrong by more than it could be: by how much now, the next message of ours tells
		c.within = later
	}
}

// Now is what the broker's clock reads at the earliest, at a reading of this process's clock, and how much later that may be. It is not
// known before a message of ours came back.
func (c *Clock) Now(reading time.Time) (at time.Time, within time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return time.Time{}, 0, false
	}
	return c.now(reading), c.within, true
}

func (c *Clock) now(reading time.Time) time.Time { return c.at.Add(reading.Sub(c.readAt)) }

// Age is how long ago a message was stamped, at the least; false while the broker's clock is not known.
func (c *Clock) Age(stamped, reading time.Time) (time.Duration, bool) {
	at, _, known := c.Now(reading)
	return max(0, at.Sub(stamped)), known
}
