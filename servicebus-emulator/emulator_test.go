package servicebusemulator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	goamqp "github.com/Azure/go-amqp"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

func ptr[T any](v T) *T { return &v }

func TestSendReceiveComplete(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	sender := must(client.NewSender("t", nil))(t)
	sent := &azservicebus.Message{
		Body: []byte("hello"), ApplicationProperties: map[string]any{"n": int64(7), "s": "x", "b": true},
		ContentType: ptr("text/plain"), CorrelationID: ptr("c1"), MessageID: ptr("m1"), PartitionKey: ptr("p1"),
		ReplyTo: ptr("r"), ReplyToSessionID: ptr("rs"), Subject: ptr("subject"), To: ptr("to"),
		TimeToLive: ptr(time.Minute),
	}
	before := time.Now().Add(-time.Millisecond)
	check(t, sender.SendMessage(ctx, sent, nil))
	r := must(client.NewReceiverForSubscription("T", "S", nil))(t) // names are compared without regard to case
	m := receive(t, r, 1)[0]

	got := fmt.Sprint(string(m.Body), m.ApplicationProperties, *m.ContentType, *m.CorrelationID, m.MessageID,
		*m.PartitionKey, *m.ReplyTo, *m.ReplyToSessionID, *m.Subject, *m.To, *m.TimeToLive)
	want := "hello" + fmt.Sprint(sent.ApplicationProperties) + " text/plain c1 m1 p1 r rs subject to 1m0s"
	if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if *m.SequenceNumber != 1 || m.DeliveryCount != 1 || m.LockToken == [16]byte{} {
		t.Errorf("sequence %d, delivery %d, token %x", *m.SequenceNumber, m.DeliveryCount, m.LockToken)
	}
	if m.EnqueuedTime.Before(before) || m.EnqueuedTime.After(time.Now()) {
		t.Errorf("enqueued at %s", m.EnqueuedTime)
	}
	if !m.LockedUntil.After(time.Now().Add(50 * time.Second)) {
		t.Errorf("locked until %s", m.LockedUntil)
	}
	check(t, r.CompleteMessage(ctx, m, nil))
	counts(t, e, emu.Counts{})
}

func counts(t *testing.T, e *emu.Emulator, want emu.Counts) {
	t.Helper()
	if got := must(e.Counts("t", "s"))(t); got != want {
		t.Fatalf("counts %+v, want %+v", got, want)
	}
}

func TestBatch(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	sender := must(client.NewSender("t", nil))(t)
	batch := must(sender.NewMessageBatch(ctx, nil))(t)
	for i := range 300 {
		m := text(strings.Repeat("x", 300))
		m.ApplicationProperties = map[string]any{"i": int64(i)}
		check(t, batch.AddMessage(m, nil))
	}
	check(t, sender.SendMessageBatch(ctx, batch, nil))
	counts(t, e, emu.Counts{Active: 300})
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	for i, m := range receive(t, r, 300) {
		if m.ApplicationProperties["i"] != int64(i) || len(m.Body) != 300 {
			t.Fatalf("message %d: %v", i, m.ApplicationProperties)
		}
		check(t, r.CompleteMessage(within(t), m, nil)) // 300 of them share no deadline
	}
	counts(t, e, emu.Counts{})
}

func TestReceiveAndDelete(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client := connect(t, e)
	sender := must(client.NewSender("t", nil))(t)
	for i := range 3 {
		check(t, sender.SendMessage(within(t), text(fmt.Sprint(i)), nil))
	}
	r := must(client.NewReceiverForSubscription("t", "s",
		&azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}))(t)
	for i, m := range receive(t, r, 3) {
		if string(m.Body) != fmt.Sprint(i) {
			t.Errorf("message %d is %q", i, m.Body)
		}
	}
	counts(t, e, emu.Counts{})
}

