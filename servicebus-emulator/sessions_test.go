package servicebusemulator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

func sendTo(t *testing.T, s *azservicebus.Sender, session, body string) {
	t.Helper()
	m := text(body)
	m.SessionID = &session
	check(t, s.SendMessage(within(t), m, nil))
}

func TestSessionById(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{RequiresSession: true}), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	sender := must(client.NewSender("t", nil))(t)
	r := must(client.AcceptSessionForSubscription(ctx, "t", "s", "a", nil))(t)
	if !r.LockedUntil().After(time.Now().Add(50 * time.Second)) {
		t.Errorf("locked until %s", r.LockedUntil())
	}
	sendTo(t, sender, "b", "other")
	for i := range 3 {
		sendTo(t, sender, "a", fmt.Sprint(i))
	}
	for i, m := range receive(t, r, 3) {
		if string(m.Body) != fmt.Sprint(i) || *m.SessionID != "a" {
			t.Fatalf("message %d: %q of session %s", i, m.Body, *m.SessionID)
		}
		check(t, r.CompleteMessage(ctx, m, nil))
	}
	check(t, r.RenewSessionLock(ctx, nil))
	counts(t, e, emu.Counts{Active: 1})
}

func TestBusySession(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{RequiresSession: true}), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	r := must(client.AcceptSessionForSubscription(ctx, "t", "s", "a", nil))(t)
	_, err := connect(t, e).AcceptSessionForSubscription(ctx, "t", "s", "a", nil)
	if err == nil || !strings.Contains(err.Error(), "com.microsoft:session-cannot-be-locked") {
		t.Fatalf("a busy session answers %v", err)
	}
	check(t, r.Close(ctx))
	must(connect(t, e).AcceptSessionForSubscription(ctx, "t", "s", "a", nil))(t)
}

func TestNextSession(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{RequiresSession: true}), emu.Options{})
	client := connect(t, e)
	sender := must(client.NewSender("t", nil))(t)
	sendTo(t, sender, "a", "1")
	sendTo(t, sender, "b", "2")
	first := must(client.AcceptNextSessionForSubscription(within(t), "t", "s", nil))(t)
	second := must(client.AcceptNextSessionForSubscription(within(t), "t", "s", nil))(t)
	if first.SessionID() != "a" || second.SessionID() != "b" {
		t.Fatalf("sessions %s, %s", first.SessionID(), second.SessionID())
	}
	timesOut(t, func(ctx context.Context) error {
		_, err := client.AcceptNextSessionForSubscription(ctx, "t", "s", nil)
		return err
	})
	// One that waits gets the session when its first message comes.
	waiting := connect(t, e)
	done := make(chan string, 1)
	go func() {
		r, err := waiting.AcceptNextSessionForSubscription(within(t), "t", "s", nil)
		if err != nil {
			done <- err.Error()
			return
		}
		done <- r.SessionID()
	}()
	sendTo(t, sender, "c", "3")
	if got := <-done; got != "c" {
		t.Fatalf("waiting for a session got %q", got)
	}
}

func TestGivingUpOnNextSessionLeavesItFree(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{RequiresSession: true}), emu.Options{})
	client := connect(t, e)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = client.AcceptNextSessionForSubscription(ctx, "t", "s", nil)
	}()
	time.AfterFunc(50*time.Millisecond, cancel)
	<-done
	check(t, client.Close(within(t)))
	other := connect(t, e)
	sendTo(t, must(other.NewSender("t", nil))(t), "a", "1")
	r := must(other.AcceptNextSessionForSubscription(within(t), "t", "s", nil))(t)
	if r.SessionID() != "a" {
		t.Fatal(r.SessionID())
	}
}

func TestSessionLockLost(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{RequiresSession: true}), emu.Options{})
	client := connect(t, e)
	sender := must(client.NewSender("t", nil))(t)
	sendTo(t, sender, "a", "1")
	r := must(client.AcceptSessionForSubscription(within(t), "t", "s", "a", nil))(t)
	m := receive(t, r, 1)[0]
	check(t, e.ExpireLocks("t", "s"))
	// The SDK would accept the session again, unnoticed, were it not for another one that has it.
	other := must(connect(t, e).AcceptSessionForSubscription(within(t), "t", "s", "a", nil))(t)
	if err := r.RenewSessionLock(within(t), nil); err == nil {
		t.Error("a lost session lock was renewed")
	}
	if err := r.CompleteMessage(within(t), m, nil); err == nil {
		t.Error("a message of a lost session was completed")
	}
	if again := receive(t, other, 1)[0]; again.DeliveryCount != 2 {
		t.Errorf("delivery %d after the session lock expired", again.DeliveryCount)
	}
}

func TestClosingASessionGivesItsMessagesBack(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{RequiresSession: true}), emu.Options{})
	client := connect(t, e)
	sender := must(client.NewSender("t", nil))(t)
	sendTo(t, sender, "a", "1")
	r := must(client.AcceptSessionForSubscription(within(t), "t", "s", "a", nil))(t)
	receive(t, r, 1)
	check(t, r.Close(within(t)))
	r = must(client.AcceptNextSessionForSubscription(within(t), "t", "s", nil))(t)
	if again := receive(t, r, 1)[0]; again.DeliveryCount != 1 {
		t.Errorf("delivery %d after the session was closed", again.DeliveryCount)
	}
}

func TestDroppedConnectionFreesItsSessions(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{RequiresSession: true}), emu.Options{})
	client := connect(t, e)
	sender := must(client.NewSender("t", nil))(t)
	r := must(client.AcceptSessionForSubscription(within(t), "t", "s", "a", nil))(t)
	e.DropConnections()
	sendTo(t, sender, "a", "1")
	m := receive(t, r, 1)[0] // the SDK accepts the session again
	check(t, r.CompleteMessage(within(t), m, nil))
	counts(t, e, emu.Counts{})
}

func TestSessionsAndReceiversDoNotMix(t *testing.T) {
	cfg := one(emu.SubscriptionProperties{RequiresSession: true})
	topic := &cfg.UserConfig.Namespaces[0].Topics[0]
	topic.Subscriptions = append(topic.Subscriptions, emu.Subscription{Name: "plain"})
	e := start(t, cfg, emu.Options{})
	client := connect(t, e)
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	if _, err := r.ReceiveMessages(within(t), 1, nil); err == nil || !strings.Contains(err.Error(), "requires sessions") {
		t.Errorf("a receiver without a session: %v", err)
	}
	_, err := client.AcceptSessionForSubscription(within(t), "t", "plain", "a", nil)
	if err == nil || !strings.Contains(err.Error(), "does not use sessions") {
		t.Errorf("a session of a subscription without: %v", err)
	}
	sender := must(client.NewSender("t", nil))(t)
	check(t, sender.SendMessage(within(t), text("no session id"), nil))
	counts(t, e, emu.Counts{DeadLetter: 1})
}
