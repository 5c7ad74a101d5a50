package heartbeat_test

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	emulator "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
)

// wrong is a clock that differs from this machine's.
type wrong struct {
	broker.SystemClock
	by time.Duration
}

func (c wrong) Now() time.Time { return c.SystemClock.Now().Add(c.by) }

// With a broker behind, and a database ahead, heartbeats are as old as they are, the backlog too, and the difference is told.
func TestI11_TheBrokersClockIsMeasuredAndAgesDoNotDependOnIt(t *testing.T) {
	for _, skew := range []time.Duration{-time.Minute, time.Minute} {
		e, registry := newEmulatorAt(t, emulator.SubscriptionProperties{}, wrong{by: skew}), newServer(t)
		registry.registry.databaseAhead = 10 * time.Second
		r := run(t, settings(e, registry))
		want := skew - 10*time.Second
		eventually(t, "the broker's clock measured", func() bool {
			all := registry.registry.evidence()
			return len(all) > 0 && all[len(all)-1].GetBrokerSkew() != nil
		})
		proofs := registry.registry.evidence()
		last := proofs[len(proofs)-1]
		got, within := last.GetBrokerSkew().GetAhead().AsDuration(), last.GetBrokerSkew().GetUncertainty().AsDuration()
		if (got-want).Abs() > within+time.Millisecond || within > 20*time.Second {
			t.Errorf("the broker is %s ahead of the database within %s, measured; it is %s", got, within, want)
		}
		if age := last.GetOldestMessageAge(); age == nil || age.AsDuration() > 20*time.Second {
			t.Errorf("a broker %s ahead: the oldest message is %s old", skew, age)
		}
		eventually(t, "ready", func() bool { ready, _ := r.ready(); return ready })
		sender, err := bus(t, e).NewSender(topic, nil)
		check(t, err)
		check(t, sender.SendMessage(t.Context(), &azservicebus.Message{Body: []byte(`{"name":"A","bootId":"b","sequence":"1"}`)}, nil))
		eventually(t, "stored", func() bool { return registry.registry.agents() == 1 })
		registry.registry.mu.Lock()
		age := registry.registry.ages["A"]
		registry.registry.mu.Unlock()
		if age == nil || age.AsDuration() > 20*time.Second {
			t.Errorf("a broker %s ahead: a heartbeat just sent is %v old", skew, age)
		}
	}
}

// A direct heartbeat is as old as the control server has held it: an agent's call that waited long for the registry is no younger.
func TestI11_ADirectHeartbeatTellsHowLongItWasHeld(t *testing.T) {
	registry := newServer(t)
	r := run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry))
	eventually(t, "registered", func() bool {
		_, err := agents(t, r).Register(t.Context(), registration("A", 1))
		return err == nil
	})
	registry.registry.mu.Lock()
	age := registry.registry.ages["A"]
	registry.registry.mu.Unlock()
	if age == nil || age.AsDuration() < 0 || age.AsDuration() > 20*time.Second {
		t.Errorf("held %v", age)
	}
	eventually(t, "this host's clock measured and told with the lease", func() bool {
		return registry.cloud.lastSkew() != nil
	})
	if skew := registry.cloud.lastSkew(); skew.GetAhead().AsDuration() > -50*time.Minute {
		t.Errorf("the database is an hour ahead, and this host %v", skew)
	}
}

// lastSkew is the clock skew of the newest renewal; nil while none told any.
func (c *fakeCloud) lastSkew() *registryv1.ClockSkew {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.renewals) == 0 {
		return nil
	}
	return c.renewals[len(c.renewals)-1].GetClockSkew()
}
