package servicebusemulator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
)

// queues is entities that are queues only.
func queues(all ...emu.Queue) emu.Config {
	return emu.Config{UserConfig: emu.UserConfig{Namespaces: []emu.Namespace{{Queues: all}}}}
}

func peek(t *testing.T, r *azservicebus.Receiver) []*azservicebus.ReceivedMessage {
	t.Helper()
	return must(r.PeekMessages(within(t), 100, &azservicebus.PeekMessagesOptions{FromSequenceNumber: ptr(int64(0))}))(t)
}

// manualClock stands until it is moved; what falls due then runs before advance returns.
type manualClock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*manualTimer]time.Time
}

type manualTimer struct {
	clock *manualClock
	f     func()
}

func newManualClock() *manualClock {
	return &manualClock{now: time.Now(), timers: map[*manualTimer]time.Time{}}
}

func (c *manualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manualClock) AfterFunc(d time.Duration, f func()) broker.Timer {
	t := &manualTimer{c, f}
	t.Reset(d)
	return t
}

func (t *manualTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	_, set := t.clock.timers[t]
	delete(t.clock.timers, t)
	return set
}

func (t *manualTimer) Reset(d time.Duration) bool {
	was := t.Stop()
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.clock.timers[t] = t.clock.now.Add(d)
	return was
}

func (c *manualClock) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []*manualTimer
	for t, at := range c.timers {
		if !at.After(c.now) {
			due = append(due, t)
			delete(c.timers, t)
		}
	}
	c.mu.Unlock()
	for _, t := range due {
		t.f()
	}
}

func TestScheduleMessages(t *testing.T) {
	clock := newManualClock()
	client := connect(t, start(t, queues(emu.Queue{Name: "q"}), emu.Options{Clock: clock}))
	ctx := within(t)
	sender := must(client.NewSender("q", nil))(t)
	r := must(client.NewReceiverForQueue("q", nil))(t)
	at := clock.Now().Add(30 * time.Second).Truncate(time.Millisecond)
	sequences := must(sender.ScheduleMessages(ctx, []*azservicebus.Message{text("1"), text("2")}, at, nil))(t)
	bySend := text("3")
	bySend.ScheduledEnqueueTime = &at
	check(t, sender.SendMessage(ctx, bySend, nil))
	check(t, sender.CancelScheduledMessages(ctx, sequences[:1], nil))

	waiting := peek(t, r)
	if len(waiting) != 2 || *waiting[0].SequenceNumber != sequences[1] {
		t.Fatalf("%d are scheduled; scheduled as %v", len(waiting), sequences)
	}
	for _, m := range waiting {
		if m.State != azservicebus.MessageStateScheduled || !m.ScheduledEnqueueTime.Equal(at) {
			t.Errorf("peeked in state %v for %v", m.State, m.ScheduledEnqueueTime)
		}
	}
	clock.advance(30 * time.Second)
	for i, m := range receive(t, r, 2) {
		if want := fmt.Sprint(i + 2); string(m.Body) != want || m.State != azservicebus.MessageStateActive || m.EnqueuedTime.Before(at) {
			t.Errorf("received %q, enqueued at %s", m.Body, m.EnqueuedTime)
		}
		check(t, r.CompleteMessage(ctx, m, nil))
	}
	var sbErr *azservicebus.Error
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond) // the SDK tries again
	defer cancel()
	if err := sender.CancelScheduledMessages(short, sequences[1:], nil); err == nil || errors.As(err, &sbErr) && sbErr.Code != azservicebus.CodeNotFound {
		t.Errorf("cancelling what was delivered: %v", err)
	}
}

func TestScheduleToATopic(t *testing.T) {
	client := connect(t, start(t, one(emu.SubscriptionProperties{}), emu.Options{}))
	sender := must(client.NewSender("t", nil))(t)
	large := text(strings.Repeat("x", 200<<10))
	at := time.Now().Add(100 * time.Millisecond).Truncate(time.Millisecond)
	must(sender.ScheduleMessages(within(t), []*azservicebus.Message{large}, at, nil))(t)
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	if m := receive(t, r, 1)[0]; m.EnqueuedTime.Before(at) || time.Now().Before(at) {
		t.Errorf("enqueued at %s", m.EnqueuedTime)
	}
}

