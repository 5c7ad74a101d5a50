package registry_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// Whatever the clocks of a control server and of the broker read, a heartbeat is as old as it is by the database's.
func TestI11_NoClockOfAnotherMachineMakesAnAgentSilent(t *testing.T) {
	c := serve(t)
	observed := func(name string, wrong time.Duration, age *durationpb.Duration, bus bool) time.Duration {
		t.Helper()
		request := directly("one", true, beats(name))
		if bus {
			request = beats(name)
		}
		request.Heartbeats[0].ObservedAt, request.Heartbeats[0].Age = timestamppb.New(time.Now().Add(wrong)), age
		if _, err := c.agents.RecordHeartbeats(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		agent := c.read(t, name)
		if bus {
			return agent.GetBusHeartbeatAge().AsDuration()
		}
		return agent.GetDirectHeartbeatAge().AsDuration()
	}
	second, bus, direct := durationpb.New(time.Second), true, false
	for _, got := range []struct {
		what string
		age  time.Duration
	}{
		{"a control server 10 min behind", observed("BM-1", -10*time.Minute, second, direct)},
		{"a control server 10 min ahead", observed("BM-2", 10*time.Minute, second, direct)},
		{"a control server of the release before, 10 min behind", observed("BM-3", -10*time.Minute, nil, direct)},
		{"a broker 10 min behind", observed("BM-4", -10*time.Minute, second, bus)},
		{"a broker 10 min ahead", observed("BM-5", 10*time.Minute, second, bus)},
	} {
		if got.age > time.Minute {
			t.Errorf("%s: heard %s ago", got.what, got.age)
		}
	}
	if old := observed("BM-6", 0, durationpb.New(10*time.Minute), direct); old < 10*time.Minute {
		t.Error("held for 10 min, and heard", old, "ago")
	}
}

func TestSkewsAreKeptAndShown(t *testing.T) {
	c := serve(t)
	c.expect(t, beats("BM-1"), created)
	skew := &registryv1.ClockSkew{Ahead: durationpb.New(-time.Minute), Uncertainty: durationpb.New(20 * time.Millisecond)}
	reported, err := c.agents.ReportIngestEvidence(t.Context(), &registryv1.ReportIngestEvidenceRequest{
		Path: registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS, ConsumerId: "one", BrokerSkew: skew,
	})
	if err != nil || reported.GetHealth().GetBrokerSkew().GetAhead().AsDuration() != -time.Minute || time.Since(reported.GetDatabaseTime().AsTime()).Abs() > time.Minute {
		t.Fatal(reported, err)
	}
	got, err := c.agents.GetAgent(t.Context(), &registryv1.GetAgentRequest{Name: "BM-1"})
	if shown := got.GetBusIngest().GetBrokerSkew(); err != nil || shown.GetAhead().AsDuration() != -time.Minute || shown.GetUncertainty().AsDuration() != 20*time.Millisecond {
		t.Error(got.GetBusIngest(), err)
	}
	stream, err := c.agents.ReadFleet(t.Context(), &registryv1.ReadFleetRequest{})
	if err != nil {
		t.Fatal(err)
	}
	head, err := stream.Recv()
	if err != nil || head.GetHead().GetPaths()[0].GetBrokerSkew().GetAhead().AsDuration() != -time.Minute || head.GetHead().GetPaths()[1].GetBrokerSkew() != nil {
		t.Error(head, err)
	}
}

func TestAControlServersClockIsShown(t *testing.T) {
	c := serve(t)
	renew := func(skew *registryv1.ClockSkew) *registryv1.RenewControlServerResponse {
		t.Helper()
		renewed, err := c.cloud.RenewControlServer(t.Context(), &registryv1.RenewControlServerRequest{
			Name: "cs-1", GrpcEndpoint: "cs-1.example.test:8443", ProtocolMin: 1, ProtocolMax: 1, ClockSkew: skew,
		})
		if err != nil {
			t.Fatal(err)
		}
		return renewed
	}
	list := func() *registryv1.ListControlServersResponse {
		t.Helper()
		listed, err := c.cloud.ListControlServers(t.Context(), &registryv1.ListControlServersRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return listed
	}
	if at := renew(nil).GetDatabaseTime(); time.Since(at.AsTime()).Abs() > time.Minute {
		t.Error("the database's clock reads", at)
	}
	if shown := list().GetServers()[0].GetClockSkew(); shown != nil {
		t.Error("measured before it was:", shown)
	}
	renew(&registryv1.ClockSkew{Ahead: durationpb.New(-time.Minute), Uncertainty: durationpb.New(time.Millisecond)})
	listed := list()
	if shown := listed.GetServers()[0].GetClockSkew(); shown.GetAhead().AsDuration() != -time.Minute {
		t.Error(shown)
	}
	if warnings := strings.Join(listed.GetWarnings(), "\n"); !strings.Contains(warnings, `the clock of control server "cs-1" is 1m0s behind the database's`) {
		t.Error(warnings)
	}
	renew(&registryv1.ClockSkew{Ahead: durationpb.New(-7 * time.Second), Uncertainty: durationpb.New(3 * time.Second)})
	if warnings := strings.Join(list().GetWarnings(), "\n"); strings.Contains(warnings, "clock") {
		t.Error("what may be 4 s is told:", warnings)
	}
}
