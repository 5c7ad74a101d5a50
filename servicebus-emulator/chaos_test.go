package servicebusemulator_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	goamqp "github.com/Azure/go-amqp"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

// Whatever happens to connections and locks, every message that was accepted is received until it is settled.
func TestNothingIsLost(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{MaxDeliveryCount: 2000}), emu.Options{})
	const messages, consumers = 400, 3
	ctx, stop := context.WithTimeout(context.Background(), 2*patience)
	defer stop()
	var mu sync.Mutex
	seen := map[string]int{}
	missing := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) < messages
	}
	var all sync.WaitGroup
	for range consumers {
		client := connect(t, e)
		all.Go(func() {
			r, err := client.NewReceiverForSubscription("t", "s", nil)
			if err != nil {
				t.Error(err)
				return
			}
			for missing() && ctx.Err() == nil {
				once, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				batch, _ := r.ReceiveMessages(once, 50, nil)
				for _, m := range batch {
					mu.Lock()
					seen[string(m.Body)]++
					mu.Unlock()
					_ = r.CompleteMessage(once, m, nil) // if that fails, it may or may not come again
				}
				cancel()
			}
		})
	}
	sender := must(connect(t, e).NewSender("t", nil))(t)
	for i := range messages {
		if i%100 == 50 {
			e.DropConnections()
			check(t, e.ExpireLocks("t", "s"))
		}
		for sent := false; !sent && ctx.Err() == nil; {
			once, cancel := context.WithTimeout(ctx, 5*time.Second)
			sent = sender.SendMessage(once, text(fmt.Sprint(i)), nil) == nil
			cancel()
		}
	}
	// What is locked for connections that are gone comes back, now and then, with time in between to settle the rest.
	expired := time.Now()
	eventually(t, func() bool {
		if time.Since(expired) > 500*time.Millisecond {
			check(t, e.ExpireLocks("t", "s"))
			expired = time.Now()
		}
		return !missing()
	})
	all.Wait()
}

// Clients without tokens, such as those of other vendors, sign in by SASL PLAIN.
func TestSASLPlain(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{Keys: map[string]string{"app": "fake"}})
	for key, good := range map[string]bool{"fake": true, "wrong": false} {
		conn, err := goamqp.Dial(within(t), "amqp://"+e.Addr(), &goamqp.ConnOptions{SASLType: goamqp.SASLTypePlain("app", key)})
		if (err == nil) != good {
			t.Errorf("key %q: %v", key, err)
		}
		if err != nil {
			continue
		}
		session := must(conn.NewSession(within(t), nil))(t)
		check(t, must(session.NewSender(within(t), "t", nil))(t).Send(within(t), goamqp.NewMessage([]byte("x")), nil))
		m := must(must(session.NewReceiver(within(t), "t/Subscriptions/s", nil))(t).Receive(within(t), nil))(t)
		if string(m.GetData()) != "x" {
			t.Errorf("received %q", m.GetData())
		}
		_ = conn.Close()
	}
}

// A gateway that asks for sessions on many topics at once keeps the emulator no longer than it keeps itself.
func TestCloseWhileClientsWait(t *testing.T) {
	e, err := emu.Start(one(emu.SubscriptionProperties{RequiresSession: true}), emu.Options{})
	check(t, err)
	client := connect(t, e)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { _, _ = client.AcceptNextSessionForSubscription(ctx, "t", "s", nil) })
	}
	must(connect(t, e).AcceptSessionForSubscription(within(t), "t", "s", "a",
		&azservicebus.SessionReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}))(t)
	check(t, e.Close())
	check(t, e.Close())
	cancel()
	all.Wait()
}

// Other SDKs name as reply-to their receiving link, and give it no address.
func TestReplyToALinkByName(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	conn := must(goamqp.Dial(within(t), "amqp://"+e.Addr(), &goamqp.ConnOptions{SASLType: goamqp.SASLTypeAnonymous()}))(t)
	defer conn.Close()
	session := must(conn.NewSession(within(t), nil))(t)
	requests := must(session.NewSender(within(t), "$cbs", nil))(t)
	replies := must(session.NewReceiver(within(t), "$cbs", &goamqp.ReceiverOptions{Name: "cbs-1"}))(t)
	check(t, requests.Send(within(t), &goamqp.Message{
		Properties:            &goamqp.MessageProperties{MessageID: "1", ReplyTo: ptr("cbs-1")},
		ApplicationProperties: map[string]any{"operation": "put-token"}, Value: "token",
	}, nil))
	reply := must(replies.Receive(within(t), nil))(t)
	if reply.Properties.CorrelationID != "1" || reply.ApplicationProperties["statusCode"] != int32(202) {
		t.Errorf("%+v", reply)
	}
}
