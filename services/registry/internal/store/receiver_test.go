package store_test

import (
	"context"
	"testing"
	"time"

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
	s := open(t)
	record(t, s, beat(t, "BM-1", "a", 1, start))
	if before := read(t, s, "BM-1").Receiver; before.Known() || before.Suspect() {
		t.Fatalf("never sent a command: %+v", before)
	}
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
}

// Gateways report beside each other; no report is lost, and none makes a row for an agent that is not known.
func TestReportsOfReceiversMeet(t *testing.T) {
	s := open(t)
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
}
