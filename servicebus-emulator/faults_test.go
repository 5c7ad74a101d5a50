package servicebusemulator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

const (
	busy           = "com.microsoft:server-busy"
	detachForced   = "amqp:link:detach-forced"
	disabled       = "com.microsoft:entity-disabled"
	subscriptionTS = "t/Subscriptions/s"
)

// impatient is a client that shows each error, rather than to try again; it does not even connect again.
func impatient(t testing.TB, e *emu.Emulator) *azservicebus.Client {
	t.Helper()
	client := must(azservicebus.NewClientFromConnectionString(e.ConnectionString(), &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: -1},
	}))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = client.Close(ctx)
	})
	return client
}

// fails checks the AMQP condition that an error states and the SDK's code, unless empty.
func fails(t testing.TB, err error, condition string, code azservicebus.Code) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), condition) {
		t.Errorf("%v, want condition %s", err, condition)
	}
	var coded *azservicebus.Error
	if code != "" && (!errors.As(err, &coded) || coded.Code != code) {
		t.Errorf("%v, want code %s", err, code)
	}
}

// unanswered checks that a call is carried out and not answered; there is no end to that, so it gives it a moment.
func unanswered(t testing.TB, carriedOut func() bool, call func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- call(ctx) }()
	eventually(t, carriedOut)
	select {
	case err := <-answered:
		t.Fatalf("it was answered: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Fatalf("it was answered: %v", err)
	}
}

func receiving(r receiver) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := r.ReceiveMessages(ctx, 1, nil)
		return err
	}
}

func noneLeft(t testing.TB, e *emu.Emulator) {
	t.Helper()
	if on := e.Faults(); len(on) != 0 {
		t.Errorf("still on: %+v", on)
	}
}

func hasActive(t testing.TB, e *emu.Emulator, n int) func() bool {
	return func() bool { return must(e.Counts("t", "s"))(t).Active == n }
}

func TestDetachLinks(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client, ctx := impatient(t, e), within(t)
	sender := must(client.NewSender("t", nil))(t)
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	check(t, sender.SendMessage(ctx, text("1"), nil))
	check(t, r.CompleteMessage(ctx, receive(t, r, 1)[0], nil))

	if n := must(e.DetachLinks("T", disabled))(t); n != 3 { // the sender, and requests and replies of $management
		t.Errorf("%d links detached", n)
	}
	fails(t, sender.SendMessage(ctx, text("2"), nil), disabled, "") // the SDK gives up on this condition
	counts(t, e, emu.Counts{})
	check(t, must(client.NewSender("t", nil))(t).SendMessage(ctx, text("3"), nil))
	check(t, r.CompleteMessage(ctx, receive(t, r, 1)[0], nil)) // the subscription's links are none of the topic's

	if n := must(e.DetachLinks(subscriptionTS, detachForced))(t); n != 3 {
		t.Errorf("%d links detached", n)
	}
	if got, err := r.ReceiveMessages(ctx, 1, nil); len(got) > 0 || err != nil { // it is told to try again
		t.Errorf("received %d messages, %v", len(got), err)
	}
	check(t, must(client.NewSender("t", nil))(t).SendMessage(ctx, text("4"), nil))
	receive(t, r, 1)
}

// The SDK takes up a detached link again by itself.
func TestDetachLinksIsRecovered(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client, ctx := connect(t, e), within(t)
	sender := must(client.NewSender("t", nil))(t)
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	for range 3 {
		check(t, sender.SendMessage(ctx, text("x"), nil))
		check(t, r.CompleteMessage(ctx, receive(t, r, 1)[0], nil))
		if must(e.DetachLinks("", detachForced))(t) == 0 {
			t.Error("no links detached")
		}
	}
}

func TestDetachLinksThatWaitForASession(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{RequiresSession: true}), emu.Options{})
	client, ctx := impatient(t, e), within(t)
	failed := make(chan error, 1)
	go func() {
		_, err := client.AcceptNextSessionForSubscription(ctx, "t", "s", nil)
		failed <- err
	}()
	eventually(t, func() bool { return must(e.DetachLinks(subscriptionTS, "com.microsoft:timeout"))(t) > 0 })
	fails(t, <-failed, "a fault on demand", azservicebus.CodeTimeout) // rather than for want of a session

	message := text("x")
	message.SessionID = ptr("a")
	check(t, must(client.NewSender("t", nil))(t).SendMessage(ctx, message, nil))
	session := must(client.AcceptNextSessionForSubscription(ctx, "t", "s", nil))(t)
	receive(t, session, 1)
}

