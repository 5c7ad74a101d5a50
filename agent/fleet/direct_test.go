package fleet_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/commandcenter/fleet/agent"
	"github.com/commandcenter/fleet/agent/fleet"
	"github.com/commandcenter/fleet/agent/internal/standin"
)

func direct(t *testing.T, cloud *standin.Cloud, agents ...fleet.Agent) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Start(t.Context(), fleet.Config{
		Agents: agents, ControlServers: []string{cloud.Server("a").Endpoint}, EnrolmentKeyFile: cloud.KeyFile(), StateDir: t.TempDir(),
		AgentsPerConnection: 10, HeartbeatInterval: 100 * time.Millisecond,
		Failover: agent.FailoverConfig{
			FailoverGrace: time.Millisecond, ServerInterval: 5 * time.Millisecond, BackoffInterval: 5 * time.Millisecond, BackoffIntervalMax: 20 * time.Millisecond,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never came to hold")
		}
	}
}

func all(f *fleet.Fleet, server string) func() bool {
	return func() bool {
		for _, name := range f.Names() {
			if with, err := f.ControlServer(name); err != nil || with != server {
				return false
			}
		}
		return true
	}
}

func TestDirectAgentsShareConnections(t *testing.T) {
	cloud := standin.New(t, "a", "b")
	f := direct(t, cloud, fleet.Numbered(25, fleet.Agent{Name: "D-", Direct: true, HTTP: true})...)
	eventually(t, all(f, "a"))
	eventually(t, func() bool { return cloud.Server("a").Connections() == 3 }) // 10, 10 and 5
	cloud.Server("a").Kill()
	eventually(t, all(f, "b"))
	eventually(t, func() bool { return cloud.Server("b").Connections() == 3 })
	tokens := map[string]bool{}
	for _, c := range cloud.Calls() {
		tokens[c.Agent+" "+c.Token] = true
	}
	if s := f.Stats(); s.Connects != 50 || s.Failovers != 25 || s.Registrations != 25 || len(tokens) != 25 {
		t.Errorf("%+v, %d tokens", s, len(tokens))
	}
}

func TestARestartedAgentIsTheSameMachineAtTheSameAddress(t *testing.T) {
	cloud := standin.New(t, "a", "b")
	f := direct(t, cloud, fleet.Agent{Name: "D 1", Direct: true, HTTP: true}, fleet.Agent{Name: "D2", Direct: true, HTTP: true})
	eventually(t, all(f, "a"))
	base, err := f.HTTPBaseURL("d 1")
	if err != nil {
		t.Fatal(err)
	}
	cloud.Server("a").Kill()
	eventually(t, all(f, "b"))
	before := f.Stats()
	if err := f.Restart("d 1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, all(f, "b"))
	if again, err := f.HTTPBaseURL("D 1"); err != nil || again != base {
		t.Errorf("it is at %s, and was at %s, %v", again, base, err)
	}
	tokens, boots := map[string]bool{}, map[string]bool{}
	for _, c := range cloud.Calls() {
		if c.Agent == "D 1" {
			tokens[c.Token], boots[c.Heartbeat.GetBootId()] = true, true
		}
	}
	if s := f.Stats(); len(tokens) != 1 || len(boots) != 2 || s.Registrations != 2 || s.Connects < before.Connects+1 {
		t.Errorf("%d tokens, %d boots, %+v", len(tokens), len(boots), s)
	}
	if f.Restart("nobody") == nil {
		t.Error("an agent that there is none of was restarted")
	}
}

func TestASilentDirectAgentIsNotHeard(t *testing.T) {
	cloud := standin.New(t, "a")
	f := direct(t, cloud, fleet.Agent{Name: "LOUD", Direct: true, HTTP: true}, fleet.Agent{Name: "QUIET", Direct: true, HTTP: true, Silent: true})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := f.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	heard := func(name string) (n int) {
		for _, c := range cloud.Calls() {
			if c.Agent == name {
				n++
			}
		}
		return n
	}
	eventually(t, func() bool { return heard("LOUD") > 3 })
	if heard("QUIET") > 0 {
		t.Error("a silent agent was heard")
	}
	if err := f.Wake("quiet"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return heard("QUIET") > 1 })
	if _, err := f.ControlServer("nobody"); err == nil {
		t.Error("an agent that there is none of has a control server")
	}
}

// BenchmarkADirectAgent shows what one more agent in a process costs.
func BenchmarkADirectAgent(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				cloud := standin.New(b, "a")
				f, err := fleet.Start(b.Context(), fleet.Config{
					Agents:         fleet.Numbered(n, fleet.Agent{Name: "D-", Direct: true, HTTP: true}),
					ControlServers: []string{cloud.Server("a").Endpoint}, EnrolmentKeyFile: cloud.KeyFile(), HeartbeatInterval: 10 * time.Second,
					Failover: agent.FailoverConfig{FailoverGrace: time.Millisecond, ServerInterval: 5 * time.Millisecond},
				})
				if err != nil {
					b.Fatal(err)
				}
				for !all(f, "a")() {
					time.Sleep(time.Millisecond)
				}
				b.ReportMetric(float64(cloud.Server("a").Connections()), "connections")
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
