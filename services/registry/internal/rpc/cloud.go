package rpc

import (
	"context"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/agenthttp"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/paging"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// Cloud implements registry.v1.ControlCloud.
type Cloud struct {
	registryv1.UnimplementedControlCloudServer
	Store *store.Cloud
	Lists interface {
		// List is an agent's list; nil when the etag is the list's own, and while there is no control server.
		List(agent cloud.Agent, etag string) *agentv1.FailoverList
	}
}

// RenewControlServer lets a control server join, or renews its lease.
func (s *Cloud) RenewControlServer(ctx context.Context, request *registryv1.RenewControlServerRequest) (*registryv1.RenewControlServerResponse, error) {
	if err := checkEndpoints(request.GetGrpcEndpoint(), request.GetRestEndpoint()); err != nil {
		return nil, err
	}
	self, judged, err := s.Store.Renew(ctx, cloud.Candidate{
		Name: request.GetName(), Endpoints: store.Endpoints(request.GetGrpcEndpoint(), request.GetRestEndpoint()), Version: request.GetVersion(),
		Protocols: cloud.Protocols{Min: int(request.GetProtocolMin()), Max: int(request.GetProtocolMax())},
	}, store.Reported{Connected: int(request.GetAgentsConnected()), ClockSkew: skewOf(request.GetClockSkew())})
	if err != nil {
		return nil, mapped(err, "")
	}
	return &registryv1.RenewControlServerResponse{
		State: states[self.State], Warnings: cautions(judged.Membership), DatabaseTime: timestamppb.New(judged.ReadAt),
	}, nil
}

// checkEndpoints checks the addresses at which agents reach a control server. The REST one may be empty.
func checkEndpoints(grpc, rest string) error {
	host, port, err := net.SplitHostPort(grpc)
	if number, failed := strconv.ParseUint(port, 10, 16); err != nil || host == "" || failed != nil || number == 0 {
		return fault.Invalid("/grpcEndpoint", "must be host:port as agents reach it, is %q", grpc)
	}
	if rest == "" {
		return nil
	}
	base, err := url.Parse(rest)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" ||
		!agenthttp.UsablePort(base) {
		return fault.Invalid("/restEndpoint", "must be an http or https base URL with a host, a port of 1 to 65535 or none, and neither user info nor query, is %q", rest)
	}
	return nil
}

// LeaveCloud ends the lease of a control server that stops.
func (s *Cloud) LeaveCloud(ctx context.Context, request *registryv1.LeaveCloudRequest) (*registryv1.LeaveCloudResponse, error) {
	name, err := parseName("/name", request.GetName())
	if err != nil {
		return nil, err
	}
	if err := s.Store.Leave(ctx, name, request.GetGrpcEndpoint()); err != nil {
		return nil, mapped(err, "")
	}
	return &registryv1.LeaveCloudResponse{}, nil
}

// ListControlServers reads the whole cloud.
func (s *Cloud) ListControlServers(ctx context.Context, request *registryv1.ListControlServersRequest) (*registryv1.ListControlServersResponse, error) {
	order, err := paging.ParseOrder(request.GetOrderBy(), "name", slices.Sorted(maps.Keys(controlServerOrders))...)
	if err != nil {
		return nil, err
	}
	overview, err := s.Store.Overview(ctx)
	if err != nil {
		return nil, mapped(err, "")
	}
	response := &registryv1.ListControlServersResponse{
		Epoch: overview.Epoch, FrozenSince: instant(overview.FrozenSince), Warnings: cautions(overview.Membership),
	}
	for _, server := range overview.Servers {
		response.Servers = append(response.Servers, s.controlServerMessage(server))
	}
	paging.Sort(response.Servers, order, controlServerOrders[order.By])
	if told := overview.Clock.Banner(overview.ReadAt); told != "" {
		response.Warnings = append(response.Warnings, told)
	}
	response.Warnings = append(response.Warnings, skewCautions(overview)...)
	for _, group := range overview.Groups {
		if caution := groupCaution(group, overview.Membership); caution != "" {
			response.Warnings = append(response.Warnings, caution)
		}
	}
	return response, nil
}

// UpdateControlServer changes mode, weight, standby or group.
func (s *Cloud) UpdateControlServer(ctx context.Context, request *registryv1.UpdateControlServerRequest) (*registryv1.UpdateControlServerResponse, error) {
	name, err := parseName("/name", request.GetName())
	if err != nil {
		return nil, err
	}
	change := store.ControlServerChange{Mode: cloud.Mode(request.GetMode()), Standby: request.Standby, Group: request.AffinityGroup}
	if request.Weight != nil {
		weight := int(request.GetWeight())
		change.Weight = &weight
	}
	server, err := s.Store.UpdateServer(ctx, name, request.GetEtag(), change, request.GetActor())
	if err != nil {
		return nil, mapped(err, "")
	}
	return &registryv1.UpdateControlServerResponse{Server: s.controlServerMessage(server)}, nil
}

// RemoveControlServer removes one that is gone or drained.
func (s *Cloud) RemoveControlServer(ctx context.Context, request *registryv1.RemoveControlServerRequest) (*registryv1.RemoveControlServerResponse, error) {
	name, err := parseName("/name", request.GetName())
	if err != nil {
		return nil, err
	}
	if err := s.Store.RemoveServer(ctx, name, request.GetEtag(), request.GetActor()); err != nil {
		return nil, mapped(err, "")
	}
	return &registryv1.RemoveControlServerResponse{}, nil
}

// GetFailoverList reads an agent's list. One that is not assigned yet gets the order it would have until it is.
func (s *Cloud) GetFailoverList(ctx context.Context, request *registryv1.GetFailoverListRequest) (*registryv1.GetFailoverListResponse, error) {
	name, err := parseName("/agent", request.GetAgent())
	if err != nil {
		return nil, err
	}
	agent, err := s.Store.Assignment(ctx, name)
	if err != nil {
		return nil, mapped(err, name.Spelling)
	}
	return &registryv1.GetFailoverListResponse{FailoverList: s.Lists.List(agent, "")}, nil
}

// ListPartitionEvents reads a page of events, newest first.
func (s *Cloud) ListPartitionEvents(ctx context.Context, request *registryv1.ListPartitionEventsRequest) (*registryv1.ListPartitionEventsResponse, error) {
	order, err := paging.ParseOrder(request.GetOrderBy(), "epoch desc", "epoch")
	if err != nil {
		return nil, err
	}
	filter := store.EventFilter{OldestFirst: !order.Descending}
	if at := request.GetStartAt(); at != nil {
		filter.StartAt = at.AsTime()
	}
	if at := request.GetEndAt(); at != nil {
		filter.EndAt = at.AsTime()
	}
	limit, after, err := page(request.GetPageSize(), request.GetPageToken(), filter)
	if err != nil {
		return nil, err
	}
	events, next, err := s.Store.Events(ctx, filter, limit, after)
	if err != nil {
		return nil, mapped(err, "")
	}
	response := &registryv1.ListPartitionEventsResponse{}
	for _, event := range events {
		response.Events = append(response.Events, eventMessage(event))
	}
	response.NextPageToken, err = nextPage(next, filter)
	return response, err
}
