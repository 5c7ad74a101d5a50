package conformance

import (
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// The tests of this file hold the emulator to the documentation of azservicebus on deferred and scheduled messages and the state of
// sessions.

// "Deferred messages can be received using Receiver.ReceiveDeferredMessages."
func TestDeferMessage(t *testing.T) {
	b := newBus(t)
	b.send("defer", "later", "now")
	r := b.receiver("defer", nil)
	got := b.receive(r, 2)
	check(t, r.DeferMessage(b.ctx, got[0], &azservicebus.DeferMessageOptions{PropertiesToModify: map[string]any{"step": int64(2)}}))
	check(t, r.CompleteMessage(b.ctx, got[1], nil))
	b.none(r)
	peeked, err := r.PeekMessages(b.ctx, 5, nil)
	check(t, err)
	b.bodies(peeked, "later")
	if peeked[0].State != azservicebus.MessageStateDeferred {
		t.Errorf("state %d", peeked[0].State)
	}
	deferred, err := r.ReceiveDeferredMessages(b.ctx, []int64{*got[0].SequenceNumber}, nil)
	check(t, err)
	b.bodies(deferred, "later")
	if deferred[0].ApplicationProperties["step"] != int64(2) || deferred[0].LockedUntil == nil {
		t.Errorf("%v, locked until %v", deferred[0].ApplicationProperties, deferred[0].LockedUntil)
	}
	check(t, r.RenewMessageLock(b.ctx, deferred[0], nil))
	check(t, r.CompleteMessage(b.ctx, deferred[0], nil))
	if again, err := r.ReceiveDeferredMessages(b.ctx, []int64{*got[0].SequenceNumber}, nil); err == nil && len(again) > 0 {
		t.Error("a completed message was received again")
	}
}

// A deferred message stays deferred when it is abandoned, and goes to the dead-letter queue when it is dead-lettered.
func TestSettleDeferred(t *testing.T) {
	b := newBus(t)
	b.send("defer", "1")
	r := b.receiver("defer", nil)
	m := b.receive(r, 1)[0]
	numbers := []int64{*m.SequenceNumber}
	check(t, r.DeferMessage(b.ctx, m, nil))
	for range 2 {
		got, err := r.ReceiveDeferredMessages(b.ctx, numbers, nil)
		check(t, err)
		check(t, r.AbandonMessage(b.ctx, got[0], nil))
		b.none(r)
	}
	got, err := r.ReceiveDeferredMessages(b.ctx, numbers, nil)
	check(t, err)
	check(t, r.DeadLetterMessage(b.ctx, got[0], &azservicebus.DeadLetterOptions{Reason: ptr("Invalid")}))
	if dead := b.receive(b.receiver("defer", deadLetters), 1)[0]; *dead.DeadLetterReason != "Invalid" {
		t.Error(*dead.DeadLetterReason)
	}
}

// "ScheduleMessages schedules a slice of Messages to appear on Service Bus Queue/Subscription at a later time. Returns the
// sequence numbers of the messages that were scheduled. Messages that haven't been delivered can be cancelled."
func TestScheduleMessages(t *testing.T) {
	b := newBus(t)
	s := b.sender("schedule")
	at := time.Now().Add(700 * time.Millisecond)
	numbers, err := s.ScheduleMessages(b.ctx, []*azservicebus.Message{{Body: []byte("1")}, {Body: []byte("2")}, {Body: []byte("3")}}, at, nil)
	check(t, err)
	if len(numbers) != 3 {
		t.Fatal(numbers)
	}
	r := b.receiver("schedule", nil)
	peeked, err := r.PeekMessages(b.ctx, 5, nil)
	check(t, err)
	b.bodies(peeked, "1", "2", "3")
	if m := peeked[0]; m.State != azservicebus.MessageStateScheduled || *m.SequenceNumber != numbers[0] || m.ScheduledEnqueueTime.Sub(at).Abs() > 5*time.Millisecond {
		t.Errorf("state %d, number %d, scheduled for %s", m.State, *m.SequenceNumber, m.ScheduledEnqueueTime)
	}
	check(t, s.CancelScheduledMessages(b.ctx, numbers[1:2], nil))
	got := b.receive(r, 2)
	b.bodies(got, "1", "3")
	if now := time.Now(); now.Before(at.Add(-5*time.Millisecond)) || got[0].EnqueuedTime.Before(at.Add(-5*time.Millisecond)) {
		t.Errorf("it came at %s, enqueued at %s, scheduled for %s", now, got[0].EnqueuedTime, at)
	}
	b.none(r)
}

// "or you can set the ScheduledEnqueueTime field on a message when you send it"
func TestScheduledEnqueueTime(t *testing.T) {
	b := newBus(t)
	at := time.Now().Add(500 * time.Millisecond)
	check(t, b.sender("later").SendMessage(b.ctx, &azservicebus.Message{Body: []byte("late"), ScheduledEnqueueTime: &at}, nil))
	r, err := b.client.NewReceiverForSubscription("later", "s", nil)
	check(t, err)
	b.bodies(b.receive(r, 1), "late")
	if now := time.Now(); now.Before(at.Add(-5 * time.Millisecond)) {
		t.Errorf("it came %s early", at.Sub(now))
	}
}

// "GetSessionState retrieves state associated with the session." "Pass nil for the state parameter to clear the stored session
// state."
func TestSessionState(t *testing.T) {
	b := newBus(t)
	accept := func(session string) *azservicebus.SessionReceiver {
		t.Helper()
		r, err := b.client.AcceptSessionForQueue(b.ctx, "session-state", session, nil)
		check(t, err)
		return r
	}
	holds := func(r *azservicebus.SessionReceiver, want string) {
		t.Helper()
		state, err := r.GetSessionState(b.ctx, nil)
		check(t, err)
		if string(state) != want {
			t.Fatalf("state %q, want %q", state, want)
		}
	}
	r := accept("a")
	holds(r, "")
	check(t, r.SetSessionState(b.ctx, []byte("one"), nil))
	check(t, r.SetSessionState(b.ctx, []byte("two"), nil))
	holds(r, "two")
	check(t, r.Close(b.ctx))
	r = accept("a") // it outlives its holder
	holds(r, "two")
	holds(accept("b"), "")
	check(t, r.SetSessionState(b.ctx, nil, nil))
	holds(r, "")
}

// A message that is deferred in a session is received with the session's receiver.
func TestDeferInSession(t *testing.T) {
	b := newBus(t)
	check(t, b.sender("session-defer").SendMessage(b.ctx, &azservicebus.Message{SessionID: ptr("a"), Body: []byte("later")}, nil))
	r, err := b.client.AcceptSessionForQueue(b.ctx, "session-defer", "a", nil)
	check(t, err)
	m := b.receive(r, 1)[0]
	check(t, r.DeferMessage(b.ctx, m, nil))
	b.none(r)
	got, err := r.ReceiveDeferredMessages(b.ctx, []int64{*m.SequenceNumber}, nil)
	check(t, err)
	b.bodies(got, "later")
	check(t, r.CompleteMessage(b.ctx, got[0], nil))
}

// "By default it lists sessions that have active messages in the queue, as well as sessions that have session state set but no
// active messages. If options.SessionStateUpdatedAfter is set, the pager instead lists only sessions whose session state was
// updated after that time."
func TestListSessions(t *testing.T) {
	b := newBus(t)
	for _, session := range []string{"a", "b"} {
		check(t, b.sender("session-state").SendMessage(b.ctx, &azservicebus.Message{SessionID: &session}, nil))
	}
	r, err := b.client.AcceptSessionForQueue(b.ctx, "session-state", "c", nil)
	check(t, err)
	check(t, r.SetSessionState(b.ctx, []byte("state"), nil))
	check(t, r.Close(b.ctx))
	list := func(o *azservicebus.ListSessionsOptions, want ...string) {
		t.Helper()
		var all []string
		for pager := b.client.NewListSessionsForQueuePager("session-state", o); pager.More(); {
			page, err := pager.NextPage(b.ctx)
			check(t, err)
			all = append(all, page.Sessions...)
		}
		if slices.Sort(all); !slices.Equal(all, want) {
			t.Errorf("sessions %q, want %q", all, want)
		}
	}
	list(nil, "a", "b", "c")
	list(&azservicebus.ListSessionsOptions{SessionStateUpdatedAfter: ptr(time.Now().Add(-time.Hour))}, "c")
	list(&azservicebus.ListSessionsOptions{SessionStateUpdatedAfter: ptr(time.Now().Add(time.Hour))})
}
