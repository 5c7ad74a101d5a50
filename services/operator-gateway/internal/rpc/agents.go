package rpc

import (
	"context"
	"fmt"
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

// act is one change of an agent.
func (s *Agents) act(does, agent string) act {
	return act{logger: s.Logger, by: registryService, does: does, agent: agent, fields: agentFields}
}

var freshness = map[string]registryv1.Freshness{
	"": registryv1.Freshness_FRESHNESS_UNSPECIFIED, "fresh": registryv1.Freshness_FRESHNESS_FRESH,
	"stale": registryv1.Freshness_FRESHNESS_STALE, "never": registryv1.Freshness_FRESHNESS_NEVER_HEARD,
}

// ListAgents lists every agent in every state.
func (s *Agents) ListAgents(ctx context.Context, request *operatorv1.ListConfigAgentsRequest) (*operatorv1.ListConfigAgentsResponse, error) {
	page, err := s.Registry.Agents.ListAgents(ctx, &registryv1.ListAgentsRequest{
		States: request.GetStates(), Transport: request.Transport, Freshness: freshness[request.GetFreshness()],
		MaxHeartbeatAge: durationpb.New(s.Policy.MaxHeartbeatAge), Linked: request.Linked, Astray: request.Astray, Query: request.GetQuery(),
		OrderBy: request.GetOrderBy(), PageSize: request.GetPageSize(), PageToken: request.GetPageToken(),
		UnseenFor: request.GetUnseenFor(), AgentVersion: request.GetAgentVersion(), ControlServer: request.GetControlServer(),
	})
	if err != nil {
		return nil, registryService.read(err, "")
	}
	response := &operatorv1.ListConfigAgentsResponse{Agents: page.GetAgents(), NextPageToken: page.GetNextPageToken(), Total: page.GetTotal()}
	if request.GetPageToken() == "" {
		response.AstrayAgents, response.Banners = s.Registry.astray(ctx)
	}
	return response, nil
}

// GetAgent shows one agent.
func (s *Agents) GetAgent(ctx context.Context, request *operatorv1.GetAgentRequest) (*registryv1.Agent, error) {
	known, err := s.Registry.GetAgent(ctx, request.GetAgent())
	return known.GetAgent(), err
}

// AddAgent adds an HTTP agent by hand.
func (s *Agents) AddAgent(ctx context.Context, request *operatorv1.AddAgentRequest) (*operatorv1.AcceptedAgent, error) {
	what := s.act("add agent", request.GetName())
	what.fields = nil // here our callers call the name so too
	added, err := change(ctx, what, s.Registry.Agents.AddAgent, &registryv1.AddAgentRequest{
		Name: request.GetName(), HttpBaseUrl: request.GetHttpBaseUrl(), CreateServer: newServer(request.GetCreateServer()), Actor: actor(ctx),
	})
	return &operatorv1.AcceptedAgent{Agent: added.GetAgent(), ServerCreated: added.GetServerCreated()}, err
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
	accepted, err := change(ctx, s.act("accept agent", request.GetAgent()), s.Registry.Agents.AcceptAgent, &registryv1.AcceptAgentRequest{
		Name: request.GetAgent(), Etag: etag, ServerName: request.GetServerName(), CreateServer: newServer(request.GetCreateServer()), Actor: actor(ctx),
	})
	return &operatorv1.AcceptedAgent{Agent: accepted.GetAgent(), ServerCreated: accepted.GetServerCreated(), Warnings: accepted.GetWarnings()}, err
}

// BatchAcceptAgents accepts many agents.
func (s *Agents) BatchAcceptAgents(ctx context.Context, request *operatorv1.BatchAcceptAgentsRequest) (*operatorv1.BatchAcceptAgentsResponse, error) {
	ask := &registryv1.BatchAcceptAgentsRequest{Actor: actor(ctx)}
	for _, item := range request.GetItems() {
		ask.Items = append(ask.Items, &registryv1.BatchAcceptItem{Name: item.GetName(), Etag: item.GetEtag()})
	}
	answered, err := change(ctx, s.act(fmt.Sprintf("accept %d agents", len(ask.GetItems())), ""), s.Registry.Agents.BatchAcceptAgents, ask)
	if err != nil {
		return nil, err
	}
	response := &operatorv1.BatchAcceptAgentsResponse{}
	for _, result := range answered.GetResults() {
		var refused error
		if result.GetReason() != "" {
			refused = fault.New(fault.Reason(result.GetReason()), "%s", result.GetDetail())
		}
		audit(ctx, s.act("accept agent", result.GetName()), refused)
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
	rejected, err := change(ctx, s.act("reject agent", request.GetAgent()), s.Registry.Agents.RejectAgent, &registryv1.RejectAgentRequest{Name: request.GetAgent(), Etag: etag, Actor: actor(ctx)})
	return rejected.GetAgent(), err
}

// UpdateAgent changes how an agent is reached.
func (s *Agents) UpdateAgent(ctx context.Context, request *operatorv1.UpdateAgentRequest) (*registryv1.Agent, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	updated, err := change(ctx, s.act("update agent", request.GetAgent()), s.Registry.Agents.UpdateAgent, &registryv1.UpdateAgentRequest{
		Name: request.GetAgent(), Etag: etag, HttpBaseUrl: request.HttpBaseUrl, OnServiceBus: request.OnServiceBus, Actor: actor(ctx),
	})
	return updated.GetAgent(), err
}

// RemoveAgent removes one agent.
func (s *Agents) RemoveAgent(ctx context.Context, request *operatorv1.RemoveAgentRequest) (*operatorv1.RemoveAgentResponse, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	_, err = change(ctx, s.act("remove agent", request.GetAgent()), s.Registry.Agents.RemoveAgent, &registryv1.RemoveAgentRequest{Name: request.GetAgent(), Etag: etag, Actor: actor(ctx)})
	return &operatorv1.RemoveAgentResponse{}, err
}

// ResolveIdentityConflict clears the conflict mark.
func (s *Agents) ResolveIdentityConflict(ctx context.Context, request *operatorv1.ResolveIdentityConflictRequest) (*registryv1.Agent, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	resolved, err := change(ctx, s.act("resolve identity conflict", request.GetAgent()), s.Registry.Agents.ResolveIdentityConflict, &registryv1.ResolveIdentityConflictRequest{Name: request.GetAgent(), Etag: etag, Actor: actor(ctx)})
	return resolved.GetAgent(), err
}

// ResetToken forgets the agent's token.
func (s *Agents) ResetToken(ctx context.Context, request *operatorv1.ResetTokenRequest) (*registryv1.Agent, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	reset, err := change(ctx, s.act("reset token of agent", request.GetAgent()), s.Registry.Agents.ResetToken, &registryv1.ResetTokenRequest{Name: request.GetAgent(), Etag: etag, Actor: actor(ctx)})
	return reset.GetAgent(), err
}

// VerifyHttp pings the agent's base URL and records what that showed.
func (s *Agents) VerifyHttp(ctx context.Context, request *operatorv1.VerifyHttpRequest) (*operatorv1.VerifyHttpResponse, error) {
	known, err := s.Registry.GetAgent(ctx, request.GetAgent())
	if err != nil {
		return nil, err
	}
	agent := known.GetAgent()
	if agent.GetHttpBaseUrl() == "" {
		return nil, fault.New(fault.InvalidArgument, "agent %q has no HTTP base URL to verify; set its httpBaseUrl first. Nothing was sent", agent.GetName()).
			WithAgent(agent.GetName()).WithField("/httpBaseUrl", "is not set")
	}
	finding, recorded, err := s.Verifier.Verify(ctx, agent)
	audit(ctx, s.act("verify HTTP", agent.GetName()), err)
	if err != nil {
		if passed := registryService.passed(err, agent.GetName()); passed != nil {
			return nil, passed
		}
		return nil, registryService.unavailable(err, agent.GetName(), "the ping's outcome (%s) could not be recorded, since the registry did not answer; verify again", finding.Detail)
	}
	return &operatorv1.VerifyHttpResponse{
		HttpBaseUrl: agent.GetHttpBaseUrl(), HttpVerification: recorded.GetAgent().GetHttpVerification(), AnsweredAs: finding.AnsweredAs, Recorded: recorded.GetRecorded(),
	}, nil
}

// ListUrlProposals derives URLs from what the agent reported.
func (s *Agents) ListUrlProposals(ctx context.Context, request *operatorv1.ListUrlProposalsRequest) (*operatorv1.ListUrlProposalsResponse, error) {
	found, err := s.Registry.Agents.ListUrlProposals(ctx, &registryv1.ListUrlProposalsRequest{Name: request.GetAgent()})
	return &operatorv1.ListUrlProposalsResponse{Proposals: found.GetProposals(), Reported: found.GetReported()}, registryService.read(agentFields.of(err), request.GetAgent())
}