func TestAbandonThenDeadLetterQueue(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{MaxDeliveryCount: 3}), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	sender := must(client.NewSender("t", nil))(t)
	m := text("poison")
	m.ApplicationProperties = map[string]any{"kept": "yes"}
	check(t, sender.SendMessage(ctx, m, nil))
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	for delivery := uint32(1); delivery <= 3; delivery++ {
		got := receive(t, r, 1)[0]
		if got.DeliveryCount != delivery {
			t.Fatalf("delivery %d says it is %d", delivery, got.DeliveryCount)
		}
		if delivery > 1 && got.ApplicationProperties["tried"] != int64(delivery-1) {
			t.Fatalf("delivery %d: %v", delivery, got.ApplicationProperties)
		}
		check(t, r.AbandonMessage(ctx, got, &azservicebus.AbandonMessageOptions{
			PropertiesToModify: map[string]any{"tried": int64(delivery)},
		}))
	}
	counts(t, e, emu.Counts{DeadLetter: 1})
	dead := must(client.NewReceiverForSubscription("t", "s",
		&azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}))(t)
	got := receive(t, dead, 1)[0]
	if *got.DeadLetterReason != "MaxDeliveryCountExceeded" || *got.DeadLetterErrorDescription == "" ||
		got.DeadLetterSource != nil || got.ApplicationProperties["kept"] != "yes" {
		t.Errorf("%s, %s, %v, %v", *got.DeadLetterReason, *got.DeadLetterErrorDescription, got.DeadLetterSource,
			got.ApplicationProperties)
	}
	check(t, dead.CompleteMessage(ctx, got, nil))
	counts(t, e, emu.Counts{})
}

func TestClientDeadLetters(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	sender := must(client.NewSender("t", nil))(t)
	check(t, sender.SendMessage(ctx, text("bad"), nil))
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	check(t, r.DeadLetterMessage(ctx, receive(t, r, 1)[0], &azservicebus.DeadLetterOptions{
		Reason: ptr("name_missing"), ErrorDescription: ptr("field name is empty"),
		PropertiesToModify: map[string]any{"by": "test"},
	}))
	dead := must(client.NewReceiverForSubscription("t", "s",
		&azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}))(t)
	got := receive(t, dead, 1)[0]
	if *got.DeadLetterReason != "name_missing" || *got.DeadLetterErrorDescription != "field name is empty" ||
		got.ApplicationProperties["by"] != "test" || string(got.Body) != "bad" {
		t.Errorf("%+v", got)
	}
}

func TestLocks(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	sender := must(client.NewSender("t", nil))(t)
	check(t, sender.SendMessage(ctx, text("x"), nil))
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	m := receive(t, r, 1)[0]
	first := *m.LockedUntil
	check(t, r.RenewMessageLock(ctx, m, nil))
	if m.LockedUntil.Before(first) {
		t.Errorf("renewed from %s to %s", first, m.LockedUntil)
	}
	check(t, e.ExpireLocks("t", "s"))
	lockLost(t, "renew", r.RenewMessageLock(ctx, m, nil))
	lockLost(t, "complete", r.CompleteMessage(ctx, m, nil))
	byToken := &azservicebus.ReceivedMessage{LockToken: m.LockToken}
	lockLost(t, "complete by token", r.CompleteMessage(ctx, byToken, nil))
	lockLost(t, "abandon by token", r.AbandonMessage(ctx, byToken, nil))
	lockLost(t, "dead-letter by token", r.DeadLetterMessage(ctx, byToken, nil))
	again := receive(t, r, 1)[0]
	if again.DeliveryCount != 2 || again.LockToken == m.LockToken {
		t.Errorf("delivery %d, token %x after %x", again.DeliveryCount, again.LockToken, m.LockToken)
	}
	// Settled through management, by its token only, as after a lost connection.
	check(t, r.CompleteMessage(ctx, &azservicebus.ReceivedMessage{LockToken: again.LockToken}, nil))
	counts(t, e, emu.Counts{})
	lockLost(t, "complete twice", r.CompleteMessage(ctx, &azservicebus.ReceivedMessage{LockToken: again.LockToken}, nil))
}

