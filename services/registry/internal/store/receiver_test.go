package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

func report(t *testing.T, s *store.Store, answered bool, sentAge time.Duration) enrollment.Receiver {
	t.Helper()
	if err := s.ReportAnswer(t.Context(), name(t, "bm-1"), answered, sentAge); err != nil {
		t.Fatal(err)
	}
	return read(t, s, "BM-1").Receiver
}

// A receiver is suspect after two commands in a row without an answer, and no more after one with an answer.
func TestAReceiverThatDoesNotAnswerIsSuspect(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "BM-1", "a", 1, start))
		if before := read(t, s, "BM-1").Receiver; before.Known() || before.Suspect() {
			t.Fatalf("never sent a command: %+v", before)
		}
		accepted(t, s, "BM-1")
		first := report(t, s, false, time.Minute)
		if first.Unanswered != 1 || first.Suspect() || !first.AnsweredAt.IsZero() || time.Since(first.UnansweredSince) < 50*time.Second {
			t.Errorf("one may have been slow: %+v", first)
		}
		second := report(t, s, false, time.Second)
		if second.Unanswered != 2 || !second.Suspect() || second.UnansweredSince != first.UnansweredSince {
			t.Errorf("after the second: %+v", second)
		}
		if count, err := s.CountSuspectReceivers(t.Context()); err != nil || count != 1 {
			t.Errorf("%d are counted, %v", count, err)
		}
		answered := report(t, s, true, 0)
		if answered.Unanswered != 0 || answered.Suspect() || answered.AnsweredAt.IsZero() || !answered.UnansweredSince.IsZero() {
			t.Errorf("after an answer: %+v", answered)
		}
		if count, err := s.CountSuspectReceivers(t.Context()); err != nil || count != 0 {
			t.Errorf("%d are counted, %v", count, err)
		}
		// A long write ends without an answer while reads are answered: the receiver is alive.
		if slow := report(t, s, false, time.Minute); slow != answered {
			t.Errorf("one that was sent before the last answer counts: %+v", slow)
		}
	})
}

// Gateways report beside each other; no report is lost, and none makes a row for an agent that is not known.
func TestReportsOfReceiversMeet(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		if err := s.ReportAnswer(t.Context(), name(t, "BM-1"), false, 0); err != nil {
			t.Fatal(err)
		}
		record(t, s, beat(t, "BM-1", "a", 1, start))
		if unknown := read(t, s, "BM-1").Receiver; unknown.Known() {
			t.Errorf("it was reported before it was known: %+v", unknown)
		}
		failures := make(chan error)
		for range 8 {
			go func() { failures <- s.ReportAnswer(context.WithoutCancel(t.Context()), name(t, "BM-1"), false, 0) }()
		}
		for range 8 {
			if err := <-failures; err != nil {
				t.Error(err)
			}
		}
		if got := read(t, s, "BM-1").Receiver; got.Unanswered != 8 {
			t.Errorf("%+v", got)
		}
		agent := read(t, s, "BM-1")
		if err := s.Remove(t.Context(), name(t, "BM-1"), agent.Etag()); err != nil {
			t.Fatal(err)
		}
		record(t, s, beat(t, "BM-1", "b", 1, start.Add(time.Minute)))
		if again := read(t, s, "BM-1").Receiver; again.Known() {
			t.Errorf("what was known of a removed agent: %+v", again)
		}
	})
}

func accepted(t *testing.T, s *store.Store, agent string) {
	t.Helper()
	if _, _, err := s.Accept(t.Context(), store.Acceptance{Name: name(t, agent), Etag: read(t, s, agent).Etag(), Create: &store.Server{URL: "https://bm.example.test"}, Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
}

// What an operator did about a dead receiver ends the count, and with it the alert.
func TestOnlyReceiversThatAreUsedAreCounted(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		count := func() int64 {
			t.Helper()
			found, err := s.CountSuspectReceivers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		record(t, s, beat(t, "BM-1", "a", 1, start), beat(t, "BM-2", "a", 1, start))
		for _, agent := range []string{"BM-1", "BM-2"} {
			accepted(t, s, agent)
			for range 2 {
				if err := s.ReportAnswer(t.Context(), name(t, agent), false, time.Second); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := count(); got != 2 {
			t.Fatalf("%d are counted", got)
		}
		bus, base := false, "http://127.0.0.1:9"
		if _, err := s.UpdateReach(t.Context(), name(t, "BM-1"), read(t, s, "BM-1").Etag(), store.Reach{OnServiceBus: &bus, HTTPBaseURL: &base}); err != nil {
			t.Fatal(err)
		}
		if got := count(); got != 1 || read(t, s, "BM-1").Receiver.Known() {
			t.Errorf("%d are counted after one left the bus, of which %+v is known", got, read(t, s, "BM-1").Receiver)
		}
		if _, err := s.Reject(t.Context(), name(t, "BM-2"), read(t, s, "BM-2").Etag(), "ann"); err != nil {
			t.Fatal(err)
		}
		if got := count(); got != 0 {
			t.Errorf("%d are counted after the other was rejected", got)
		}
	})
}

// An answer from the future of the clock, as a step leaves it, hides no silence, and is mended with the step.
func TestAReceiverIsJudgedOverAStepOfTheClock(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		s := open(t, engine)
		record(t, s, beat(t, "BM-1", "a", 1, start))
		s.StepClock(time.Hour)
		if _, err := s.LookAtClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		report(t, s, true, 0)
		s.StepClock(0)
		if silent := report(t, s, false, time.Second); silent.Unanswered != 1 {
			t.Errorf("a silence is hidden: %+v", silent)
		}
		if _, err := s.LookAtClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := read(t, s, "BM-1"); got.Receiver.AnsweredAt.After(got.ReadAt) || got.Receiver.UnansweredSince.After(got.ReadAt) {
			t.Errorf("%+v lies after %s", got.Receiver, got.ReadAt)
		}
	})
}
