package rpc

import (
	"context"
	"fmt"
	"math"
	"time"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// countTimeout is how long a list or an overview waits for a count that it only shows.
const countTimeout = time.Second

// astray counts the agents that have to be relinked, and says so for people. -1: it could not be counted.
func (r Registry) astray(ctx context.Context) (agents int32, banners []string) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	counted, err := r.Agents.CountAstrayAgents(ctx, &registryv1.CountAstrayAgentsRequest{})
	switch {
	case err != nil:
		return -1, nil
	case counted.GetAgents() == 0:
		return 0, nil
	}
	return int32(min(counted.GetAgents(), math.MaxInt32)), []string{astrayBanner(counted.GetAgents(), counted.GetRelinkable())}
}

// astrayBanner says what to do with agents that are astray: with those that can be relinked, and with the others.
func astrayBanner(agents, relinkable int64) string {
	said := fmt.Sprintf("%s linked to a row of TblServer that is gone or has another name, so Online of its server follows no heartbeat: GET /api/config/agents?astray=true.", number(agents))
	if relinkable > 0 {
		said += fmt.Sprintf(" For %d of them TblServer has one row of their name: relink one (POST /api/config/agents/{agent}:relink) or all (POST /api/config/agents:relink with all).", relinkable)
	}
	if others := agents - relinkable; others > 0 {
		said += fmt.Sprintf(" For %d of them it has none, or several: make the row, or rename all but one, and relink; of a server that is decommissioned, reject the agent, and remove it.", others)
	}
	return said
}

func number(agents int64) string {
	if agents == 1 {
		return "1 agent is"
	}
	return fmt.Sprintf("%d agents are", agents)
}

// RelinkAgent links an agent that is astray to the server of its name.
func (s *Agents) RelinkAgent(ctx context.Context, request *operatorv1.RelinkAgentRequest) (*registryv1.Agent, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	relinked, err := change(ctx, s.act("relink agent", request.GetAgent()), s.Registry.Agents.RelinkAgent, &registryv1.RelinkAgentRequest{Name: request.GetAgent(), Etag: etag, Actor: actor(ctx)})
	s.auditSetAside(ctx, relinked.GetAgent())
	return relinked.GetAgent(), err
}

// auditSetAside writes the line of an agent whose link was set aside so that another could be relinked.
func (s *Agents) auditSetAside(ctx context.Context, relinked *registryv1.Agent) {
	if aside := relinked.GetLinkSetAside(); aside != "" {
		audit(ctx, s.act(fmt.Sprintf("set the agent's link aside, to relink agent %q", relinked.GetName()), aside), nil)
	}
}

// BatchRelinkAgents relinks many agents.
func (s *Agents) BatchRelinkAgents(ctx context.Context, request *operatorv1.BatchRelinkAgentsRequest) (*operatorv1.BatchRelinkAgentsResponse, error) {
	ask := &registryv1.BatchRelinkAgentsRequest{All: request.GetAll(), PageToken: request.GetPageToken(), Actor: actor(ctx)}
	for _, item := range request.GetItems() {
		ask.Items = append(ask.Items, &registryv1.BatchAcceptItem{Name: item.GetName(), Etag: item.GetEtag()})
	}
	does := fmt.Sprintf("relink %d agents", len(ask.GetItems()))
	if ask.GetAll() {
		does = "relink all agents that are astray"
	}
	answered, err := change(ctx, s.act(does, ""), s.Registry.Agents.BatchRelinkAgents, ask)
	if err != nil {
		return nil, err
	}
	response := &operatorv1.BatchRelinkAgentsResponse{NextPageToken: answered.GetNextPageToken()}
	for _, result := range answered.GetResults() {
		var refused error
		if result.GetReason() != "" {
			refused = fault.New(fault.Reason(result.GetReason()), "%s", result.GetDetail())
		}
		audit(ctx, s.act("relink agent", result.GetName()), refused)
		s.auditSetAside(ctx, result.GetAgent())
		response.Results = append(response.Results, &operatorv1.BatchAcceptResult{
			Name: result.GetName(), Agent: result.GetAgent(), Reason: result.GetReason(), Detail: result.GetDetail(),
		})
	}
	return response, nil
}