func TestThrottle(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client, ctx := impatient(t, e), within(t)
	sender := must(client.NewSender("t", nil))(t)
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	check(t, sender.SendMessage(ctx, text("1"), nil))
	m := receive(t, r, 1)[0]
	check(t, r.RenewMessageLock(ctx, m, nil))

	e.Throttle(emu.Always)
	fails(t, sender.SendMessage(ctx, text("2"), nil), busy, "")
	if err := r.RenewMessageLock(ctx, m, nil); err == nil || !strings.Contains(err.Error(), "status code 503") {
		t.Errorf("renewal under throttling: %v", err)
	}
	_, err := must(client.NewReceiverForSubscription("t", "s", nil))(t).PeekMessages(ctx, 1, nil)
	fails(t, err, busy, "")
	counts(t, e, emu.Counts{Active: 1, Locked: 1})

	e.Throttle(0)
	noneLeft(t, e)
	check(t, sender.SendMessage(ctx, text("3"), nil))
	check(t, r.RenewMessageLock(ctx, m, nil))
}

// The SDK tries again what is throttled, three times by default.
func TestThrottleIsWaitedOut(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	sender := must(connect(t, e).NewSender("t", nil))(t)
	check(t, sender.SendMessage(within(t), text("1"), nil))
	e.Throttle(4)
	fails(t, sender.SendMessage(within(t), text("2"), nil), busy, "")
	noneLeft(t, e)
	e.Throttle(3)
	check(t, sender.SendMessage(within(t), text("3"), nil))
	noneLeft(t, e)
	counts(t, e, emu.Counts{Active: 2})
}

func TestRejectSends(t *testing.T) {
	cfg := one(emu.SubscriptionProperties{})
	cfg.UserConfig.Namespaces[0].Queues = []emu.Queue{{Name: "q"}}
	e := start(t, cfg, emu.Options{})
	client, ctx := impatient(t, e), within(t)
	sender := must(client.NewSender("t", nil))(t)
	other := must(client.NewSender("q", nil))(t)
	const full = "amqp:resource-limit-exceeded"

	check(t, e.RejectSends("T", full, 2))
	check(t, other.SendMessage(ctx, text("x"), nil))
	fails(t, sender.SendMessage(ctx, text("1"), nil), full, "")
	batch := must(sender.NewMessageBatch(ctx, nil))(t)
	check(t, batch.AddMessage(text("2"), nil))
	fails(t, sender.SendMessageBatch(ctx, batch, nil), full, "")
	noneLeft(t, e)
	check(t, sender.SendMessage(ctx, text("3"), nil))
	counts(t, e, emu.Counts{Active: 1})

	check(t, e.RejectSends("", full, emu.Always))
	fails(t, other.SendMessage(ctx, text("x"), nil), full, "")
	e.EndFaults()
	check(t, other.SendMessage(ctx, text("x"), nil))
}

func TestRefuseAttaches(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client, ctx := impatient(t, e), within(t)
	sender := must(client.NewSender("t", nil))(t)
	check(t, e.RefuseAttaches(subscriptionTS, disabled, 1))
	check(t, sender.SendMessage(ctx, text("1"), nil))
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	_, err := r.ReceiveMessages(ctx, 1, nil)
	fails(t, err, disabled, "")
	noneLeft(t, e)
	receive(t, r, 1)
}

func TestRefuseAuth(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client, ctx := connect(t, e), within(t)
	sender := must(client.NewSender("t", nil))(t)
	e.RefuseAuth(1)
	fails(t, sender.SendMessage(ctx, text("1"), nil), "", azservicebus.CodeUnauthorizedAccess)
	noneLeft(t, e)
	check(t, sender.SendMessage(ctx, text("2"), nil))
	e.RefuseAuth(emu.Always)
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	_, err := r.ReceiveMessages(ctx, 1, nil)
	fails(t, err, "", azservicebus.CodeUnauthorizedAccess)
	check(t, sender.SendMessage(ctx, text("3"), nil)) // it is attached
	e.RefuseAuth(0)
	receive(t, r, 2)
}

