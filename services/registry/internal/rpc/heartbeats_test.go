package rpc

import (
	"crypto/sha256"
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// directory gives the lists of a cloud that stays as it is.
type directory struct{ cloud.Directory }

func (d directory) List(agent cloud.Agent, etag string) *agentv1.FailoverList {
	if etag == d.Etag(agent) {
		return nil
	}
	list := &agentv1.FailoverList{Etag: d.Etag(agent)}
	for _, id := range d.Directory.List(agent) {
		list.Servers = append(list.Servers, &agentv1.ControlServerAddress{Name: strconv.FormatInt(id, 10)})
	}
	return list
}

// connect serves agents on a fresh SQLite file, and calls them over a connection.
func connect(t *testing.T, lists Lists) registryv1.AgentRegistryClient {
	t.Helper()
	opened, err := store.Open("sqlite:"+filepath.Join(t.TempDir(), "fleet.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := opened.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	registryv1.RegisterAgentRegistryServer(server, &Agents{Store: opened, Metrics: NewMetrics(prometheus.NewRegistry()), Lists: lists})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	connection, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = connection.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = opened.Close()
	})
	return registryv1.NewAgentRegistryClient(connection)
}

// direct is a heartbeat that a machine sends to a control server, with the enrolment key.
func direct(agent, machine, etag string, sequence int64) *registryv1.ObservedHeartbeat {
	token := sha256.Sum256([]byte(machine))
	return &registryv1.ObservedHeartbeat{
		Heartbeat: &agentv1.Heartbeat{Name: agent, BootId: machine, Sequence: sequence}, ObservedAt: timestamppb.Now(),
		Path: registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT, Identity: &registryv1.DirectIdentity{TokenHash: token[:], Enrols: true, ListEtag: etag},
	}
}

func send(t *testing.T, agents registryv1.AgentRegistryClient, observed ...*registryv1.ObservedHeartbeat) []*registryv1.RecordedHeartbeat {
	t.Helper()
	response, err := agents.RecordHeartbeats(t.Context(), &registryv1.RecordHeartbeatsRequest{Heartbeats: observed})
	if err != nil {
		t.Fatal(err)
	}
	return response.GetResults()
}

func TestI16_ADirectAgentIsGivenAWholeListUnlessItHasIt(t *testing.T) {
	servers, err := cloud.NewDirectory(4, []cloud.Server{{ID: 1, Name: "one", Weight: 100}, {ID: 2, Name: "two", Weight: 100}, {ID: 3, Name: "three", Weight: 100}})
	if err != nil {
		t.Fatal(err)
	}
	agents := connect(t, directory{servers})
	first := direct("BM-1", "one", "", 1)
	bus := direct("BM-2", "one", "", 1)
	bus.Path, bus.Identity = registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS, nil
	answers := send(t, agents, first, bus, direct("bm-1", "two", "", 1))
	given := answers[0].GetFailoverList()
	if len(given.GetServers()) != 3 || given.GetEtag() == "" {
		t.Fatal(answers[0])
	}
	for i, why := range map[int]string{1: "over the bus", 2: "of another machine"} {
		if answers[i].GetFailoverList() != nil {
			t.Errorf("a list was given to a heartbeat %s: %v", why, answers[i])
		}
	}
	for what, row := range map[string]struct {
		heartbeat *registryv1.ObservedHeartbeat
		listed    bool
	}{
		"its answer was lost":       {first, true},
		"it has another list":       {direct("bm-1", "one", "1-3-0-0-0", 2), true},
		"it has the list":           {direct("BM-1", "one", given.GetEtag(), 3), false},
		"an invalid one with a new": {direct("\x00", "one", "", 1), false},
	} {
		answer := send(t, agents, row.heartbeat)[0]
		if listed := answer.GetFailoverList().GetEtag() == given.GetEtag(); listed != row.listed || (answer.GetFailoverList() != nil) != row.listed {
			t.Errorf("%s: %v", what, answer)
		}
	}
}

func TestWithoutACloudThereAreNoLists(t *testing.T) {
	if answer := send(t, connect(t, nil), direct("BM-1", "one", "", 1))[0]; answer.GetResult() != registryv1.HeartbeatResult_HEARTBEAT_RESULT_CREATED || answer.GetFailoverList() != nil {
		t.Fatal(answer)
	}
}
