package servicebusemulator_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

// heartbeatSize is about that of an agent's heartbeat, bytes.
const heartbeatSize = 300

func heartbeat() *azservicebus.Message { return text(strings.Repeat("h", heartbeatSize)) }

// BenchmarkSend sends one message at a time: ns/op is the latency of a send.
func BenchmarkSend(b *testing.B) {
	e := start(b, one(emu.SubscriptionProperties{}), emu.Options{})
	sender := must(connect(b, e).NewSender("t", nil))(b)
	ctx := context.Background()
	check(b, sender.SendMessage(ctx, heartbeat(), nil))
	b.ReportAllocs()
	for b.Loop() {
		check(b, sender.SendMessage(ctx, heartbeat(), nil))
	}
}

// BenchmarkSendBatch sends batches of 100 messages; ns/op is for one batch.
func BenchmarkSendBatch(b *testing.B) {
	e := start(b, one(emu.SubscriptionProperties{}), emu.Options{})
	sender := must(connect(b, e).NewSender("t", nil))(b)
	ctx := context.Background()
	batch := must(sender.NewMessageBatch(ctx, nil))(b)
	for range 100 {
		check(b, batch.AddMessage(heartbeat(), nil))
	}
	b.ResetTimer()
	for range b.N {
		err := sender.SendMessageBatch(ctx, batch, nil)
		if err != nil && strings.Contains(err.Error(), "resource-limit-exceeded") {
			b.StopTimer()
			drain(b, e)
			b.StartTimer()
			continue
		}
		check(b, err)
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "msg/s")
}

func drain(b *testing.B, e *emu.Emulator) {
	r := must(connect(b, e).NewReceiverForSubscription("t", "s",
		&azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}))(b)
	for must(e.Counts("t", "s"))(b).Active > 0 {
		must(r.ReceiveMessages(context.Background(), 5000, nil))(b)
	}
}

// BenchmarkIngest is the heartbeat path: 64 senders, one receiver of up to 500 at a time, each message completed
// by its own call, 64 at once; ns/op is for one message through all of it.
func BenchmarkIngest(b *testing.B) {
	e := start(b, one(emu.SubscriptionProperties{}), emu.Options{})
	client := connect(b, e)
	sender := must(client.NewSender("t", nil))(b)
	r := must(connect(b, e).NewReceiverForSubscription("t", "s", nil))(b)
	ctx := within(b)
	check(b, sender.SendMessage(ctx, heartbeat(), nil))
	check(b, r.CompleteMessage(ctx, receive(b, r, 1)[0], nil))

	const parallel = 64
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for s := range parallel {
		all.Go(func() {
			for n := s; n < b.N; n += parallel {
				if err := sender.SendMessage(ctx, heartbeat(), nil); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	for settled := 0; settled < b.N; {
		batch, err := r.ReceiveMessages(ctx, 500, nil)
		check(b, err)
		complete(ctx, b, r, batch, parallel)
		settled += len(batch)
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

func complete(ctx context.Context, b *testing.B, r *azservicebus.Receiver, batch []*azservicebus.ReceivedMessage, parallel int) {
	var all sync.WaitGroup
	for c := range min(parallel, len(batch)) {
		all.Go(func() {
			for i := c; i < len(batch); i += parallel {
				if err := r.CompleteMessage(ctx, batch[i], nil); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkPingPong is a command and its reply, each over a session, between two clients.
func BenchmarkPingPong(b *testing.B) {
	e := start(b, fleet(b), emu.Options{})
	gateway, agent := connect(b, e), connect(b, e)
	ctx, cancel := context.WithCancel(context.Background())
	commands := must(gateway.NewSender("agent-commands", nil))(b)
	replies := must(gateway.AcceptSessionForSubscription(ctx, "agent-replies", "gateways", "gw", nil))(b)
	inbox := must(agent.AcceptSessionForSubscription(ctx, "agent-commands", "agents", "a", nil))(b)
	answers := must(agent.NewSender("agent-replies", nil))(b)
	var echo sync.WaitGroup
	echo.Go(func() {
		for {
			got, err := inbox.ReceiveMessages(ctx, 1, nil)
			if err != nil {
				return
			}
			for _, m := range got {
				_ = inbox.CompleteMessage(ctx, m, nil)
				_ = answers.SendMessage(ctx, &azservicebus.Message{Body: m.Body, SessionID: ptr("gw")}, nil)
			}
		}
	})
	b.ReportAllocs()
	for b.Loop() {
		check(b, commands.SendMessage(ctx, &azservicebus.Message{Body: []byte("ping"), SessionID: ptr("a")}, nil))
		for got := 0; got == 0; {
			batch, err := replies.ReceiveMessages(ctx, 1, nil)
			check(b, err)
			for _, m := range batch {
				check(b, replies.CompleteMessage(ctx, m, nil))
			}
			got = len(batch)
		}
	}
	cancel()
	echo.Wait()
}
