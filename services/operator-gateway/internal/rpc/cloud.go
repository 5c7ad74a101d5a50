package rpc

import (
	"context"
	"fmt"
	"log/slog"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// Cloud implements operator.v1.CloudConfig.
type Cloud struct {
	operatorv1.UnimplementedCloudConfigServer
	Registry Registry
	Logger   *slog.Logger
}

// act is one change of a control server.
func (s *Cloud) act(does, controlServer string) act {
	return act{logger: s.Logger, by: registryService, does: does, controlServer: controlServer}
}

// ListControlServers lists the control servers.
func (s *Cloud) ListControlServers(ctx context.Context, request *operatorv1.ListControlServersRequest) (*registryv1.ListControlServersResponse, error) {
	found, err := s.Registry.Cloud.ListControlServers(ctx, &registryv1.ListControlServersRequest{OrderBy: request.GetOrderBy()})
	return found, registryService.read(err, "")
}

// SetControlServerMode puts a control server into maintenance, or takes it out.
func (s *Cloud) SetControlServerMode(ctx context.Context, request *operatorv1.SetControlServerModeRequest) (*registryv1.ControlServer, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	does := fmt.Sprintf("set %s of control server", request.GetMode())
	updated, err := change(ctx, s.act(does, request.GetName()), s.Registry.Cloud.UpdateControlServer, &registryv1.UpdateControlServerRequest{
		Name: request.GetName(), Etag: etag, Mode: request.GetMode(), Actor: actor(ctx),
	})
	return updated.GetServer(), err
}

// UpdateControlServer changes weight, standby or group.
func (s *Cloud) UpdateControlServer(ctx context.Context, request *operatorv1.UpdateControlServerRequest) (*registryv1.ControlServer, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	updated, err := change(ctx, s.act("update control server", request.GetName()), s.Registry.Cloud.UpdateControlServer, &registryv1.UpdateControlServerRequest{
		Name: request.GetName(), Etag: etag, Weight: request.Weight, Standby: request.Standby, AffinityGroup: request.AffinityGroup, Actor: actor(ctx),
	})
	return updated.GetServer(), err
}

// RemoveControlServer removes one that is gone or drained.
func (s *Cloud) RemoveControlServer(ctx context.Context, request *operatorv1.RemoveControlServerRequest) (*operatorv1.RemoveControlServerResponse, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	_, err = change(ctx, s.act("remove control server", request.GetName()), s.Registry.Cloud.RemoveControlServer, &registryv1.RemoveControlServerRequest{
		Name: request.GetName(), Etag: etag, Actor: actor(ctx),
	})
	return &operatorv1.RemoveControlServerResponse{}, err
}

// GetFailoverList shows an agent's list. A list is never empty, so where there is none it is not found.
func (s *Cloud) GetFailoverList(ctx context.Context, request *operatorv1.GetFailoverListRequest) (*agentv1.FailoverList, error) {
	found, err := s.Registry.Cloud.GetFailoverList(ctx, &registryv1.GetFailoverListRequest{Agent: request.GetAgent()})
	if err != nil {
		return nil, registryService.read(err, request.GetAgent())
	}
	if found.GetFailoverList() == nil {
		return nil, fault.New(fault.ControlServerNotFound,
			"agent %q has no failover list, since there is no control server that takes agents; it gets one when a control server joins, or leaves maintenance", request.GetAgent()).
			WithAgent(request.GetAgent())
	}
	return found.GetFailoverList(), nil
}

// ListPartitionEvents lists how agents were spread anew.
func (s *Cloud) ListPartitionEvents(ctx context.Context, request *operatorv1.ListPartitionEventsRequest) (*registryv1.ListPartitionEventsResponse, error) {
	page, err := s.Registry.Cloud.ListPartitionEvents(ctx, &registryv1.ListPartitionEventsRequest{
		StartAt: request.GetStartAt(), EndAt: request.GetEndAt(), PageSize: request.GetPageSize(), PageToken: request.GetPageToken(), OrderBy: request.GetOrderBy(),
	})
	return page, registryService.read(err, "")
}
