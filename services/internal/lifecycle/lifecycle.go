// Package lifecycle runs the parts of a service together and stops them in order.
//
//	starting ──► running ──► draining (parts stop one by one, last started first, each within its grace) ──► stopped
//	                │
//	                └── a part failed: the same draining, and Run returns its error
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Part is something that runs until its context ends. One that returns sooner has failed, even with a nil error.
type Part struct {
	Name string
	Run  func(ctx context.Context) error
}

type running struct {
	Part
	cancel context.CancelFunc
	done   chan error
}

// Run starts the parts in order and waits until the context ends or one of them fails. Then it stops them one by one in
// reverse order, waiting at most grace for each. It returns the first failure; nil when the context ended and all went well.
func Run(ctx context.Context, logger *slog.Logger, grace time.Duration, parts ...Part) error {
	ended := make(chan error, len(parts))
	started := make([]running, 0, len(parts))
	for _, part := range parts {
		// Each part has a context of its own, so that an earlier part outlives a later one which still needs it.
		partCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		one := running{Part: part, cancel: cancel, done: make(chan error, 1)}
		started = append(started, one)
		go func() {
			err := one.Run(partCtx)
			if partCtx.Err() == nil {
				err = errors.Join(fmt.Errorf("%s ended by itself", one.Name), err)
				ended <- err
			}
			one.done <- err
		}()
	}
	var failure error
	select {
	case <-ctx.Done():
		logger.Info("stopping", "grace", grace)
	case failure = <-ended:
		logger.Error("stopping, because a part failed", "error", failure)
	}
	for i := len(started) - 1; i >= 0; i-- {
		if err := started[i].stop(logger, grace); failure == nil {
			failure = err
		}
	}
	return failure
}

func (r running) stop(logger *slog.Logger, grace time.Duration) error {
	r.cancel()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-r.done:
		if err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		return nil
	case <-timer.C:
		logger.Warn("a part did not stop in time and is left behind", "part", r.Name, "grace", grace)
		return fmt.Errorf("%s did not stop within %s", r.Name, grace)
	}
}
