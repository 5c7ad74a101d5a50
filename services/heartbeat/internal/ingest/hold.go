package ingest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/commandcenter/fleet/services/internal/servicebus"
)

// minPause and maxPause bound the pause between rounds of tries.
const minPause, maxPause = 100 * time.Millisecond, 5 * time.Second

// held is the heartbeats the registry has not answered for yet.
type held struct {
	loop     *Loop
	items    []item
	since    time.Time
	rounds   int
	stops    bool // it holds the gate
	released bool
}

// failed takes note of what a round left.
func (h *held) failed(rest []group) {
	h.rounds++
	h.items = nil
	alone := true
	for _, one := range rest {
		h.items = append(h.items, one.items...)
		alone = alone && one.tries > 0
	}
	// Before anything at all was stored, what fails alone must not keep others from showing that they can be. But what was
	// released would come again and again.
	h.stop(h.released || !alone || h.loop.good.Load() != nil)
}

// stop stops the receiving, or lets it go on.
func (h *held) stop(stops bool) {
	if stops != h.stops {
		h.loop.stops.set(stops)
	}
	h.stops = stops
}

// pause waits before the next round. While receiving goes on, what comes meanwhile ends the pause and is tried too: every worker
// may be here. It returns false when the context has ended.
func (h *held) pause(ctx context.Context, err error) (more []servicebus.Delivery, goesOn bool) {
	pause := backoff(h.rounds, rand.Float64())
	h.loop.Logger.Error("the registry does not take heartbeats; they are tried again", "heartbeats", len(h.items), "rounds", h.rounds,
		"again_in", pause, "receiving", !h.stops, "released", h.released, "error", err)
	received := h.loop.received
	if h.stops {
		received = nil
		if time.Since(h.since)+pause >= h.loop.HoldTimeout {
			h.release(ctx)
		}
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, false
	case <-timer.C:
		return nil, true
	case more, goesOn = <-received:
		return more, goesOn
	}
}

// backoff is the pause after so many rounds; jitter is 0 to 1, so that replicas don't come back in step.
func backoff(rounds int, jitter float64) time.Duration {
	limit := min(maxPause, minPause<<min(rounds, 10))
	return limit/2 + time.Duration(jitter*float64(limit/2))
}

// release lets other replicas have the messages, and those in the queue behind them.
func (h *held) release(ctx context.Context) {
	released := gather(nil, h.loop.received, maxQueued)
	if !h.released {
		released = append(deliveriesOf(h.items), released...)
	}
	h.released = true
	h.loop.settleNow(ctx, each(released, true))
}

func deliveriesOf(items []item) []servicebus.Delivery {
	all := make([]servicebus.Delivery, len(items))
	for i, one := range items {
		all[i] = one.delivery
	}
	return all
}
