// Package dbclock tells when the clock of the database was stepped: set by hand or by a time service, or another after a failover to
// a host whose clock differs. That clock is the only one that decides, so what it said before the step has to be read in its new terms.
package dbclock

import (
	"fmt"
	"time"
)

// Tolerance is by how much two readings may disagree without a step: a correction that a time service makes in small pieces, and the
// time a reading takes on its way. What is wrong by less costs less than a lease.
const Tolerance = 5 * time.Second

// LookInterval is how often a service looks at the clock.
const LookInterval = 3 * time.Second

// Shown is how long after a step operators are told of it.
const Shown = 15 * time.Minute

// Reading is what the database's clock read between two readings of this process's own monotonic clock.
type Reading struct{ At, From, To time.Time }

// Read is a reading that was asked for at that time and came just now.
func Read(from, at time.Time) Reading { return Reading{At: at, From: from, To: time.Now()} }

// State is what is stored of the clock. Its zero value is a clock that was never looked at.
type State struct {
	SeenAt    time.Time // the latest that any replica saw
	SteppedAt time.Time // the last step, by the clock after it; zero: none
	Step      time.Duration
}

// Look takes a reading into account, and returns what is to be stored and by how much the clock was stepped since it was last seen; 0:
// it was not. Before is the reading that this process took last; zero: none.
//
// A step back shows in what is stored: the clock reads earlier than it was seen. A step ahead shows only to a process that ran
// meanwhile: more time passed by the database's clock than by its own monotonic one, and no other process saw the clock in between. A
// host that stood still, with no other looking, is taken for that too; it was as deaf as if the clock had been stepped.
func (s State) Look(before, now Reading) (State, time.Duration) {
	step := s.step(before, now)
	next := State{SeenAt: now.At, SteppedAt: s.SteppedAt, Step: s.Step}
	if step != 0 {
		next.SteppedAt, next.Step = now.At, step
	}
	return next, step
}

func (s State) step(before, now Reading) time.Duration {
	if s.SeenAt.IsZero() {
		return 0
	}
	if back := now.At.Sub(s.SeenAt); back < -Tolerance {
		return back
	}
	if before.At.IsZero() {
		return 0
	}
	last := before.At
	if s.SeenAt.After(last) {
		last = s.SeenAt
	}
	// At most so much passed in between: a reading that took long is no step.
	if ahead := now.At.Sub(last) - now.To.Sub(before.From); ahead > Tolerance {
		return ahead
	}
	return 0
}

// Unseen reports whether the clock reads earlier than it was seen: it was stepped back, and no replica has dealt with that yet.
func (s State) Unseen(at time.Time) bool { return !s.SeenAt.IsZero() && at.Sub(s.SeenAt) < -Tolerance }

// Banner tells operators of a step for a while; empty: there is nothing to tell.
func (s State) Banner(now time.Time) string {
	if s.SteppedAt.IsZero() || now.Sub(s.SteppedAt) >= Shown {
		return ""
	}
	cause := ""
	if s.Step > 0 {
		cause = ", or this service's machine stood still while no other replica looked"
	}
	return fmt.Sprintf("The database's clock was stepped %s, at %s by its new time%s. Heartbeat paths prove themselves again from then on, for one maximum heartbeat age; "+
		"maintenance follows the clock as it is now. See that the database's host keeps its time.", Words(s.Step), s.SteppedAt.UTC().Format("2006-01-02 15:04:05 UTC"), cause)
}

// Words is a step as people say it.
func Words(step time.Duration) string {
	if step < 0 {
		return "back by " + (-step).Round(time.Second).String()
	}
	return "ahead by " + step.Round(time.Second).String()
}
