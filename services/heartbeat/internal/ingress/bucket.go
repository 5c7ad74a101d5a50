package ingress

import (
	"sync"
	"time"
)

const (
	// maxDelay bounds what a refused agent is asked to wait: it must be heard again before it counts as silent (90 s).
	maxDelay = 60 * time.Second
	// delayJitter is spread over every delay, so that agents whose clocks tick alike don't come back in step.
	delayJitter = time.Second
)

// savedUp is what a bucket saves while nobody comes, in seconds: so little that no second takes much more than the rate.
const savedUp = 0.1

// bucket lets so many agents connect per second, a tenth of a second's worth at once. Each of those it refuses gets a place in the line of the
// refused, and comes back when its place is due: so they come evenly, at the rate at which they are let in.
type bucket struct {
	rate float64 // per second

	mu      sync.Mutex
	at      time.Time // when the two below were right
	tokens  float64
	waiting float64 // the refused whose time has not come yet
	overrun bool    // more of them than can be let in within maxDelay
}

func newBucket(rate int, now time.Time) *bucket {
	b := &bucket{rate: float64(rate), at: now}
	b.tokens = b.capacity()
	return b
}

func (b *bucket) capacity() float64 { return max(1, savedUp*b.rate) }

// take lets one connect, or says after what delay it is to come back; jitter is 0 to 1.
func (b *bucket) take(now time.Time, jitter float64) (delay time.Duration, taken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	earned := max(0, now.Sub(b.at).Seconds()) * b.rate
	b.at = now
	b.tokens, b.waiting = min(b.capacity(), b.tokens+earned), max(0, b.waiting-earned)
	if b.tokens >= 1 {
		b.tokens--
		return 0, true
	}
	b.waiting++
	due := time.Duration(b.waiting / b.rate * float64(time.Second))
	if b.overrun = due > maxDelay-delayJitter; b.overrun { // more than can be let in by then: those come back evenly within that time
		return time.Duration(jitter * float64(maxDelay)), false
	}
	return due + time.Duration(jitter*float64(delayJitter)), false
}

// isOverrun reports whether the last that was refused has no place in the line, and may be refused again.
func (b *bucket) isOverrun() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.overrun
}