func TestDeferMessage(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	sender := must(client.NewSender("t", nil))(t)
	for i := range 3 {
		check(t, sender.SendMessage(ctx, text(fmt.Sprint(i)), nil))
	}
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	var sequences []int64
	for i, m := range receive(t, r, 3) {
		if i == 2 { // by lock token, through management
			m = &azservicebus.ReceivedMessage{LockToken: m.LockToken, SequenceNumber: m.SequenceNumber}
		}
		check(t, r.DeferMessage(ctx, m, &azservicebus.DeferMessageOptions{PropertiesToModify: map[string]any{"k": "v"}}))
		sequences = append(sequences, *m.SequenceNumber)
	}
	counts(t, e, emu.Counts{Deferred: 3})
	if all := peek(t, r); len(all) != 3 || all[0].State != azservicebus.MessageStateDeferred {
		t.Fatalf("peeked %d", len(all))
	}
	got := must(r.ReceiveDeferredMessages(ctx, sequences[:2], nil))(t)
	if len(got) != 2 || string(got[1].Body) != "1" || got[1].State != azservicebus.MessageStateDeferred ||
		got[1].ApplicationProperties["k"] != "v" || got[1].LockToken == [16]byte{} || got[1].LockedUntil == nil {
		t.Fatalf("received %+v", got)
	}
	check(t, r.RenewMessageLock(ctx, got[0], nil))
	check(t, r.CompleteMessage(ctx, got[0], nil))
	check(t, r.AbandonMessage(ctx, got[1], nil))
	counts(t, e, emu.Counts{Deferred: 2})
	again := must(r.ReceiveDeferredMessages(ctx, sequences[1:2], nil))(t)
	check(t, r.DeadLetterMessage(ctx, again[0], nil))
	deleting := must(client.NewReceiverForSubscription("t", "s",
		&azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}))(t)
	if got := must(deleting.ReceiveDeferredMessages(ctx, sequences[2:], nil))(t); len(got) != 1 || string(got[0].Body) != "2" {
		t.Fatalf("received %+v", got)
	}
	counts(t, e, emu.Counts{DeadLetter: 1})
	var sbErr *azservicebus.Error
	if _, err := r.ReceiveDeferredMessages(ctx, sequences[:1], nil); !errors.As(err, &sbErr) || sbErr.Code != azservicebus.CodeNotFound {
		t.Errorf("a deferred message that is gone: %v", err)
	}
}

func TestDeferredMessagesOfASession(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{RequiresSession: true}), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	sendTo(t, must(client.NewSender("t", nil))(t), "a", "1")
	r := must(client.AcceptSessionForSubscription(ctx, "t", "s", "a", nil))(t)
	m := receive(t, r, 1)[0]
	check(t, r.DeferMessage(ctx, m, nil))
	check(t, r.Close(ctx))
	r = must(client.AcceptSessionForSubscription(ctx, "t", "s", "a", nil))(t)
	got := must(r.ReceiveDeferredMessages(ctx, []int64{*m.SequenceNumber}, nil))(t)
	check(t, r.CompleteMessage(ctx, got[0], nil))
	counts(t, e, emu.Counts{})
}

