package rest

import (
	"context"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

type fakeCloud struct {
	operatorv1.UnimplementedCloudConfigServer
	*face
}

func (f fakeCloud) ListControlServers(ctx context.Context, r *operatorv1.ListControlServersRequest) (*registryv1.ListControlServersResponse, error) {
	return note[registryv1.ListControlServersResponse](ctx, f.face, r)
}

func (f fakeCloud) SetControlServerMode(ctx context.Context, r *operatorv1.SetControlServerModeRequest) (*registryv1.ControlServer, error) {
	return note[registryv1.ControlServer](ctx, f.face, r)
}

func (f fakeCloud) UpdateControlServer(ctx context.Context, r *operatorv1.UpdateControlServerRequest) (*registryv1.ControlServer, error) {
	return note[registryv1.ControlServer](ctx, f.face, r)
}

func (f fakeCloud) RemoveControlServer(ctx context.Context, r *operatorv1.RemoveControlServerRequest) (*operatorv1.RemoveControlServerResponse, error) {
	return note[operatorv1.RemoveControlServerResponse](ctx, f.face, r)
}

func (f fakeCloud) CreateAffinityGroup(ctx context.Context, r *operatorv1.CreateAffinityGroupRequest) (*registryv1.AffinityGroup, error) {
	return note[registryv1.AffinityGroup](ctx, f.face, r)
}

func (f fakeCloud) UpdateAffinityGroup(ctx context.Context, r *operatorv1.UpdateAffinityGroupRequest) (*registryv1.AffinityGroup, error) {
	return note[registryv1.AffinityGroup](ctx, f.face, r)
}

func (f fakeCloud) DeleteAffinityGroup(ctx context.Context, r *operatorv1.DeleteAffinityGroupRequest) (*operatorv1.DeleteAffinityGroupResponse, error) {
	return note[operatorv1.DeleteAffinityGroupResponse](ctx, f.face, r)
}

func (f fakeCloud) GetFailoverList(ctx context.Context, r *operatorv1.GetFailoverListRequest) (*agentv1.FailoverList, error) {
	return note[agentv1.FailoverList](ctx, f.face, r)
}
