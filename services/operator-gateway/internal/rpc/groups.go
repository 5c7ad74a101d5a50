package rpc

import (
	"context"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// groupFields are an affinity group's names, as the registry has them and as our callers do.
var groupFields = renaming{"/name": "/group", "/newName": "/name"}

// actOnGroup is one change of an affinity group.
func (s *Cloud) actOnGroup(does, group string, fields renaming) act {
	return act{logger: s.Logger, by: registryService, does: does, group: group, fields: fields}
}

// ListAffinityGroups lists the groups.
func (s *Cloud) ListAffinityGroups(ctx context.Context, request *operatorv1.ListAffinityGroupsRequest) (*registryv1.ListAffinityGroupsResponse, error) {
	found, err := s.Registry.Cloud.ListAffinityGroups(ctx, &registryv1.ListAffinityGroupsRequest{OrderBy: request.GetOrderBy()})
	return found, registryService.read(err, "")
}

// CreateAffinityGroup makes a group.
func (s *Cloud) CreateAffinityGroup(ctx context.Context, request *operatorv1.CreateAffinityGroupRequest) (*registryv1.AffinityGroup, error) {
	created, err := change(ctx, s.actOnGroup("create affinity group", request.GetName(), nil), s.Registry.Cloud.CreateAffinityGroup, &registryv1.CreateAffinityGroupRequest{
		Name: request.GetName(), Agents: request.GetAgents(), ControlServers: request.GetControlServers(), Actor: actor(ctx),
	})
	return created.GetGroup(), err
}

// UpdateAffinityGroup renames a group, or adds and removes members.
func (s *Cloud) UpdateAffinityGroup(ctx context.Context, request *operatorv1.UpdateAffinityGroupRequest) (*registryv1.AffinityGroup, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	updated, err := change(ctx, s.actOnGroup("update affinity group", request.GetGroup(), groupFields), s.Registry.Cloud.UpdateAffinityGroup, &registryv1.UpdateAffinityGroupRequest{
		Name: request.GetGroup(), Etag: etag, NewName: request.Name, AddAgents: request.GetAddAgents(), RemoveAgents: request.GetRemoveAgents(),
		AddControlServers: request.GetAddControlServers(), RemoveControlServers: request.GetRemoveControlServers(), Actor: actor(ctx),
	})
	return updated.GetGroup(), err
}

// DeleteAffinityGroup removes a group.
func (s *Cloud) DeleteAffinityGroup(ctx context.Context, request *operatorv1.DeleteAffinityGroupRequest) (*operatorv1.DeleteAffinityGroupResponse, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	_, err = change(ctx, s.actOnGroup("delete affinity group", request.GetGroup(), groupFields), s.Registry.Cloud.DeleteAffinityGroup, &registryv1.DeleteAffinityGroupRequest{
		Name: request.GetGroup(), Etag: etag, Actor: actor(ctx),
	})
	return &operatorv1.DeleteAffinityGroupResponse{}, err
}