func TestSessionStateAndList(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{RequiresSession: true}), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	r := must(client.AcceptSessionForSubscription(ctx, "t", "s", "a", nil))(t)
	if state := must(r.GetSessionState(ctx, nil))(t); state != nil {
		t.Errorf("state of a new session: %q", state)
	}
	before := time.Now().Add(-time.Second)
	check(t, r.SetSessionState(ctx, []byte("state"), nil))
	check(t, r.Close(ctx))
	sender := must(client.NewSender("t", nil))(t)
	for i := range 150 { // more than one page
		sendTo(t, sender, fmt.Sprintf("b%03d", i), "x")
	}
	list := func(opts *azservicebus.ListSessionsOptions) (ids []string) {
		pager := client.NewListSessionsForSubscriptionPager("t", "s", opts)
		for pager.More() {
			ids = append(ids, must(pager.NextPage(ctx))(t).Sessions...)
		}
		return ids
	}
	if ids := list(nil); len(ids) != 151 || ids[0] != "a" || ids[150] != "b149" {
		t.Errorf("%d sessions: %q", len(ids), ids)
	}
	if ids := list(&azservicebus.ListSessionsOptions{SessionStateUpdatedAfter: &before}); fmt.Sprint(ids) != "[a]" {
		t.Errorf("sessions with a new state: %q", ids)
	}
	r = must(client.AcceptSessionForSubscription(ctx, "t", "s", "a", nil))(t)
	if state := must(r.GetSessionState(ctx, nil))(t); string(state) != "state" {
		t.Errorf("state %q", state)
	}
	check(t, r.SetSessionState(ctx, nil, nil))
	if state := must(r.GetSessionState(ctx, nil))(t); len(state) != 0 {
		t.Errorf("state %q after it was cleared", state)
	}
}

func TestDuplicateDetection(t *testing.T) {
	client := connect(t, start(t, queues(emu.Queue{Name: "q", Properties: emu.QueueProperties{RequiresDuplicateDetection: true}}), emu.Options{}))
	sender := must(client.NewSender("q", nil))(t)
	for _, id := range []string{"a", "a", "b"} {
		m := text(id)
		m.MessageID = &id
		check(t, sender.SendMessage(within(t), m, nil))
	}
	r := must(client.NewReceiverForQueue("q", nil))(t)
	if all := peek(t, r); len(all) != 2 || all[1].MessageID != "b" {
		t.Errorf("%d messages", len(all))
	}
}

func TestForwardingThroughTheSDK(t *testing.T) {
	cfg := one(emu.SubscriptionProperties{ForwardTo: "q"})
	cfg.UserConfig.Namespaces[0].Queues = []emu.Queue{
		{Name: "q", Properties: emu.QueueProperties{ForwardDeadLetteredMessagesTo: "dead"}}, {Name: "dead"},
	}
	client := connect(t, start(t, cfg, emu.Options{}))
	ctx := within(t)
	check(t, must(client.NewSender("t", nil))(t).SendMessage(ctx, text("x"), nil))
	r := must(client.NewReceiverForQueue("q", nil))(t)
	check(t, r.DeadLetterMessage(ctx, receive(t, r, 1)[0], &azservicebus.DeadLetterOptions{Reason: ptr("why")}))
	dead := must(client.NewReceiverForQueue("dead", nil))(t)
	m := receive(t, dead, 1)[0]
	if *m.DeadLetterSource != "q" || *m.DeadLetterReason != "why" || *m.EnqueuedSequenceNumber != 1 {
		t.Errorf("forwarded as %+v", m)
	}
	forwarding := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	if _, err := forwarding.ReceiveMessages(ctx, 1, nil); err == nil || !strings.Contains(err.Error(), "forwards") {
		t.Errorf("receiving where messages are forwarded: %v", err)
	}
}

func TestDeletedEntityDetachesItsLinks(t *testing.T) {
	clock := newManualClock()
	cfg := queues(emu.Queue{Name: "q", Properties: emu.QueueProperties{AutoDeleteOnIdle: emu.Duration(5 * time.Minute)}})
	client := connect(t, start(t, cfg, emu.Options{Clock: clock}))
	ctx := within(t)
	sender := must(client.NewSender("q", nil))(t)
	check(t, sender.SendMessage(ctx, text("x"), nil))
	r := must(client.NewReceiverForQueue("q", nil))(t)
	receive(t, r, 1)
	clock.advance(5 * time.Minute) // a receiver is attached
	check(t, sender.SendMessage(ctx, text("y"), nil))
	check(t, r.Close(ctx))
	eventually(t, func() bool {
		clock.advance(5 * time.Minute) // once the receiver is gone for the emulator, too
		err := sender.SendMessage(ctx, text("z"), nil)
		return err != nil && strings.Contains(err.Error(), "amqp:not-found")
	})
}