func TestLoseAnswers(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	ctx := within(t)
	sender := must(impatient(t, e).NewSender("t", nil))(t)
	check(t, e.LoseAnswers("t", 1))
	fails(t, sender.SendMessage(ctx, text("1"), nil), "", azservicebus.CodeConnectionLost)
	counts(t, e, emu.Counts{Active: 1})
	noneLeft(t, e)
	sender = must(connect(t, e).NewSender("t", nil))(t)
	check(t, sender.SendMessage(ctx, text("2"), nil))
	counts(t, e, emu.Counts{Active: 2})

	// With its retries, the SDK sends again what may have been stored.
	check(t, e.LoseAnswers("", 2))
	check(t, sender.SendMessage(ctx, text("3"), nil))
	counts(t, e, emu.Counts{Active: 5})
}

func TestLoseDispositions(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client, ctx := impatient(t, e), within(t)
	sender := must(client.NewSender("t", nil))(t)
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	for _, onLink := range []bool{true, false} {
		check(t, sender.SendMessage(ctx, text("1"), nil))
		m := receive(t, r, 1)[0]
		if !onLink {
			m = &azservicebus.ReceivedMessage{LockToken: m.LockToken} // not known to be of the link: through $management
		}
		check(t, e.LoseDispositions(subscriptionTS, 1))
		unanswered(t, hasActive(t, e, 0), func(ctx context.Context) error { return r.CompleteMessage(ctx, m, nil) })
		noneLeft(t, e)
		fails(t, r.CompleteMessage(ctx, &azservicebus.ReceivedMessage{LockToken: m.LockToken}, nil), "", azservicebus.CodeLockLost)

		check(t, sender.SendMessage(ctx, text("2"), nil))
		check(t, r.CompleteMessage(ctx, receive(t, r, 1)[0], nil))
	}
}

func TestDelay(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client, ctx := impatient(t, e), within(t)
	sender := must(client.NewSender("t", nil))(t)
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	check(t, sender.SendMessage(ctx, text("1"), nil))
	m := receive(t, r, 1)[0]
	check(t, sender.SendMessage(ctx, text("2"), nil))

	e.Delay(time.Hour)
	unanswered(t, func() bool { return must(e.Counts("t", "s"))(t).Locked == 2 }, receiving(r))
	unanswered(t, hasActive(t, e, 3), func(ctx context.Context) error {
		return sender.SendMessage(ctx, text("3"), nil)
	})
	unanswered(t, hasActive(t, e, 2), func(ctx context.Context) error { return r.CompleteMessage(ctx, m, nil) })
	sent := make(chan error, 1)
	go func() { sent <- sender.SendMessage(ctx, text("4"), nil) }()
	eventually(t, hasActive(t, e, 3))
	e.Delay(time.Millisecond) // lets go of what is held
	check(t, <-sent)
	for _, m := range receive(t, r, 3) {
		check(t, r.CompleteMessage(ctx, m, nil))
	}
	e.Delay(0)
	noneLeft(t, e)
	counts(t, e, emu.Counts{})
}

// What is held for clients does not hold up the end.
func TestCloseDuringDelay(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	sender := must(impatient(t, e).NewSender("t", nil))(t)
	check(t, sender.SendMessage(within(t), text("1"), nil))
	e.Delay(time.Hour)
	failed := make(chan error, 1)
	go func() { failed <- sender.SendMessage(within(t), text("2"), nil) }()
	eventually(t, hasActive(t, e, 2))
	check(t, e.Close())
	fails(t, <-failed, "", azservicebus.CodeConnectionLost)
}

func TestFaultsAreChecked(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	for want, err := range map[string]error{
		"entity: there is no \"x\"":        e.RejectSends("x", busy, 1),
		"entity: there is no \"t/\"":       e.LoseAnswers("t/", 1),
		"condition: \"\"":                  e.RefuseAttaches("t", "", 1),
		"condition: \"server busy\"":       e.RejectSends("t", "server busy", 1),
		"subscription: there is no":        e.PauseSubscription("t", "x", true),
		"entity: there is no \"t/s\"":      e.LoseDispositions("t/s", emu.Always),
		"subscription: there is no subscr": e.ExpireLocks("x", "s"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	noneLeft(t, e)
}
