package command

import (
	"context"
	"sync"
	"time"
)

const (
	// tickInterval is how often this process sees that it goes on.
	tickInterval = 200 * time.Millisecond
	// leastGap between two ticks means that it stood still, and was not merely busy.
	leastGap = time.Second
	// afterGap is for how long after that requests may still be read which came while it stood still, and waited in a socket.
	afterGap = 2 * time.Second
)

// StandStill notices that this process stood still, with its machine or alone. A request that waited meanwhile looks as if it had just
// come; its caller has waited all the time. The zero value is ready.
type StandStill struct {
	mu     sync.Mutex
	tickAt time.Time     // the last tick; zero: none yet
	gap    time.Duration // the last time it stood still
	goneOn time.Time     // when it went on; zero: it never stood still
}

// Run ticks until the context ends.
func (s *StandStill) Run(ctx context.Context) error {
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for {
		s.tick(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Lost is how long a request that is read now may have waited while this process stood still; 0: it did not.
func (s *StandStill) Lost() time.Duration { return s.lost(time.Now()) }

func (s *StandStill) tick(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look(now)
	s.tickAt = now
}

func (s *StandStill) lost(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look(now) // a request may be read before the tick
	if s.goneOn.IsZero() || now.Sub(s.goneOn) >= afterGap {
		return 0
	}
	return s.gap
}

// look notes a gap since the last tick. It goes by the clock that counted more: a machine that sleeps may stop the monotonic one.
func (s *StandStill) look(now time.Time) {
	if s.tickAt.IsZero() {
		return
	}
	if gap := max(now.Sub(s.tickAt), now.Round(0).Sub(s.tickAt.Round(0))); gap >= leastGap {
		s.gap, s.goneOn, s.tickAt = gap, now, now
	}
}
