package rpc

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// relinking is a registry that relinks, and sets an agent's link aside for each.
type relinking struct {
	registryv1.AgentRegistryClient
	agents, relinkable int64
}

func (relinking) RelinkAgent(_ context.Context, request *registryv1.RelinkAgentRequest, _ ...grpc.CallOption) (*registryv1.RelinkAgentResponse, error) {
	return &registryv1.RelinkAgentResponse{Agent: &registryv1.Agent{Name: request.GetName(), LinkSetAside: "other than " + request.GetName()}}, nil
}

func (r relinking) BatchRelinkAgents(ctx context.Context, request *registryv1.BatchRelinkAgentsRequest, _ ...grpc.CallOption) (*registryv1.BatchRelinkAgentsResponse, error) {
	response := &registryv1.BatchRelinkAgentsResponse{}
	for _, item := range request.GetItems() {
		done, _ := r.RelinkAgent(ctx, &registryv1.RelinkAgentRequest{Name: item.GetName()})
		response.Results = append(response.Results, &registryv1.BatchAcceptResult{Name: item.GetName(), Agent: done.GetAgent()})
	}
	return response, nil
}

func (r relinking) CountAstrayAgents(context.Context, *registryv1.CountAstrayAgentsRequest, ...grpc.CallOption) (*registryv1.CountAstrayAgentsResponse, error) {
	return &registryv1.CountAstrayAgentsResponse{Agents: r.agents, Relinkable: r.relinkable}, nil
}

// Each agent whose link is set aside has an audit line of its own: its link was changed by an operator too.
func TestEachAgentSetAsideIsAudited(t *testing.T) {
	var log bytes.Buffer
	agents := &Agents{Registry: Registry{Agents: relinking{}}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	if _, err := agents.RelinkAgent(t.Context(), &operatorv1.RelinkAgentRequest{Agent: "SP-1", Etag: "1-1"}); err != nil {
		t.Fatal(err)
	}
	items := []*operatorv1.BatchAcceptItem{{Name: "SP-2", Etag: "1-1"}, {Name: "SP-3", Etag: "1-1"}}
	if _, err := agents.BatchRelinkAgents(t.Context(), &operatorv1.BatchRelinkAgentsRequest{Items: items}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SP-1", "SP-2", "SP-3"} {
		if lines := strings.Count(log.String(), `agent="other than `+name+`"`); lines != 1 {
			t.Errorf("%d audit lines say that the link of the other agent was set aside for %s:\n%s", lines, name, &log)
		}
	}
}

func TestTheBannerSaysWhatToDoWithThoseThatCannotBeRelinked(t *testing.T) {
	for _, test := range []struct {
		agents, relinkable int64
		says, saysNot      string
	}{
		{3, 3, ":relink", "remove it"}, {3, 0, "reject the agent, and remove it", ":relink"}, {3, 1, "For 2 of them it has none", "?"}, {1, 1, "?astray=true", "remove"},
	} {
		_, banners := Registry{Agents: relinking{agents: test.agents, relinkable: test.relinkable}}.astray(t.Context())
		if len(banners) != 1 || !strings.Contains(banners[0], test.says) || (test.saysNot != "?" && strings.Contains(banners[0], test.saysNot)) {
			t.Errorf("%d, %d: %q", test.agents, test.relinkable, banners)
		}
	}
}
