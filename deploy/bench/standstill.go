package bench

import (
	"context"
	"fmt"
	"time"
)

const (
	// waitingHeartbeats is a fleet whose heartbeats come all at once, as after an outage.
	waitingHeartbeats = 500
	// formerLock and formerCredit are what the measurement is held against: a lock of a minute, and a whole batch asked for ahead.
	formerLock   = time.Minute
	formerCredit = "ingest.credit=500"
)

// benchStandstill measures how long heartbeats wait at most when one of two replicas stands still: what the broker had sent ahead to it
// comes to the other when its locks lapse.
func (r *Report) benchStandstill(ctx context.Context, s *system) error {
	now, err := s.standstill(ctx)
	if err != nil {
		return err
	}
	former, err := newSystemWith(ctx, formerLock, formerCredit)
	if err != nil {
		return err
	}
	defer former.close()
	before, err := former.standstill(ctx)
	if err != nil {
		return err
	}
	r.Add(Figure{
		Name: "one of two heartbeat replicas stands still: 500 heartbeats are all recorded by the other after", Value: now.last.Seconds(), Unit: "s", Target: 25,
		Baseline: before.last.Seconds(), BaselineName: "locks of 60 s, and 500 sent ahead",
	})
	r.Add(Figure{
		Name: "the same: heartbeats that waited for locks to lapse", Value: float64(now.late), Unit: "of 500",
		Baseline: float64(before.late), BaselineName: "locks of 60 s, and 500 sent ahead",
	})
	return nil
}

// waited is how long the last heartbeat took, and how many took longer than a free replica needs.
type waited struct {
	last time.Duration
	late int
}

func (s *system) standstill(ctx context.Context) (waited, error) {
	ctx, cancel := context.WithTimeout(ctx, 6*time.Minute)
	defer cancel()
	if err := s.addHeartbeat(ctx); err != nil {
		return waited{}, err
	}
	if err := s.send(ctx, "STILL", waitingHeartbeats, 1, "a"); err != nil { // both have received, and wait for more
		return waited{}, err
	}
	if err := s.drained(ctx); err != nil {
		return waited{}, err
	}
	still := s.heartbeats[len(s.heartbeats)-1]
	if err := still.Pause(); err != nil {
		return waited{}, err
	}
	defer still.Resume() //nolint:errcheck // it is stopped next
	began := time.Now()
	if err := s.send(ctx, "STILL", waitingHeartbeats, 1, "b"); err != nil {
		return waited{}, err
	}
	if err := pause(ctx, 3*time.Second); err != nil {
		return waited{}, err
	}
	counts, err := s.emulator.Counts(stateTopic, stateSubscription)
	if err != nil {
		return waited{}, err
	}
	found := waited{late: counts.Active}
	if err := s.drained(ctx); err != nil {
		return waited{}, fmt.Errorf("%d heartbeats waited: %w", found.late, err)
	}
	found.last = time.Since(began)
	return found, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