func lockLost(t *testing.T, what string, err error) {
	t.Helper()
	var sbErr *azservicebus.Error
	if !errors.As(err, &sbErr) || sbErr.Code != azservicebus.CodeLockLost {
		t.Fatalf("%s: %v, want lock lost", what, err)
	}
}

func TestSettleThroughManagement(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	sender := must(client.NewSender("t", nil))(t)
	check(t, sender.SendMessage(ctx, text("x"), nil))
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	m := receive(t, r, 1)[0]
	check(t, r.AbandonMessage(ctx, &azservicebus.ReceivedMessage{LockToken: m.LockToken},
		&azservicebus.AbandonMessageOptions{PropertiesToModify: map[string]any{"a": "b"}}))
	m = receive(t, r, 1)[0]
	if m.DeliveryCount != 2 || m.ApplicationProperties["a"] != "b" {
		t.Fatalf("%+v", m)
	}
	check(t, r.DeadLetterMessage(ctx, &azservicebus.ReceivedMessage{LockToken: m.LockToken},
		&azservicebus.DeadLetterOptions{Reason: ptr("why")}))
	counts(t, e, emu.Counts{DeadLetter: 1})
	lockLost(t, "settling it again", r.DeferMessage(ctx, &azservicebus.ReceivedMessage{LockToken: m.LockToken}, nil))
}

func TestPeek(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	if none := must(r.PeekMessages(ctx, 10, nil))(t); len(none) != 0 {
		t.Fatalf("%d messages in an empty queue", len(none))
	}
	sender := must(client.NewSender("t", nil))(t)
	for i := range 5 {
		check(t, sender.SendMessage(ctx, text(fmt.Sprint(i)), nil))
	}
	receive(t, r, 1) // a locked message is seen too
	for want := 0; want < 5; {
		got := must(r.PeekMessages(ctx, 2, nil))(t)
		for _, m := range got {
			if string(m.Body) != fmt.Sprint(want) {
				t.Fatalf("peeked %q, want %d", m.Body, want)
			}
			want++
		}
	}
	from := must(r.PeekMessages(ctx, 10, &azservicebus.PeekMessagesOptions{FromSequenceNumber: ptr(int64(4))}))(t)
	if len(from) != 2 || *from[0].SequenceNumber != 4 {
		t.Fatalf("%d messages from 4 on", len(from))
	}
}

func TestLargeMessages(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	sender := must(client.NewSender("t", nil))(t)
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	for _, size := range []int{0, 1, 255, 256, 65_000, 65_536, 200_000, 260_000} {
		body := bytes.Repeat([]byte{byte(size)}, size)
		check(t, sender.SendMessage(ctx, &azservicebus.Message{Body: body}, nil))
		got := receive(t, r, 1)[0]
		if !bytes.Equal(got.Body, body) {
			t.Fatalf("size %d came back as %d bytes", size, len(got.Body))
		}
		check(t, r.CompleteMessage(ctx, got, nil))
	}
	err := sender.SendMessage(ctx, &azservicebus.Message{Body: make([]byte, 300_000)}, nil)
	if !errors.Is(err, azservicebus.ErrMessageTooLarge) {
		t.Fatalf("too large a message answers %v", err)
	}
}

