package enrollment

import (
	"slices"
	"time"

	"github.com/commandcenter/fleet/services/internal/dbclock"
)

// Age is how long ago a heartbeat was observed when the registry got it, by one clock: the broker's, or the monotonic one of the control
// server that held it. Known is false where only the instant of another machine's clock came along.
type Age struct {
	Of    time.Duration
	Known bool
}

// Placed is the heartbeat with its instant by the database's clock, which reads now; held is how long the registry held it. Where its
// age is known, no other clock is asked. A broker's instant that agrees with that is kept, so that a message delivered again is the
// same to the millisecond.
func (h Heartbeat) Placed(now time.Time, held time.Duration) Heartbeat {
	if !h.Age.Known {
		return h
	}
	at := now.Add(-max(0, h.Age.Of) - held).Truncate(time.Millisecond)
	if h.Path == Bus && h.Order.ObservedAt.Sub(at).Abs() <= dbclock.Tolerance {
		return h
	}
	h.Order.ObservedAt = at
	return h
}

// settled is the contact without what a clock that was stepped since left in the future of a heartbeat that is placed by the database's
// clock: such instants prove nothing, and must not beat the heartbeats that come until the clock has caught up with them. Heartbeats
// that are not placed keep the order of the broker's clock, whatever the database's.
func (c Contact) settled(h Heartbeat, now time.Time) Contact {
	if !h.Age.Known {
		return c
	}
	latest := now.Add(2 * dbclock.Tolerance) // the broker's instants are kept while they agree by one
	before := earlier(h.Order.ObservedAt, now).Add(-time.Millisecond)
	settle := func(at *time.Time) {
		if at.After(latest) {
			*at = before
		}
	}
	settle(&c.Newest.ObservedAt)
	settle(&c.BindingsOrder.ObservedAt)
	ahead := func(b Boot) bool {
		return b.ObservedAt.After(latest) || b.SupersededAt.After(latest) || b.TurnedAt.After(latest)
	}
	if slices.ContainsFunc(c.EarlierBoots, ahead) {
		c.EarlierBoots = slices.Clone(c.EarlierBoots)
		for i := range c.EarlierBoots {
			boot := &c.EarlierBoots[i]
			settle(&boot.ObservedAt)
			settle(&boot.SupersededAt)
			settle(&boot.TurnedAt)
		}
	}
	return c
}
