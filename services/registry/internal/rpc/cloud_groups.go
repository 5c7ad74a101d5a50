package rpc

import (
	"context"
	"fmt"
	"maps"
	"slices"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/paging"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// ListAffinityGroups reads all groups.
func (s *Cloud) ListAffinityGroups(ctx context.Context, request *registryv1.ListAffinityGroupsRequest) (*registryv1.ListAffinityGroupsResponse, error) {
	order, err := paging.ParseOrder(request.GetOrderBy(), "name", slices.Sorted(maps.Keys(groupOrders))...)
	if err != nil {
		return nil, err
	}
	overview, err := s.Store.Overview(ctx)
	if err != nil {
		return nil, mapped(err, "")
	}
	response := &registryv1.ListAffinityGroupsResponse{}
	for _, group := range overview.Groups {
		response.Groups = append(response.Groups, groupMessage(group, overview.Membership))
	}
	paging.Sort(response.Groups, order, groupOrders[order.By])
	return response, nil
}

// CreateAffinityGroup makes a group.
func (s *Cloud) CreateAffinityGroup(ctx context.Context, request *registryv1.CreateAffinityGroupRequest) (*registryv1.CreateAffinityGroupResponse, error) {
	var change store.GroupChange
	var err error
	if change.Name, err = parseNewName("/name", request.GetName()); err != nil {
		return nil, err
	}
	if change.AddAgents, err = parseNames("/agents", request.GetAgents()); err != nil {
		return nil, err
	}
	if change.AddServers, err = parseNames("/controlServers", request.GetControlServers()); err != nil {
		return nil, err
	}
	group, judged, err := s.Store.CreateGroup(ctx, change, request.GetActor())
	if err != nil {
		return nil, mapped(err, "")
	}
	return &registryv1.CreateAffinityGroupResponse{Group: groupMessage(group, judged)}, nil
}

// UpdateAffinityGroup renames a group, or changes its members.
func (s *Cloud) UpdateAffinityGroup(ctx context.Context, request *registryv1.UpdateAffinityGroupRequest) (*registryv1.UpdateAffinityGroupResponse, error) {
	name, err := parseName("/name", request.GetName())
	if err != nil {
		return nil, err
	}
	var change store.GroupChange
	if request.NewName != nil {
		if change.Name, err = parseNewName("/newName", request.GetNewName()); err != nil {
			return nil, err
		}
	}
	for _, list := range []struct {
		pointer string
		texts   []string
		names   *[]enrollment.Name
	}{
		{"/addAgents", request.GetAddAgents(), &change.AddAgents},
		{"/removeAgents", request.GetRemoveAgents(), &change.RemoveAgents},
		{"/addControlServers", request.GetAddControlServers(), &change.AddServers},
		{"/removeControlServers", request.GetRemoveControlServers(), &change.RemoveServers},
	} {
		if *list.names, err = parseNames(list.pointer, list.texts); err != nil {
			return nil, err
		}
	}
	if err := apart("/removeAgents", "/addAgents", change.RemoveAgents, change.AddAgents); err != nil {
		return nil, err
	}
	if err := apart("/removeControlServers", "/addControlServers", change.RemoveServers, change.AddServers); err != nil {
		return nil, err
	}
	group, judged, err := s.Store.UpdateGroup(ctx, name, request.GetEtag(), change, request.GetActor())
	if err != nil {
		return nil, mapped(err, "")
	}
	return &registryv1.UpdateAffinityGroupResponse{Group: groupMessage(group, judged)}, nil
}

// DeleteAffinityGroup removes a group.
func (s *Cloud) DeleteAffinityGroup(ctx context.Context, request *registryv1.DeleteAffinityGroupRequest) (*registryv1.DeleteAffinityGroupResponse, error) {
	name, err := parseName("/name", request.GetName())
	if err != nil {
		return nil, err
	}
	if err := s.Store.DeleteGroup(ctx, name, request.GetEtag(), request.GetActor()); err != nil {
		return nil, mapped(err, "")
	}
	return &registryv1.DeleteAffinityGroupResponse{}, nil
}

// parseNames checks many names in a request.
func parseNames(pointer string, texts []string) ([]enrollment.Name, error) {
	names := make([]enrollment.Name, len(texts))
	for i, text := range texts {
		var err error
		if names[i], err = parseName(fmt.Sprintf("%s/%d", pointer, i), text); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// apart refuses a name that is in both lists: it cannot be told what is meant.
func apart(pointer, other string, names, others []enrollment.Name) error {
	known := make(map[string]bool, len(others))
	for _, name := range others {
		known[name.Key] = true
	}
	for i, name := range names {
		if known[name.Key] {
			return fault.Invalid(fmt.Sprintf("%s/%d", pointer, i), "%q is in %s too", name.Spelling, other[1:])
		}
	}
	return nil
}