func TestFull(t *testing.T) {
	cfg := one(emu.SubscriptionProperties{})
	cfg.UserConfig.Namespaces[0].Topics[0].Properties.MaxSizeInMegabytes = 1
	e := start(t, cfg, emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	sender := must(client.NewSender("t", nil))(t)
	var err error
	sent := 0
	for ; err == nil && sent < 100; sent++ {
		err = sender.SendMessage(ctx, &azservicebus.Message{Body: make([]byte, 100_000)}, nil)
	}
	if err == nil || !strings.Contains(err.Error(), "amqp:resource-limit-exceeded") || sent != 11 {
		t.Fatalf("send %d into 1 MB answers %v", sent, err)
	}
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	check(t, r.CompleteMessage(ctx, receive(t, r, 1)[0], nil))
	check(t, sender.SendMessage(ctx, &azservicebus.Message{Body: make([]byte, 100_000)}, nil))
}

func TestUnknownEntity(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client := connect(t, e)
	sender := must(client.NewSender("nowhere", nil))(t)
	err := sender.SendMessage(within(t), text("x"), nil)
	var sbErr *azservicebus.Error
	if !errors.As(err, &sbErr) || sbErr.Code != azservicebus.CodeNotFound {
		t.Errorf("send: %v", err)
	}
	r := must(client.NewReceiverForSubscription("t", "nobody", nil))(t)
	if _, err := r.ReceiveMessages(within(t), 1, nil); !errors.As(err, &sbErr) || sbErr.Code != azservicebus.CodeNotFound {
		t.Errorf("receive: %v", err)
	}
}

func TestCorrelationFilter(t *testing.T) {
	rule := func(c emu.CorrelationFilter) []emu.Rule {
		return []emu.Rule{{Name: "r", Properties: emu.RuleProperties{FilterType: "Correlation", CorrelationFilter: &c}}}
	}
	cfg := emu.Config{UserConfig: emu.UserConfig{Namespaces: []emu.Namespace{{Topics: []emu.Topic{{
		Name: "t", Subscriptions: []emu.Subscription{
			{Name: "s"},
			{Name: "to", Rules: rule(emu.CorrelationFilter{To: "agent-1"})},
			{Name: "both", Rules: rule(emu.CorrelationFilter{Label: "a", Properties: map[string]any{"n": 1.0}})},
		},
	}}}}}}
	e := start(t, cfg, emu.Options{})
	sender := must(connect(t, e).NewSender("t", nil))(t)
	for _, m := range []*azservicebus.Message{
		{To: ptr("agent-1")},
		{To: ptr("agent-2"), Subject: ptr("a"), ApplicationProperties: map[string]any{"N": int32(1)}},
		{Subject: ptr("a"), ApplicationProperties: map[string]any{"n": "1"}},
	} {
		check(t, sender.SendMessage(within(t), m, nil))
	}
	for sub, want := range map[string]int{"s": 3, "to": 1, "both": 1} {
		if got := must(e.Counts("t", sub))(t); got.Active != want {
			t.Errorf("%s has %d messages, want %d", sub, got.Active, want)
		}
	}
}

func TestDropConnections(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	sender := must(client.NewSender("t", nil))(t)
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	for i := range 3 {
		check(t, sender.SendMessage(ctx, text(fmt.Sprint(i)), nil))
		m := receive(t, r, 1)[0]
		e.DropConnections()
		// The lock outlives the connection: the message can be settled by its token, on a new one.
		check(t, sender.SendMessage(ctx, text("after"), nil))
		after := receive(t, r, 1)[0]
		check(t, r.CompleteMessage(ctx, &azservicebus.ReceivedMessage{LockToken: m.LockToken}, nil))
		check(t, r.CompleteMessage(ctx, after, nil))
	}
	counts(t, e, emu.Counts{})
}

func TestPause(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client := connect(t, e)
	sender := must(client.NewSender("t", nil))(t)
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	check(t, e.PauseSubscription("t", "s", true))
	check(t, sender.SendMessage(within(t), text("x"), nil))
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if got, err := r.ReceiveMessages(ctx, 1, nil); err == nil {
		t.Fatalf("a paused subscription gave %d messages", len(got))
	}
	check(t, e.PauseSubscription("t", "s", false))
	receive(t, r, 1)
}

// A receiver that stops receiving leaves credit behind; the SDK releases what comes then, and others get it.
func TestReleasedDeliveriesComeBack(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	client := connect(t, e)
	sender := must(client.NewSender("t", nil))(t)
	idle := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	check(t, sender.SendMessage(within(t), text("0"), nil))
	check(t, idle.CompleteMessage(within(t), must(idle.ReceiveMessages(within(t), 50, nil))(t)[0], nil))
	for i := range 20 { // goes to the idle receiver's 49 credits, and back
		check(t, sender.SendMessage(within(t), text(fmt.Sprint(i+1)), nil))
	}
	// Each comes again while there is credit; once that is used up, all of them wait unlocked.
	eventually(t, func() bool { return must(e.Counts("t", "s"))(t) == emu.Counts{Active: 20} })
	check(t, idle.Close(within(t)))
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	for _, m := range receive(t, r, 20) {
		if m.DeliveryCount != 1 {
			t.Errorf("delivery %d of a message that was released", m.DeliveryCount)
		}
	}
}

func TestManyLinksOnOneConnection(t *testing.T) {
	e := start(t, fleet(t), emu.Options{})
	client := connect(t, e)
	ctx := within(t)
	sender := must(client.NewSender("agent-commands", nil))(t)
	const agents = 150
	receivers := make([]*azservicebus.SessionReceiver, agents)
	for i := range receivers {
		id := fmt.Sprintf("agent-%d", i)
		receivers[i] = must(client.AcceptSessionForSubscription(ctx, "agent-commands", "agents", id, nil))(t)
	}
	var all sync.WaitGroup
	for i, r := range receivers {
		all.Go(func() {
			m := text(r.SessionID())
			m.SessionID = ptr(r.SessionID())
			if err := sender.SendMessage(ctx, m, nil); err != nil {
				t.Error(err)
				return
			}
			got, err := r.ReceiveMessages(ctx, 1, nil)
			if err != nil || len(got) != 1 || string(got[0].Body) != fmt.Sprintf("agent-%d", i) {
				t.Errorf("agent %d got %v, %v", i, got, err)
				return
			}
			if err := r.CompleteMessage(ctx, got[0], nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// The client gives up on a silent server after its idle timeout, and the server on a silent client.
func TestIdleConnectionsStayUp(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{IdleTimeout: 2 * time.Second})
	conn := must(goamqp.Dial(within(t), "amqp://"+e.Addr(), &goamqp.ConnOptions{
		SASLType: goamqp.SASLTypeAnonymous(), IdleTimeout: 2 * time.Second,
	}))(t)
	select {
	case <-conn.Done():
		t.Fatal("the connection ended by itself:", conn.Err())
	case <-time.After(5 * time.Second): // past both timeouts, which leave a machine under load a second for a frame
	}
	must(conn.NewSession(within(t), nil))(t)
	check(t, conn.Close())
}

func TestKeys(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{Keys: map[string]string{"app": "c2VjcmV0LWZha2U="}})
	good := must(connect(t, e).NewSender("t", nil))(t)
	check(t, good.SendMessage(within(t), text("x"), nil))
	wrong := connectTo(t, strings.Replace(e.ConnectionString(), "c2VjcmV0LWZha2U=", "d3Jvbmc=", 1))
	err := must(wrong.NewSender("t", nil))(t).SendMessage(within(t), text("x"), nil)
	var sbErr *azservicebus.Error
	if !errors.As(err, &sbErr) || sbErr.Code != azservicebus.CodeUnauthorizedAccess {
		t.Fatalf("a wrong key answers %v", err)
	}
}

func TestRefusesToListenBeyondLoopback(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.com:0"} {
		if e, err := emu.Start(one(emu.SubscriptionProperties{}), emu.Options{Listen: address}); err == nil {
			t.Errorf("%s is listened on as %s", address, e.Addr())
			_ = e.Close()
		}
	}
}
