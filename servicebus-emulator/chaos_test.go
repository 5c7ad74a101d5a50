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
					if r.CompleteMessage(once, m, nil) == nil {
						mu.Lock()
						seen[string(m.Body)]++
						mu.Unlock()
					}
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
		for {
			once, cancel := context.WithTimeout(ctx, 5*time.Second)
			err := sender.SendMessage(once, text(fmt.Sprint(i)), nil)
			cancel()
			if err == nil || ctx.Err() != nil {
				break
			}
		}
	}
	eventually(t, func() bool {
		check(t, e.ExpireLocks("t", "s"))
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
		if err == nil {
			_ = conn.Close()
		}
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
