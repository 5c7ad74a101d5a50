package heartbeat_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
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

// BenchmarkDirect takes heartbeats of 2,000 agents, so many calling at once, over gRPC through one control server and a registry that
// stores in memory, all in this process. ns/op is for one heartbeat, from the call to the answer that it is stored.
func BenchmarkDirect(b *testing.B) {
	for _, callers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			const fleet, connections = 2000, 50
			registry := newServer(b)
			cfg := controlServer(b, newEmulator(b, emulator.SubscriptionProperties{}), registry)
			cfg.Ingress.ConnectsPerSecond = 100_000
			r := run(b, cfg)
			clients := make([]heartbeatv1.AgentIngressClient, connections)
			for i := range clients {
				clients[i] = agents(b, r)
			}
			everyAgent := func(n, callers int, call func(agent, round int) error) {
				var next atomic.Int64
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
							if err := call(i%fleet, 2+i/fleet); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
			}
			everyAgent(fleet, 500, func(agent, _ int) error {
				_, err := clients[agent%connections].Register(b.Context(), registration(fmt.Sprintf("AGENT-%06d", agent), agent))
				return err
			})
			registry.registry.mu.Lock()
			calls, items := registry.registry.calls, registry.registry.items
			registry.registry.mu.Unlock()
			b.ReportAllocs()
			b.ResetTimer()
			everyAgent(b.N, callers, func(agent, round int) error {
				_, err := clients[agent%connections].Heartbeat(b.Context(), beat(fmt.Sprintf("AGENT-%06d", agent), agent, int64(round)))
				return err
			})
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "heartbeats/s")
			registry.registry.mu.Lock()
			defer registry.registry.mu.Unlock()
			if stored := registry.registry.items - items; stored != b.N {
				b.Errorf("%d of %d stored", stored, b.N)
			}
			b.ReportMetric(float64(b.N)/float64(max(1, registry.registry.calls-calls)), "heartbeats/call")
		})
	}
}
