package heartbeat_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	emulator "github.com/commandcenter/fleet/servicebus-emulator"
)

// BenchmarkIngest takes heartbeats from four senders through emulator, service and a registry that stores in memory, all in this
// process. ns/op is for one heartbeat, from the first send to the last settlement.
func BenchmarkIngest(b *testing.B) {
	e := newEmulator(b, emulator.SubscriptionProperties{})
	registry := newServer(b)
	r := run(b, settings(e, registry))
	eventually(b, "ready", func() bool { ready, _ := r.ready(); return ready })
	client := bus(b, e)
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	const senders, batch = 4, 100
	for s := range senders {
		all.Go(func() {
			sender, err := client.NewSender(topic, nil)
			check(b, err)
			for at := s * batch; at < b.N; at += senders * batch {
				messages, err := sender.NewMessageBatch(b.Context(), nil)
				check(b, err)
				for i := at; i < min(at+batch, b.N); i++ {
					body := fmt.Sprintf(`{"name":"AGENT-%06d","hostname":"host-%06d.example.test","agentVersion":"4.2.0","bootId":"b-%06d",`+
						`"sequence":"%d","reportedAt":"2026-01-02T03:04:05.678901Z"}`, i%10_000, i%10_000, i%10_000, 1+i/10_000)
					check(b, messages.AddMessage(&azservicebus.Message{Body: []byte(body)}, nil))
				}
				check(b, sender.SendMessageBatch(b.Context(), messages, nil))
			}
		})
	}
	all.Wait()
	drained(b, e)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "heartbeats/s")
	registry.registry.mu.Lock()
	defer registry.registry.mu.Unlock()
	b.ReportMetric(float64(registry.registry.items)/float64(max(1, registry.registry.calls)), "heartbeats/call")
	if registry.registry.items < b.N {
		b.Errorf("%d of %d stored", registry.registry.items, b.N)
	}
}

// BenchmarkIdle is the time from a heartbeat's send to the registry having stored it, one at a time; a send takes part of it.
func BenchmarkIdle(b *testing.B) {
	e := newEmulator(b, emulator.SubscriptionProperties{})
	registry := newServer(b)
	r := run(b, settings(e, registry))
	eventually(b, "ready", func() bool { ready, _ := r.ready(); return ready })
	sender, err := bus(b, e).NewSender(topic, nil)
	check(b, err)
	for n := 1; b.Loop(); n++ {
		check(b, sender.SendMessage(b.Context(), &azservicebus.Message{Body: fmt.Appendf(nil, `{"name":"A","bootId":"b","sequence":"%d"}`, n)}, nil))
		eventually(b, "stored", func() bool {
			registry.registry.mu.Lock()
			defer registry.registry.mu.Unlock()
			return registry.registry.stored["A"] >= int64(n)
		})
	}
}
