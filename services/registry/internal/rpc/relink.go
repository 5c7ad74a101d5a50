package rpc

import (
	"context"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// relinkPart is how many agents one call relinks when all are asked for.
const relinkPart = 1000

// RelinkAgent links an agent that is astray to the server of its name.
func (s *Agents) RelinkAgent(ctx context.Context, request *registryv1.RelinkAgentRequest) (*registryv1.RelinkAgentResponse, error) {
	name, err := parseName("/agent", request.GetName())
	if err != nil {
		return nil, err
	}
	agent, aside, err := s.Store.Relink(ctx, name, request.GetEtag(), request.GetActor())
	if err != nil {
		return nil, mapped(err, name.Spelling)
	}
	return &registryv1.RelinkAgentResponse{Agent: relinkedMessage(agent, aside)}, nil
}

func relinkedMessage(agent store.Agent, aside store.SetAside) *registryv1.Agent {
	message := agentMessage(agent)
	message.LinkSetAside = aside.Name.Spelling
	return message
}

// BatchRelinkAgents relinks many agents; one item's failure leaves the others alone.
func (s *Agents) BatchRelinkAgents(ctx context.Context, request *registryv1.BatchRelinkAgentsRequest) (*registryv1.BatchRelinkAgentsResponse, error) {
	switch {
	case request.GetAll() && len(request.GetItems()) > 0:
		return nil, fault.Invalid("/all", "must not be given beside items: relink those, or all agents that are astray")
	case !request.GetAll() && len(request.GetItems()) == 0:
		return nil, fault.Invalid("/items", "are required: up to 1,000 agents with their etags, or all = true for all that are astray")
	case !request.GetAll() && request.GetPageToken() != "":
		return nil, fault.Invalid("/pageToken", "is for all = true only")
	}
	ctx = s.Store.SettleNames(ctx)
	response := &registryv1.BatchRelinkAgentsResponse{}
	answer := func(name string, agent *registryv1.Agent, err error) {
		result := &registryv1.BatchAcceptResult{Name: name, Agent: agent}
		if err != nil {
			refused := reason(err)
			result.Reason, result.Detail = string(refused.Reason), refused.Detail
		}
		response.Results = append(response.Results, result)
	}
	s.relinkItems(ctx, request, answer)
	if !request.GetAll() {
		return response, nil
	}
	strays, next, err := s.strays(ctx, request.GetPageToken())
	if err != nil {
		return nil, err
	}
	response.NextPageToken = next
	for _, stray := range strays {
		agent, aside, err := s.Store.RelinkStray(ctx, stray.Name, request.GetActor())
		if err != nil {
			answer(stray.Name.Spelling, nil, err)
			continue
		}
		answer(stray.Name.Spelling, relinkedMessage(agent, aside), nil)
	}
	return response, nil
}

// relinkItems relinks the agents that a batch names, each with its etag. Of two that hold each other's rows, relinking the first sets the
// second one's link aside: its etag, as the operator saw it, is not stale for what the batch itself did.
func (s *Agents) relinkItems(ctx context.Context, request *registryv1.BatchRelinkAgentsRequest, answer func(string, *registryv1.Agent, error)) {
	asides := map[string]store.SetAside{}
	for _, item := range request.GetItems() {
		name, err := parseName("/agent", item.GetName())
		if err != nil {
			answer(item.GetName(), nil, err)
			continue
		}
		etag := item.GetEtag()
		if aside, known := asides[name.Key]; known && aside.Before == etag {
			etag = aside.After
		}
		agent, aside, err := s.Store.Relink(ctx, name, etag, request.GetActor())
		if err != nil {
			answer(item.GetName(), nil, mapped(err, name.Spelling))
			continue
		}
		asides[aside.Name.Key] = aside
		answer(item.GetName(), relinkedMessage(agent, aside), nil)
	}
}

// strays are agents that are astray, and where the next ones begin.
func (s *Agents) strays(ctx context.Context, token string) ([]store.Stray, string, error) {
	const question = "astray agents"
	_, after, err := page(relinkPart, token, question)
	if err != nil {
		return nil, "", err
	}
	if after == nil {
		after = &store.Cursor{}
	}
	strays, err := s.Store.Strays(ctx, relinkPart+1, after.Key)
	if err != nil {
		return nil, "", mapped(err, "")
	}
	next := ""
	if len(strays) > relinkPart {
		strays = strays[:relinkPart]
		if next, err = nextPage(&store.Cursor{Key: strays[relinkPart-1].Key}, question); err != nil {
			return nil, "", err
		}
	}
	return strays, next, nil
}

// CountAstrayAgents counts the agents that have to be relinked.
func (s *Agents) CountAstrayAgents(ctx context.Context, _ *registryv1.CountAstrayAgentsRequest) (*registryv1.CountAstrayAgentsResponse, error) {
	agents, relinkable, err := s.Store.Astray(ctx)
	if err != nil {
		return nil, mapped(err, "")
	}
	return &registryv1.CountAstrayAgentsResponse{Agents: agents, Relinkable: relinkable}, nil
}
