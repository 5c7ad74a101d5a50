package broker

import (
	"sync"
	"sync/atomic"
	"time"
)

// instant is a time that many may set and read.
type instant struct{ nanos atomic.Int64 }

func (i *instant) set(t time.Time) { i.nanos.Store(t.UnixNano()) }

func (i *instant) time() time.Time { return time.Unix(0, i.nanos.Load()).UTC() }

func latest(times ...time.Time) time.Time {
	var last time.Time
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// idleWatch deletes an entity that has not been used for some time.
type idleWatch struct {
	clock  Clock
	usedAt func() time.Time // when the entity was used last; now, if it is in use
	expire func()

	mu    sync.Mutex
	limit time.Duration // zero: it may idle forever
	timer Timer
}

// set changes how long the entity may be idle, counted from its last use.
func (w *idleWatch) set(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = limit
	switch {
	case limit <= 0 && w.timer != nil:
		w.timer.Stop()
	case limit <= 0:
	case w.timer == nil:
		w.timer = w.clock.AfterFunc(limit, w.check)
	default:
		w.timer.Reset(limit)
	}
}

func (w *idleWatch) check() {
	used, now := w.usedAt(), w.clock.Now()
	w.mu.Lock()
	left := w.limit - now.Sub(used)
	if w.limit <= 0 || left > 0 {
		if w.limit > 0 {
			w.timer.Reset(left)
		}
		w.mu.Unlock()
		return
	}
	w.mu.Unlock()
	w.expire()
}

// usedAt tells when a subscription was used last: sending to its topic does not count, but for one that forwards, which nobody
// can receive from.
func (q *Queue) usedAt() time.Time {
	q.mu.Lock()
	busy := len(q.consumers) > 0 || len(q.accepting) > 0 || q.scheduled > 0 || q.settings.ForwardTo != "" && q.deadLetter != nil
	q.mu.Unlock()
	if busy {
		return q.clock.Now()
	}
	if q.deadLetter == nil {
		return q.used.time()
	}
	return latest(q.used.time(), q.deadLetter.usedAt())
}

// usedAt tells when a topic or queue was used last.
func (d *Destination) usedAt() time.Time {
	last := latest(d.used.time(), d.hold.usedAt())
	for _, q := range d.queues() {
		last = latest(last, q.usedAt())
	}
	return last
}

// accessedAt tells when something was last done with a topic or queue; a receiver that waits does nothing.
func (d *Destination) accessedAt() time.Time {
	last := d.used.time()
	for _, q := range d.queues() {
		last = latest(last, q.used.time())
	}
	return last
}

func (q *Queue) touch(now time.Time) { q.used.set(now) }

func (d *Destination) touch(now time.Time) { d.used.set(now) }
