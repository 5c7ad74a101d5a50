package sweep

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/spelling"
)

// FleetReader is what is called of the registry; registryv1.AgentRegistryClient is one.
type FleetReader interface {
	ReadFleet(ctx context.Context, request *registryv1.ReadFleetRequest, options ...grpc.CallOption) (grpc.ServerStreamingClient[registryv1.ReadFleetResponse], error)
}

// agents is what the registry knows for one sweep, all of one moment.
type agents struct {
	readAt   time.Time
	evidence verdict.PerPath[verdict.Evidence]
	byServer map[int64]agent
}

// agent is the agent of one server.
type agent struct {
	verdict.Agent
	name     string
	verified bool // its base URL
}

var paths = map[registryv1.HeartbeatPath]verdict.Path{
	registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS:    verdict.Bus,
	registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT: verdict.Direct,
}

// readAgents reads the whole fleet, or fails: half a fleet would be a wrong one.
func readAgents(ctx context.Context, registry FleetReader, leftAfter time.Duration) (*agents, error) {
	stream, err := registry.ReadFleet(ctx, &registryv1.ReadFleetRequest{})
	if err != nil {
		return nil, err
	}
	return collect(stream, leftAfter)
}

func collect(stream grpc.ServerStreamingClient[registryv1.ReadFleetResponse], leftAfter time.Duration) (*agents, error) {
	var read *agents
	for {
		part, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && read != nil:
			return read, nil
		case errors.Is(err, io.EOF):
			return nil, errors.New("the registry's answer is empty")
		case err != nil:
			return nil, err
		}
		switch {
		case part.GetHead() != nil:
			read = newAgents(part.GetHead())
		case read == nil:
			return nil, errors.New("the registry's answer does not begin with its head")
		}
		for _, server := range part.GetServers().GetServers() {
			read.byServer[server.GetServerKey()] = newAgent(server, leftAfter)
		}
	}
}

// of is a server's agent. A key may be another server's since the link was made: what an agent of another name says is nothing of this
// server, and neither is that such a one was removed (I-18).
func (a *agents) of(server *store.Server) agent {
	found := a.byServer[server.Key]
	if found.name == server.Name || found.name == "" || spelling.Same(found.name, server.Name) {
		return found
	}
	if found.Registration == verdict.Removed {
		return agent{}
	}
	return agent{name: found.name, Agent: verdict.Agent{Registration: verdict.Astray, Linked: true}}
}

func newAgents(head *registryv1.FleetHead) *agents {
	read := &agents{readAt: instant(head.GetReadAt()), byServer: map[int64]agent{}}
	for _, one := range head.GetPaths() {
		if path, known := paths[one.GetPath()]; known {
			read.evidence[path] = verdict.Evidence{
				ReportedAt: instant(one.GetReportedAt()), HealthySince: instant(one.GetHealthySince()),
				Backlog: one.GetBacklog().AsDuration(), HeardAt: instant(one.GetHeardAt()), LongestReturn: one.GetLongestReturn().AsDuration(),
				DisplacedAt: instant(one.GetDisplacedAt()), LongestFailover: one.GetLongestFailover().AsDuration(),
				Broker: verdict.Skew{Ahead: one.GetBrokerSkew().GetAhead().AsDuration(), Within: one.GetBrokerSkew().GetUncertainty().AsDuration()},
			}
		}
	}
	return read
}

func newAgent(server *registryv1.FleetServer, leftAfter time.Duration) agent {
	one := agent{name: server.GetAgent(), verified: server.GetHttpVerified()}
	one.Registration, one.Linked, one.BaseURL = registration(server), true, server.GetHttpBaseUrl()
	one.HeardAt = heardAt(instant(server.GetLastBusHeartbeatAt()), instant(server.GetLastDirectHeartbeatAt()), leftAfter)
	return one
}

func registration(server *registryv1.FleetServer) verdict.Registration {
	switch {
	case server.GetRemoved():
		return verdict.Removed
	case server.GetAstray():
		return verdict.Astray
	case server.GetRegistrationState() == registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED:
		return verdict.Accepted
	case server.GetRegistrationState() == registryv1.RegistrationState_REGISTRATION_STATE_REJECTED:
		return verdict.Rejected
	case server.GetRegistrationState() == registryv1.RegistrationState_REGISTRATION_STATE_PENDING:
		return verdict.Pending
	}
	return verdict.Unregistered
}

// heardAt leaves out a path on which the agent has said nothing for so long while it was heard on the other: it left that one.
// Otherwise a path that nobody serves any more would hold its servers for ever.
func heardAt(bus, direct time.Time, leftAfter time.Duration) (heard verdict.PerPath[time.Time]) {
	heard[verdict.Bus], heard[verdict.Direct] = bus, direct
	switch {
	case bus.IsZero() || direct.IsZero():
	case bus.Sub(direct) > leftAfter:
		heard[verdict.Direct] = time.Time{}
	case direct.Sub(bus) > leftAfter:
		heard[verdict.Bus] = time.Time{}
	}
	return heard
}

func instant(at *timestamppb.Timestamp) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.AsTime()
}
