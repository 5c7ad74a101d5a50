package command

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/commandcenter/fleet/services/internal/fault"
)

func TestI24_WhatWaitedWhileTheGatewayStoodStillIsAsOldAsThat(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	var s StandStill
	if s.lost(start) != 0 {
		t.Error("it never ticked")
	}
	for d := time.Duration(0); d <= 2*time.Second; d += tickInterval {
		s.tick(at(d))
	}
	if lost := s.lost(at(2*time.Second + leastGap - 1)); lost != 0 {
		t.Errorf("it was busy, and %s are lost", lost)
	}
	if lost := s.lost(at(9 * time.Second)); lost != 7*time.Second {
		t.Errorf("a request that is read before the tick may have waited %s", lost)
	}
	s.tick(at(9*time.Second + 1))
	if lost := s.lost(at(10 * time.Second)); lost != 7*time.Second {
		t.Errorf("one that is read soon after may have waited %s", lost)
	}
	for d := 9 * time.Second; d <= 12*time.Second; d += tickInterval {
		s.tick(at(d))
	}
	if lost := s.lost(at(12 * time.Second)); lost != 0 {
		t.Errorf("long after, %s are lost", lost)
	}
	// The monotonic clock may stop with the machine.
	asleep := at(12 * time.Second).Round(0).Add(time.Hour)
	if lost := s.lost(asleep); lost < time.Hour {
		t.Errorf("a machine that slept for an hour lost %s", lost)
	}
}

func TestI24_ACommandThatWaitedLongerThanItsBudgetIsNotSent(t *testing.T) {
	for lost, want := range map[time.Duration]fault.Reason{0: "", 59 * time.Second: "", time.Minute: fault.BudgetTooShort, time.Hour: fault.BudgetTooShort} {
		t.Run(lost.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(onBus())
				b.StoodStill = func() time.Duration { return lost }
				_, err := b.Execute(t.Context(), "alice", "BM-0042", restart())
				if got := reason(t, err); got != want || (want != "") != (len(b.bus.sent) == 0) {
					t.Fatalf("answered %q, sent %d: %v", got, len(b.bus.sent), err)
				}
				if want == "" && b.bus.left > time.Minute-lost {
					t.Errorf("%s of its budget were left", b.bus.left)
				}
			})
		})
	}
}
