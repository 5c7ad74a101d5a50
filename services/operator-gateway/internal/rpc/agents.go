package rpc

import (
	"context"
	"log/slog"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/routing"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/verification"
)

// Agents implements operator.v1.AgentConfig.
type Agents struct {
	operatorv1.UnimplementedAgentConfigServer
	Registry Registry
	Verifier *verification.Verifier
	Policy   routing.Policy
	Logger   *slog.Logger
}

// audit writes the line of a decision: who did what to which agent or server, and how it ended.
func audit(ctx context.Context, logger *slog.Logger, act, subject string, err error) {
	outcome := "done"
	attributes := []any{"principal", actor(ctx), "act", act, "subject", subject}
	if err != nil {
		outcome = string(fault.From(err).Reason)
		attributes = append(attributes, "error", err.Error())
	}
	logger.InfoContext(ctx, "audit: decision", append(attributes, "outcome", outcome)...)
}

var freshness = map[string]registryv1.Freshness{
	"": registryv1.Freshness_FRESHNESS_UNSPECIFIED, "fresh": registryv1.Freshness_FRESHNESS_FRESH,
	"stale": registryv1.Freshness_FRESHNESS_STALE, "never": registryv1.Freshness_FRESHNESS_NEVER_HEARD,
}

// ListAgents lists every agent in every state.
func (s *Agents) ListAgents(ctx context.Context, request *operatorv1.ListConfigAgentsRequest) (*operatorv1.ListConfigAgentsResponse, error) {
	page, err := s.Registry.Agents.ListAgents(ctx, &registryv1.ListAgentsRequest{
		States: request.GetStates(), Transport: request.Transport, Freshness: freshness[request.GetFreshness()],
		MaxHeartbeatAge: durationpb.New(s.Policy.MaxHeartbeatAge), Linked: request.Linked, Query: request.GetQuery(),
		OrderBy: request.GetOrderBy(), PageSize: request.GetPageSize(), PageToken: request.GetPageToken(),
	})
	if err != nil {
		return nil, read(err)
	}
	return &operatorv1.ListConfigAgentsResponse{Agents: page.GetAgents(), NextPageToken: page.GetNextPageToken()}, nil
}

// GetAgent shows one agent.
func (s *Agents) GetAgent(ctx context.Context, request *operatorv1.GetAgentRequest) (*registryv1.Agent, error) {
	known, err := s.Registry.GetAgent(ctx, request.GetAgent())
	return known.GetAgent(), read(err)
}

// AddAgent adds an HTTP agent by hand.
func (s *Agents) AddAgent(ctx context.Context, request *operatorv1.AddAgentRequest) (*operatorv1.AcceptedAgent, error) {
	added, err := s.Registry.Agents.AddAgent(ctx, &registryv1.AddAgentRequest{
		Name: request.GetName(), HttpBaseUrl: request.GetHttpBaseUrl(), CreateServer: newServer(request.GetCreateServer()), Actor: actor(ctx),
	})
	audit(ctx, s.Logger, "add agent", request.GetName(), err)
	return &operatorv1.AcceptedAgent{Agent: added.GetAgent(), ServerCreated: added.GetServerCreated()}, write(err)
}

func newServer(server *operatorv1.NewServer) *registryv1.NewServer {
	if server == nil {
		return nil
	}
	return &registryv1.NewServer{Url: server.GetUrl(), Active: server.Active}
}

// AcceptAgent accepts one agent.
func (s *Agents) AcceptAgent(ctx context.Context, request *operatorv1.AcceptAgentRequest) (*operatorv1.AcceptedAgent, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	accepted, err := s.Registry.Agents.AcceptAgent(ctx, &registryv1.AcceptAgentRequest{
		Name: request.GetAgent(), Etag: etag, ServerName: request.GetServerName(), CreateServer: newServer(request.GetCreateServer()), Actor: actor(ctx),
	})
	audit(ctx, s.Logger, "accept agent", request.GetAgent(), err)
	return &operatorv1.AcceptedAgent{Agent: accepted.GetAgent(), ServerCreated: accepted.GetServerCreated(), Warnings: accepted.GetWarnings()}, write(err)
}

