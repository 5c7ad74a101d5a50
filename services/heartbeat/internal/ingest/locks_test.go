package ingest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What waits for a worker is kept as well as what the workers have.
func TestI7_WhatWaitsForAWorkerKeepsItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const batches = 5 // one for each worker, and more
		source := newSource()
		source.lock = 5 * time.Second
		loop := newLoop(source, registryFunc(func([]string) error {
			time.Sleep(9 * time.Second)
			return nil
		}))
		loop.Most = 1
		for i := range batches {
			source.add(fmt.Sprint(i), `{"name":"A"}`)
		}
		during(t, loop, func() {
			pass(8 * time.Second)
			source.mu.Lock()
			for i := range batches {
				if source.renewed[fmt.Sprint(i)] < 2 {
					t.Errorf("message %d: its lock was renewed %d times", i, source.renewed[fmt.Sprint(i)])
				}
			}
			source.mu.Unlock()
			pass(30 * time.Second)
		})
		if got := source.done(); len(got) != batches || source.most() != 1 {
			t.Errorf("settled %v, delivered %d times", got, source.most())
		}
	})
}

// A renewal that fails is tried again before the lock is over.
func TestI7_ARenewalThatFailsIsTriedAgainInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource(named("A")...)
		source.lock, source.failing = 8*time.Second, 1
		loop := newLoop(source, registryFunc(func([]string) error { return status.Error(codes.Unavailable, "down") }))
		during(t, loop, func() {
			pass(7 * time.Second)
			source.mu.Lock()
			defer source.mu.Unlock()
			if source.renewed["0"] == 0 {
				t.Error("its lock was not renewed while it lasted")
			}
		})
	})
}

// A short outage costs nothing: the locks are kept.
func TestI7_AShortOutageCostsNoDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		source := newSource(named("A", "B")...)
		source.lock = 5 * time.Second
		loop := newLoop(source, registryFunc(func([]string) error {
			if time.Since(began) < 10*time.Second {
				return status.Error(codes.Unavailable, "down")
			}
			return nil
		}))
		during(t, loop, func() { pass(20 * time.Second) })
		if got := source.done(); len(got) != 2 || source.most() != 1 || source.renewed["0"] < 3 {
			t.Errorf("settled %v, delivered %d times, locks renewed %v", got, source.most(), source.renewed)
		}
	})
}
