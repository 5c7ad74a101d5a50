package ingress

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"
)

// A canary that came back counts for 15 s, and for nothing where agents are turned away or not yet sent.
func TestI11_EvidenceIsShownOnlyWhereAgentsAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEvidence()
		if e.Listening() == nil || e.request(0, Serving).GetCanaryRoundTrip() != nil || e.request(0, Serving).GetSinceLastReceive() != nil {
			t.Error("shows what never was")
		}
		e.came(time.Second, nil)
		e.received()
		time.Sleep(canaryMaxAge - 1) // of the bubble's time
		for standing, shown := range map[Standing]bool{Joining: false, Serving: true, Draining: true, Maintenance: false, Refused: false} {
			request := e.request(time.Minute, standing)
			if got := request.GetCanaryRoundTrip(); (got != nil) != shown || (shown && got.AsDuration() != time.Second) {
				t.Errorf("standing %d: canary %v", standing, got)
			}
			if request.GetOldestMessageAge().AsDuration() != time.Minute || request.GetSinceLastReceive().AsDuration() != canaryMaxAge-1 {
				t.Errorf("standing %d: %v", standing, request)
			}
		}
		e.came(0, errors.New("lost"))
		if !e.failing() || e.Listening() != nil {
			t.Error("one lost canary is noticed, and ends nothing yet")
		}
		time.Sleep(time.Nanosecond) // of the bubble's time
		if e.Listening() == nil || e.request(0, Serving).GetCanaryRoundTrip() != nil {
			t.Error("a canary counts for longer than it may")
		}
	})
}

// Only this process's own canary goes on to the registry: nobody else's Ping costs a call there.
func TestACanaryIsKnownByItsSecret(t *testing.T) {
	e, other := NewEvidence(), NewEvidence()
	arrives := func(from *Evidence) context.Context {
		sent, _ := metadata.FromOutgoingContext(from.canary(t.Context()))
		return metadata.NewIncomingContext(t.Context(), sent)
	}
	if !e.isCanary(arrives(e)) || e.isCanary(arrives(other)) || e.isCanary(t.Context()) {
		t.Error("a canary is mistaken")
	}
}
