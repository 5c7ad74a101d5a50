package ingest

import (
	"context"
	"time"

	"github.com/commandcenter/fleet/services/internal/servicebus"
)

// defaultRenewInterval is used until the lock's duration is known; the shortest lock of Service Bus is 5 s.
const defaultRenewInterval, minRenewInterval = 2 * time.Second, 100 * time.Millisecond

// held is the heartbeats the registry has not answered for yet.
type held struct {
	loop     *Loop
	items    []item
	since    time.Time
	rounds   int
	stops    bool // it holds the gate
	released bool
	locks    *keeper
}

func (l *Loop) hold(items []item) *held {
	return &held{loop: l, items: items, since: time.Now(), locks: l.keep(items)}
}

// failed takes note of what a round left.
func (h *held) failed(rest []group) {
	h.rounds++
	left := make([]item, 0, len(h.items))
	alone := true
	for _, one := range rest {
		left = append(left, one.items...)
		alone = alone && one.tries > 0
	}
	if len(left) < len(h.items) && !h.released {
		h.locks.end()
		h.locks = h.loop.keep(left)
	}
	h.items = left
	// Before anything at all was stored, what fails alone must not keep others from showing that they can be.
	h.stop(!alone || h.loop.good.Load() != nil)
}

// stop stops the receiving, or lets it go on.
func (h *held) stop(stops bool) {
	if stops != h.stops {
		h.loop.stops.set(stops)
	}
	h.stops = stops
}

// release lets other replicas have the messages, and those in the queue behind them.
func (h *held) release(ctx context.Context) {
	h.released = true
	h.locks.end()
	settlements := append(releaseAll(deliveries(h.items)), releaseAll(gather(nil, h.loop.received, maxQueued))...)
	h.loop.settleNow(ctx, settlements)
}

func (h *held) end() {
	h.locks.end()
	h.stop(false)
}

// keeper renews the locks of heartbeats that take longer than half of them.
type keeper struct {
	timer *time.Timer
	stop  context.CancelFunc
	done  chan struct{} // closed when a renewal that began has ended
	ended bool
}

func (l *Loop) keep(items []item) *keeper {
	ctx, stop := context.WithCancel(context.Background())
	k := &keeper{stop: stop, done: make(chan struct{})}
	interval := defaultRenewInterval
	if lock := l.Source.LockDuration(); lock > 0 {
		interval = max(lock/2, minRenewInterval)
	}
	k.timer = time.AfterFunc(interval, func() {
		defer close(k.done)
		for timer := time.NewTimer(interval); ; timer.Reset(interval) {
			l.Source.Renew(ctx, deliveries(items))
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
	})
	return k
}

// end may be called again.
func (k *keeper) end() {
	if k.ended {
		return
	}
	k.ended = true
	k.stop()
	if !k.timer.Stop() {
		<-k.done
	}
}

func deliveries(items []item) []servicebus.Delivery {
	all := make([]servicebus.Delivery, len(items))
	for i, one := range items {
		all[i] = one.delivery
	}
	return all
}
