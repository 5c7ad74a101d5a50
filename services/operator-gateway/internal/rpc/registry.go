package rpc

import (
	"context"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// Registry is the registry service as the gateway calls it.
type Registry struct {
	Agents  registryv1.AgentRegistryClient
	Servers registryv1.ServerCatalogClient
}

// GetAgent reads one agent; what is wrong is said in our callers' terms.
func (r Registry) GetAgent(ctx context.Context, name string) (*registryv1.GetAgentResponse, error) {
	known, err := r.Agents.GetAgent(ctx, &registryv1.GetAgentRequest{Name: name})
	return known, registryService.read(renamed(err), name)
}

// RecordHttpVerification stores what a ping showed.
func (r Registry) RecordHttpVerification(ctx context.Context, request *registryv1.RecordHttpVerificationRequest) (*registryv1.RecordHttpVerificationResponse, error) {
	return r.Agents.RecordHttpVerification(ctx, request)
}

// ClaimHttpVerifications asks for verifications to repeat.
func (r Registry) ClaimHttpVerifications(ctx context.Context, request *registryv1.ClaimHttpVerificationsRequest) (*registryv1.ClaimHttpVerificationsResponse, error) {
	return r.Agents.ClaimHttpVerifications(ctx, request)
}

// renamed points at the field that our callers fill in: what the registry calls name is agent to them.
func renamed(err error) error {
	found := fault.From(err)
	if found == nil || len(found.Fields) != 1 || found.Fields[0].Pointer != "/name" {
		return err
	}
	return fault.Invalid("/agent", "%s", found.Fields[0].Detail)
}
