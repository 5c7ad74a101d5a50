package ingest

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commandcenter/fleet/services/internal/servicebus"
)

// hung is a bus that takes no notice of a context, as the SDK while it dials.
type hung struct {
	Source
	released chan struct{}
}

func (h hung) Receive(context.Context, int) []servicebus.Delivery { <-h.released; return nil }

func (hung) LockDuration() time.Duration { return time.Minute }

func TestAStopDoesNotWaitForAHungReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := hung{released: make(chan struct{})}
		loop := &Loop{Source: bus, Logger: slog.New(slog.DiscardHandler), Most: 1, Workers: 1}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx) }()
		synctest.Wait()
		began := time.Now()
		stop()
		select {
		case err := <-ended:
			if err != nil || time.Since(began) != leftBehindAfter {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
		case <-time.After(time.Minute):
			t.Error("it does not stop")
		}
		close(bus.released)
	})
}
