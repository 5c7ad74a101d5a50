// Package lifecycle runs the parts of a service together and stops them in order.
//
//	starting ──► running ──► draining (parts stop one by one, last started first, each within its grace) ──► stopped
//	                │
//	                └── a part failed: the same draining, and Run returns its error
package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Part is something that runs until its context ends. One that returns sooner has failed, even with a nil error. A part that
// panics ends the process, as any panic does.
type Part struct {
	// Name begins the part's errors; empty where they are to be as they are.
	Name string
	Run  func(ctx context.Context) error
	// Grace is how long the part may take to stop. Zero: as long as all others.
	Grace time.Duration
}

type running struct {
	name   string
	grace  time.Duration
	cancel context.CancelFunc
	done   chan error // what is wrong with the part's end; nil when it ended as asked
}

// Run starts the parts in order and waits until the context ends or one of them fails. Then it stops them one by one in
// reverse order, waiting at most grace for each that has none of its own, so that all may take as many graces as there are parts. It
// returns the first failure, and logs the others; nil when the context ended and all went well. A part that outlives its grace is left
// behind.
func Run(ctx context.Context, logger *slog.Logger, grace time.Duration, parts ...Part) error {
	failed := make(chan error, len(parts))
	started := make([]running, 0, len(parts))
	for _, part := range parts {
		started = append(started, start(ctx, part, failed))
	}
	var failure error
	select {
	case <-ctx.Done():
		logger.Info("stopping", "grace", grace)
	case failure = <-failed:
		logger.Error("stopping, because a part failed", "error", failure)
	}
	for i := len(started) - 1; i >= 0; i-- {
		began := time.Now()
		err := started[i].stop(cmp.Or(started[i].grace, grace))
		logger.Debug("a part stopped", "part", started[i].name, "took", time.Since(began))
		switch {
		case err == nil || errors.Is(failure, err):
		case failure == nil:
			failure = err
			fallthrough
		default:
			logger.Error("a part did not end well", "part", started[i].name, "error", err)
		}
	}
	return failure
}

func start(ctx context.Context, part Part, failed chan<- error) running {
	// Each part has a context of its own, so that an earlier part outlives a later one which still needs it.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	one := running{name: part.Name, grace: part.Grace, cancel: cancel, done: make(chan error, 1)}
	go func() {
		err := part.Run(own)
		asked := own.Err() != nil
		switch {
		case asked && errors.Is(err, context.Canceled):
			err = nil
		case err != nil && part.Name != "":
			err = fmt.Errorf("%s: %w", part.Name, err)
		case err != nil:
		case !asked:
			err = fmt.Errorf("%s ended by itself", part.Name)
		}
		one.done <- err
		if !asked {
			failed <- err
		}
	}()
	return one
}

func (r running) stop(grace time.Duration) error {
	r.cancel()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-r.done:
		return err
	case <-timer.C:
		return fmt.Errorf("%s did not stop within %s and is left behind", r.name, grace)
	}
}

// Leave runs work, and returns when the context ends even if work does not: then work is left behind. It is for calls of others' code
// that may return long after their context ended, and whose result is not needed then.
func Leave(ctx context.Context, work func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- work() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
