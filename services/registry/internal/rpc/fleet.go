package rpc

import (
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// fleetPart is how many servers are sent at once.
const fleetPart = 1000

// ReadFleet reads the fleet and then sends it: a slow caller keeps rows in our memory, but no statement and no transaction open.
func (s *Agents) ReadFleet(_ *registryv1.ReadFleetRequest, stream grpc.ServerStreamingServer[registryv1.ReadFleetResponse]) error {
	ctx := stream.Context()
	fleet, err := s.Store.Fleet(ctx)
	if err != nil {
		return mapped(err, "")
	}
	if err := stream.Send(s.fleetHead(fleet)); err != nil {
		return err
	}
	for part := range slices.Chunk(fleet.Servers, fleetPart) {
		if err := ctx.Err(); err != nil { // sending knows the caller's deadline, and not ours
			return err
		}
		if err := stream.Send(fleetServers(part)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Agents) fleetHead(fleet store.Fleet) *registryv1.ReadFleetResponse {
	bus, direct := pathEvidence(registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS, fleet.Bus), pathEvidence(registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT, fleet.Direct)
	if s.Returns != nil {
		returns, displaced := s.Returns()
		bus.LongestReturn, direct.LongestReturn = durationpb.New(returns.BusReconnect), durationpb.New(returns.AfterOutage(displaced))
		if displaced.Silent > 0 {
			direct.DisplacedAt, direct.LongestFailover = instant(displaced.Since), durationpb.New(returns.AfterLoss(displaced))
		}
	}
	return &registryv1.ReadFleetResponse{Part: &registryv1.ReadFleetResponse_Head{Head: &registryv1.FleetHead{
		ReadAt: instant(fleet.ReadAt),
		Paths:  []*registryv1.PathEvidence{bus, direct},
	}}}
}

func pathEvidence(path registryv1.HeartbeatPath, e store.PathEvidence) *registryv1.PathEvidence {
	message := &registryv1.PathEvidence{
		Path: path, ReportedAt: instant(e.ReportedAt), HealthySince: instant(e.Since), HeardAt: instant(e.HeardAt), Detail: e.Detail,
		BrokerSkew: skewMessage(e.BrokerSkew),
	}
	if e.Backlog > 0 {
		message.Backlog = durationpb.New(e.Backlog)
	}
	return message
}

func fleetServers(part []store.FleetServer) *registryv1.ReadFleetResponse {
	servers := make([]*registryv1.FleetServer, 0, len(part))
	for _, server := range part {
		servers = append(servers, &registryv1.FleetServer{
			ServerKey: server.Key, Agent: server.Agent, RegistrationState: registryv1.RegistrationState(server.State), Removed: server.Removed, Astray: server.Astray,
			LastBusHeartbeatAt: instant(server.LastBusAt), LastDirectHeartbeatAt: instant(server.LastDirectAt),
			HttpBaseUrl: server.HTTPBaseURL, HttpVerified: server.HTTPVerified,
		})
	}
	return &registryv1.ReadFleetResponse{Part: &registryv1.ReadFleetResponse_Servers{Servers: &registryv1.FleetServers{Servers: servers}}}
}
