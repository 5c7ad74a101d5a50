package rpc

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// Registry is the registry service as the gateway calls it.
type Registry struct {
	Agents  registryv1.AgentRegistryClient
	Servers registryv1.ServerCatalogClient
}

// GetAgent reads one agent.
func (r Registry) GetAgent(ctx context.Context, name string) (*registryv1.GetAgentResponse, error) {
	return r.Agents.GetAgent(ctx, &registryv1.GetAgentRequest{Name: name})
}

// RecordHttpVerification stores what a ping showed.
func (r Registry) RecordHttpVerification(ctx context.Context, request *registryv1.RecordHttpVerificationRequest) (*registryv1.RecordHttpVerificationResponse, error) {
	return r.Agents.RecordHttpVerification(ctx, request)
}

// ClaimHttpVerifications asks for verifications to repeat.
func (r Registry) ClaimHttpVerifications(ctx context.Context, request *registryv1.ClaimHttpVerificationsRequest) (*registryv1.ClaimHttpVerificationsResponse, error) {
	return r.Agents.ClaimHttpVerifications(ctx, request)
}

// read passes the registry's reasons on; when it does not answer, nothing was read.
func read(err error) error { return registryError(err, "nothing was changed") }

// write is like read, but a change that got no answer may have been made.
func write(err error) error {
	return registryError(err, "whether the change was made is not known: read it again before you repeat it")
}

func registryError(err error, consequence string) error {
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.Unavailable:
		// The connection was refused or lost. gRPC answers so too when a call broke off under way.
		return fault.New(fault.RegistryUnavailable, "the registry cannot be reached; %s", consequence).WithCause(err)
	case codes.DeadlineExceeded, codes.Canceled:
		return fault.New(fault.RegistryUnavailable, "the registry did not answer in time; %s", consequence).WithCause(err)
	}
	found := fault.From(err)
	if found.Reason == fault.Unauthenticated || found.Reason == fault.PermissionDenied {
		return fault.New(fault.RegistryUnavailable, "the registry does not accept the gateway's own credential (registry.tokenFile); nothing was changed").WithCause(err)
	}
	return found
}

// actor is who asks, as decisions record it.
func actor(ctx context.Context) string {
	principal, _ := authn.PrincipalOf(ctx)
	return principal.Name
}
