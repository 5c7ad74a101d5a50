package operatorgateway

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// fakeCloud keeps control servers and affinity groups by the registry's rules, as far as these tests go.
type fakeCloud struct {
	registryv1.UnimplementedControlCloudServer

	mu      sync.Mutex
	asked   []proto.Message
	servers map[string]*registryv1.ControlServer
	groups  map[string]*registryv1.AffinityGroup
	changes int
}

// newCloud has a control server that takes agents, one that is gone, and two groups.
func newCloud() *fakeCloud {
	return &fakeCloud{
		servers: map[string]*registryv1.ControlServer{
			"cs-1": {Name: "cs-1", Etag: "c-0", Mode: registryv1.ControlServerMode_CONTROL_SERVER_MODE_NORMAL, State: registryv1.ControlServerState_CONTROL_SERVER_STATE_NORMAL},
			"cs-2": {Name: "cs-2", Etag: "c-0", Mode: registryv1.ControlServerMode_CONTROL_SERVER_MODE_NORMAL, State: registryv1.ControlServerState_CONTROL_SERVER_STATE_EVICTED},
		},
		groups: map[string]*registryv1.AffinityGroup{"west": {Name: "west", Etag: "g-0"}, "east": {Name: "east", Etag: "g-0"}},
	}
}

// note remembers a request, and refuses names that are none, pointing where the registry does.
func (c *fakeCloud) note(request proto.Message) error {
	c.asked = append(c.asked, request)
	if named, ok := request.(interface{ GetName() string }); ok && strings.ContainsRune(named.GetName(), '\x01') {
		return fault.Invalid("/name", "has control characters")
	}
	if renamed, ok := request.(interface{ GetNewName() string }); ok && strings.ContainsRune(renamed.GetNewName(), '\x01') {
		return fault.Invalid("/newName", "has control characters")
	}
	return nil
}

// last is the last request since the last time.
func (c *fakeCloud) last() proto.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) == 0 {
		return nil
	}
	request := c.asked[len(c.asked)-1]
	c.asked = nil
	return request
}

func (c *fakeCloud) server(name string) (*registryv1.ControlServer, error) {
	if server, ok := c.servers[name]; ok {
		return server, nil
	}
	return nil, fault.New(fault.ControlServerNotFound, "there is no control server %q", name)
}

func (c *fakeCloud) group(name string) (*registryv1.AffinityGroup, error) {
	if group, ok := c.groups[strings.ToLower(name)]; ok {
		return group, nil
	}
	return nil, fault.New(fault.GroupNotFound, "there is no affinity group %q", name)
}

// free refuses a group's name that is taken.
func (c *fakeCloud) free(name string) error {
	if _, err := c.group(name); err == nil {
		return fault.New(fault.NameTaken, "there is an affinity group %q already", name)
	}
	return nil
}

// ListControlServers lists the cloud.
func (c *fakeCloud) ListControlServers(_ context.Context, request *registryv1.ListControlServersRequest) (*registryv1.ListControlServersResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	servers := []*registryv1.ControlServer{proto.CloneOf(c.servers["cs-1"]), proto.CloneOf(c.servers["cs-2"])}
	return &registryv1.ListControlServersResponse{Servers: servers, Epoch: 7, Warnings: []string{"mixed versions"}}, c.note(request)
}

// UpdateControlServer changes one, unless it has the mode already.
func (c *fakeCloud) UpdateControlServer(_ context.Context, request *registryv1.UpdateControlServerRequest) (*registryv1.UpdateControlServerResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.note(request); err != nil {
		return nil, err
	}
	server, err := c.server(request.GetName())
	if err != nil {
		return nil, err
	}
	if group := request.GetAffinityGroup(); group != "" {
		if _, err := c.group(group); err != nil {
			return nil, err
		}
	}
	if request.GetMode() == server.GetMode() && request.GetEtag() == server.GetEtag() {
		return nil, fault.New(fault.AlreadyDecided, "it is so already")
	}
	if err := advance(request.GetEtag(), &server.Etag, &c.changes); err != nil {
		return nil, err
	}
	server.ChangedBy = request.GetActor()
	return &registryv1.UpdateControlServerResponse{Server: proto.CloneOf(server)}, nil
}

