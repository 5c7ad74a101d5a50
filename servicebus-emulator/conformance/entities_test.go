package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

// namespace has a queue for every step, so that a step that fails leaves nothing to the next.
func namespace() emu.Config {
	var n emu.Namespace
	queue := func(p emu.QueueProperties, names ...string) {
		for _, name := range names {
			n.Queues = append(n.Queues, emu.Queue{Name: name, Properties: p})
		}
	}
	queue(emu.QueueProperties{}, "properties", "bodies", "array", "batch", "large", "delete", "empty", "complete", "abandon",
		"deadletter", "peek", "subscribe", "handler", "iterate", "compete", "defer", "schedule", "cancel")
	queue(emu.QueueProperties{MaxDeliveryCount: 2}, "exhausted")
	queue(emu.QueueProperties{DeadLetteringOnMessageExpiration: true}, "expire")
	queue(emu.QueueProperties{LockDuration: emu.Duration(5 * time.Second)}, "renew")
	queue(emu.QueueProperties{LockDuration: emu.Duration(time.Second)}, "lose")
	queue(emu.QueueProperties{RequiresSession: true}, "sessions", "session-settle", "next", "busy", "session-stream",
		"session-state", "session-defer", "session-schedule")
	queue(emu.QueueProperties{RequiresSession: true, LockDuration: emu.Duration(time.Second)}, "session-lose")

	rule := func(f emu.CorrelationFilter) emu.Rule {
		return emu.Rule{Name: f.To + f.Label + "rule", Properties: emu.RuleProperties{FilterType: "Correlation", CorrelationFilter: &f}}
	}
	red := rule(emu.CorrelationFilter{Properties: map[string]any{"colour": "red"}})
	largeRed := rule(emu.CorrelationFilter{Properties: map[string]any{"colour": "red", "size": 2}})
	urgent := rule(emu.CorrelationFilter{Label: "urgent"})
	mine := rule(emu.CorrelationFilter{To: "me", CorrelationId: "c"})
	n.Topics = []emu.Topic{
		{Name: "orders", Subscriptions: []emu.Subscription{
			{Name: "all"},
			{Name: "red", Rules: []emu.Rule{red}},
			{Name: "largeRed", Rules: []emu.Rule{largeRed}},
			{Name: "urgent", Rules: []emu.Rule{urgent}},
			{Name: "mine", Rules: []emu.Rule{mine}},
			{Name: "urgentOrMine", Rules: []emu.Rule{urgent, mine}},
		}},
		{Name: "later", Subscriptions: []emu.Subscription{{Name: "s"}}},
	}
	return emu.Config{UserConfig: emu.UserConfig{Namespaces: []emu.Namespace{n}}}
}

// patience bounds what must happen, so that a failure does not hang; nothing waits for it to pass.
const patience = 2 * time.Minute

func start(t *testing.T, cfg emu.Config, opts emu.Options) *emu.Emulator {
	t.Helper()
	e, err := emu.Start(cfg, opts)
	check(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error("close:", err)
		}
	})
	return e
}

func connect(t *testing.T, connectionString string) *azservicebus.Client {
	t.Helper()
	client, err := azservicebus.NewClientFromConnectionString(connectionString, &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: 2, RetryDelay: 10 * time.Millisecond},
	})
	check(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = client.Close(ctx)
	})
	return client
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
