package rpc

import (
	"context"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// AddAgent adds an HTTP agent by hand.
func (s *Agents) AddAgent(ctx context.Context, request *registryv1.AddAgentRequest) (*registryv1.AddAgentResponse, error) {
	name, err := parseNewName("/name", request.GetName())
	if err != nil {
		return nil, err
	}
	base, err := parseBaseURL("/httpBaseUrl", request.GetHttpBaseUrl())
	if err != nil {
		return nil, err
	}
	server, err := newServer(request.GetCreateServer())
	if err != nil {
		return nil, err
	}
	agent, created, err := s.Store.Add(ctx, name, base, server, request.GetActor())
	if err != nil {
		return nil, mapped(err, name.Spelling)
	}
	return &registryv1.AddAgentResponse{Agent: agentMessage(agent), ServerCreated: created}, nil
}

// AcceptAgent accepts one agent.
func (s *Agents) AcceptAgent(ctx context.Context, request *registryv1.AcceptAgentRequest) (*registryv1.AcceptAgentResponse, error) {
	name, err := parseName("/agent", request.GetName())
	if err != nil {
		return nil, err
	}
	server, err := newServer(request.GetCreateServer())
	if err != nil {
		return nil, err
	}
	agent, created, err := s.Store.Accept(ctx, store.Acceptance{
		Name: name, Etag: request.GetEtag(), ServerName: request.GetServerName(), Create: server, Actor: request.GetActor(),
	})
	if err != nil {
		return nil, mapped(err, name.Spelling)
	}
	return &registryv1.AcceptAgentResponse{Agent: agentMessage(agent), ServerCreated: created, Warnings: warnings(agent)}, nil
}

// warnings tells what an operator who just accepted an agent should mind.
func warnings(agent store.Agent) []string {
	var found []string
	if !agent.OnServiceBus && agent.HTTPBaseURL == "" {
		found = append(found, "the agent has no transport: it is not on Service Bus and has no HTTP base URL, so no command can reach it yet; set its httpBaseUrl")
	}
	if !agent.ConflictAt.IsZero() {
		found = append(found, "two machines seem to use this agent's name: writes are refused until that is resolved")
	}
	return found
}

// BatchAcceptAgents accepts many agents whose servers exist; one item's failure leaves the others alone.
func (s *Agents) BatchAcceptAgents(ctx context.Context, request *registryv1.BatchAcceptAgentsRequest) (*registryv1.BatchAcceptAgentsResponse, error) {
	ctx = s.Store.SettleNames(ctx)
	response := &registryv1.BatchAcceptAgentsResponse{}
	for _, item := range request.GetItems() {
		result := &registryv1.BatchAcceptResult{Name: item.GetName()}
		accepted, err := s.AcceptAgent(ctx, &registryv1.AcceptAgentRequest{Name: item.GetName(), Etag: item.GetEtag(), Actor: request.GetActor()})
		if err != nil {
			refused := reason(err)
			result.Reason, result.Detail = string(refused.Reason), refused.Detail
		} else {
			result.Agent = accepted.GetAgent()
		}
		response.Results = append(response.Results, result)
	}
	return response, nil
}

// RejectAgent rejects one agent.
func (s *Agents) RejectAgent(ctx context.Context, request *registryv1.RejectAgentRequest) (*registryv1.RejectAgentResponse, error) {
	name, err := parseName("/agent", request.GetName())
	if err != nil {
		return nil, err
	}
	agent, err := s.Store.Reject(ctx, name, request.GetEtag(), request.GetActor())
	if err != nil {
		return nil, mapped(err, name.Spelling)
	}
	return &registryv1.RejectAgentResponse{Agent: agentMessage(agent)}, nil
}

// UpdateAgent changes how an agent is reached.
func (s *Agents) UpdateAgent(ctx context.Context, request *registryv1.UpdateAgentRequest) (*registryv1.UpdateAgentResponse, error) {
	name, err := parseName("/agent", request.GetName())
	if err != nil {
		return nil, err
	}
	reach := store.Reach{OnServiceBus: request.OnServiceBus}
	if request.HttpBaseUrl != nil {
		base := request.GetHttpBaseUrl()
		if base != "" {
			if base, err = parseBaseURL("/httpBaseUrl", base); err != nil {
				return nil, err
			}
		}
		reach.HTTPBaseURL = &base
	}
	agent, err := s.Store.UpdateReach(ctx, name, request.GetEtag(), reach)
	if err != nil {
		return nil, mapped(err, name.Spelling)
	}
	return &registryv1.UpdateAgentResponse{Agent: agentMessage(agent)}, nil
}

// RemoveAgent removes one agent.
func (s *Agents) RemoveAgent(ctx context.Context, request *registryv1.RemoveAgentRequest) (*registryv1.RemoveAgentResponse, error) {
	name, err := parseName("/agent", request.GetName())
	if err != nil {
		return nil, err
	}
	if err := s.Store.Remove(ctx, name, request.GetEtag()); err != nil {
		return nil, mapped(err, name.Spelling)
	}
	return &registryv1.RemoveAgentResponse{}, nil
}

// ResolveIdentityConflict clears the mark of one agent.
func (s *Agents) ResolveIdentityConflict(ctx context.Context, request *registryv1.ResolveIdentityConflictRequest) (*registryv1.ResolveIdentityConflictResponse, error) {
	name, err := parseName("/agent", request.GetName())
	if err != nil {
		return nil, err
	}
	agent, err := s.Store.ResolveConflict(ctx, name, request.GetEtag())
	if err != nil {
		return nil, mapped(err, name.Spelling)
	}
	return &registryv1.ResolveIdentityConflictResponse{Agent: agentMessage(agent)}, nil
}

// ResetToken forgets the token of one agent.
func (s *Agents) ResetToken(ctx context.Context, request *registryv1.ResetTokenRequest) (*registryv1.ResetTokenResponse, error) {
	name, err := parseName("/agent", request.GetName())
	if err != nil {
		return nil, err
	}
	agent, err := s.Store.ResetToken(ctx, name, request.GetEtag())
	if err != nil {
		return nil, mapped(err, name.Spelling)
	}
	return &registryv1.ResetTokenResponse{Agent: agentMessage(agent)}, nil
}