// BatchAcceptAgents accepts many agents.
func (s *Agents) BatchAcceptAgents(ctx context.Context, request *operatorv1.BatchAcceptAgentsRequest) (*operatorv1.BatchAcceptAgentsResponse, error) {
	ask := &registryv1.BatchAcceptAgentsRequest{Actor: actor(ctx)}
	for _, item := range request.GetItems() {
		ask.Items = append(ask.Items, &registryv1.BatchAcceptItem{Name: item.GetName(), Etag: item.GetEtag()})
	}
	answered, err := s.Registry.Agents.BatchAcceptAgents(ctx, ask)
	if err != nil {
		audit(ctx, s.Logger, "accept agents", "many", err)
		return nil, write(err)
	}
	response := &operatorv1.BatchAcceptAgentsResponse{}
	for _, result := range answered.GetResults() {
		var refused error
		if result.GetReason() != "" {
			refused = fault.New(fault.Reason(result.GetReason()), "%s", result.GetDetail())
		}
		audit(ctx, s.Logger, "accept agent", result.GetName(), refused)
		response.Results = append(response.Results, &operatorv1.BatchAcceptResult{
			Name: result.GetName(), Agent: result.GetAgent(), Reason: result.GetReason(), Detail: result.GetDetail(),
		})
	}
	return response, nil
}

// RejectAgent rejects one agent.
func (s *Agents) RejectAgent(ctx context.Context, request *operatorv1.RejectAgentRequest) (*registryv1.Agent, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	rejected, err := s.Registry.Agents.RejectAgent(ctx, &registryv1.RejectAgentRequest{Name: request.GetAgent(), Etag: etag, Actor: actor(ctx)})
	audit(ctx, s.Logger, "reject agent", request.GetAgent(), err)
	return rejected.GetAgent(), write(err)
}

// UpdateAgent changes how an agent is reached.
func (s *Agents) UpdateAgent(ctx context.Context, request *operatorv1.UpdateAgentRequest) (*registryv1.Agent, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	updated, err := s.Registry.Agents.UpdateAgent(ctx, &registryv1.UpdateAgentRequest{
		Name: request.GetAgent(), Etag: etag, HttpBaseUrl: request.HttpBaseUrl, OnServiceBus: request.OnServiceBus, Actor: actor(ctx),
	})
	audit(ctx, s.Logger, "update agent", request.GetAgent(), err)
	return updated.GetAgent(), write(err)
}

// RemoveAgent removes one agent.
func (s *Agents) RemoveAgent(ctx context.Context, request *operatorv1.RemoveAgentRequest) (*operatorv1.RemoveAgentResponse, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	_, err = s.Registry.Agents.RemoveAgent(ctx, &registryv1.RemoveAgentRequest{Name: request.GetAgent(), Etag: etag, Actor: actor(ctx)})
	audit(ctx, s.Logger, "remove agent", request.GetAgent(), err)
	return &operatorv1.RemoveAgentResponse{}, write(err)
}

// ResolveIdentityConflict clears the conflict mark.
func (s *Agents) ResolveIdentityConflict(ctx context.Context, request *operatorv1.ResolveIdentityConflictRequest) (*registryv1.Agent, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	resolved, err := s.Registry.Agents.ResolveIdentityConflict(ctx, &registryv1.ResolveIdentityConflictRequest{Name: request.GetAgent(), Etag: etag, Actor: actor(ctx)})
	audit(ctx, s.Logger, "resolve identity conflict", request.GetAgent(), err)
	return resolved.GetAgent(), write(err)
}

// VerifyHttp pings the agent's base URL and records what that showed.
func (s *Agents) VerifyHttp(ctx context.Context, request *operatorv1.VerifyHttpRequest) (*operatorv1.VerifyHttpResponse, error) {
	known, err := s.Registry.GetAgent(ctx, request.GetAgent())
	if err != nil {
		return nil, read(err)
	}
	agent := known.GetAgent()
	if agent.GetHttpBaseUrl() == "" {
		return nil, fault.New(fault.InvalidArgument, "agent %q has no HTTP base URL to verify; set its httpBaseUrl first. Nothing was sent", agent.GetName()).
			WithAgent(agent.GetName()).WithField("/httpBaseUrl", "is not set")
	}
	finding, recorded, err := s.Verifier.Verify(ctx, agent)
	audit(ctx, s.Logger, "verify HTTP", agent.GetName(), err)
	if err != nil {
		return nil, write(err)
	}
	return &operatorv1.VerifyHttpResponse{
		HttpBaseUrl: agent.GetHttpBaseUrl(), HttpVerification: recorded.GetAgent().GetHttpVerification(), AnsweredAs: finding.AnsweredAs, Recorded: recorded.GetRecorded(),
	}, nil
}

// ListUrlProposals derives URLs from what the agent reported.
func (s *Agents) ListUrlProposals(ctx context.Context, request *operatorv1.ListUrlProposalsRequest) (*operatorv1.ListUrlProposalsResponse, error) {
	found, err := s.Registry.Agents.ListUrlProposals(ctx, &registryv1.ListUrlProposalsRequest{Name: request.GetAgent()})
	return &operatorv1.ListUrlProposalsResponse{Proposals: found.GetProposals(), Reported: found.GetReported()}, read(err)
}
