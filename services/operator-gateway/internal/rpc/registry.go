package rpc

import (
	"context"
	"slices"
	"strings"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// Registry is the registry service as the gateway calls it.
type Registry struct {
	Agents  registryv1.AgentRegistryClient
	Servers registryv1.ServerCatalogClient
	Cloud   registryv1.ControlCloudClient
}

// GetAgent reads one agent; what is wrong is said in our callers' terms.
func (r Registry) GetAgent(ctx context.Context, name string) (*registryv1.GetAgentResponse, error) {
	known, err := r.Agents.GetAgent(ctx, &registryv1.GetAgentRequest{Name: name})
	return known, registryService.read(agentFields.of(err), name)
}

// RecordHttpVerification stores what a ping showed.
func (r Registry) RecordHttpVerification(ctx context.Context, request *registryv1.RecordHttpVerificationRequest) (*registryv1.RecordHttpVerificationResponse, error) {
	return r.Agents.RecordHttpVerification(ctx, request)
}

// ClaimHttpVerifications asks for verifications to repeat.
func (r Registry) ClaimHttpVerifications(ctx context.Context, request *registryv1.ClaimHttpVerificationsRequest) (*registryv1.ClaimHttpVerificationsResponse, error) {
	return r.Agents.ClaimHttpVerifications(ctx, request)
}

// renaming is what our callers call those fields that an upstream calls otherwise: its JSON pointers, with ours.
type renaming map[string]string

// agentFields is an agent's name, as the registry has it and as our callers do.
var agentFields = renaming{"/name": "/agent"}

// of points an error at the fields that our callers fill in.
func (r renaming) of(err error) error {
	found := fault.From(err)
	if found == nil || !slices.ContainsFunc(found.Fields, func(field fault.Field) bool { return r[field.Pointer] != "" }) {
		return err
	}
	ours := *found
	ours.Fields = slices.Clone(found.Fields)
	var words []string
	for i, field := range found.Fields {
		if pointer := r[field.Pointer]; pointer != "" {
			ours.Fields[i].Pointer = pointer
			words = append(words, field.Pointer+":", pointer+":")
		}
	}
	ours.Detail = strings.NewReplacer(words...).Replace(found.Detail) // all at once, since one's new name may be another's old one
	return &ours
}