// RemoveControlServer removes one that is gone.
func (c *fakeCloud) RemoveControlServer(_ context.Context, request *registryv1.RemoveControlServerRequest) (*registryv1.RemoveControlServerResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.note(request); err != nil {
		return nil, err
	}
	server, err := c.server(request.GetName())
	if err != nil {
		return nil, err
	}
	if server.GetState() == registryv1.ControlServerState_CONTROL_SERVER_STATE_NORMAL && request.GetEtag() == server.GetEtag() {
		return nil, fault.New(fault.InUse, "control server %q takes agents", server.GetName())
	}
	return &registryv1.RemoveControlServerResponse{}, advance(request.GetEtag(), &server.Etag, &c.changes)
}

// ListAffinityGroups lists the groups.
func (c *fakeCloud) ListAffinityGroups(_ context.Context, request *registryv1.ListAffinityGroupsRequest) (*registryv1.ListAffinityGroupsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	groups := []*registryv1.AffinityGroup{proto.CloneOf(c.groups["east"]), proto.CloneOf(c.groups["west"])}
	return &registryv1.ListAffinityGroupsResponse{Groups: groups}, c.note(request)
}

// CreateAffinityGroup makes one of known agents.
func (c *fakeCloud) CreateAffinityGroup(_ context.Context, request *registryv1.CreateAffinityGroupRequest) (*registryv1.CreateAffinityGroupResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.note(request); err != nil {
		return nil, err
	}
	if err := c.free(request.GetName()); err != nil {
		return nil, err
	}
	for _, agent := range request.GetAgents() {
		if agent == "nobody" {
			return nil, fault.New(fault.AgentNotFound, "there is no agent %q", agent).WithAgent(agent)
		}
	}
	c.changes++
	return &registryv1.CreateAffinityGroupResponse{Group: &registryv1.AffinityGroup{Name: request.GetName(), Agents: int32(len(request.GetAgents())), Etag: "g-1"}}, nil
}

// UpdateAffinityGroup changes one.
func (c *fakeCloud) UpdateAffinityGroup(_ context.Context, request *registryv1.UpdateAffinityGroupRequest) (*registryv1.UpdateAffinityGroupResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.note(request); err != nil {
		return nil, err
	}
	group, err := c.group(request.GetName())
	if err != nil {
		return nil, err
	}
	if request.NewName != nil && request.GetEtag() == group.GetEtag() {
		if err := c.free(request.GetNewName()); err != nil {
			return nil, err
		}
	}
	if err := advance(request.GetEtag(), &group.Etag, &c.changes); err != nil {
		return nil, err
	}
	return &registryv1.UpdateAffinityGroupResponse{Group: proto.CloneOf(group)}, nil
}

// DeleteAffinityGroup removes one.
func (c *fakeCloud) DeleteAffinityGroup(_ context.Context, request *registryv1.DeleteAffinityGroupRequest) (*registryv1.DeleteAffinityGroupResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.note(request); err != nil {
		return nil, err
	}
	group, err := c.group(request.GetName())
	if err != nil {
		return nil, err
	}
	return &registryv1.DeleteAffinityGroupResponse{}, advance(request.GetEtag(), &group.Etag, &c.changes)
}

// GetFailoverList has one list; the agent "lonely" has none.
func (c *fakeCloud) GetFailoverList(_ context.Context, request *registryv1.GetFailoverListRequest) (*registryv1.GetFailoverListResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.note(request)
	switch request.GetAgent() {
	case "nobody":
		return nil, fault.New(fault.AgentNotFound, "there is no agent %q", request.GetAgent())
	case "lonely":
		return &registryv1.GetFailoverListResponse{}, nil
	}
	list := &agentv1.FailoverList{Etag: "l-1", Servers: []*agentv1.ControlServerAddress{{Name: "cs-1", GrpcEndpoint: "cs-1:7420"}}}
	return &registryv1.GetFailoverListResponse{FailoverList: list}, nil
}

// ListPartitionEvents has one event; a page token that it did not give is refused.
func (c *fakeCloud) ListPartitionEvents(_ context.Context, request *registryv1.ListPartitionEventsRequest) (*registryv1.ListPartitionEventsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.note(request)
	if request.GetPageToken() == "made-up" {
		return nil, fault.Invalid("/pageToken", "is none of ours")
	}
	event := &registryv1.PartitionEvent{Epoch: 7, Causes: []*registryv1.PartitionCause{{Cause: "join", ControlServer: "cs-1"}}}
	return &registryv1.ListPartitionEventsResponse{Events: []*registryv1.PartitionEvent{event}, NextPageToken: "next"}, nil
}
