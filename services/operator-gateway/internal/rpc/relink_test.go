package rpc

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
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

// watched is an availability service whose watch tells two overviews, and one server between them.
type watched struct {
	availabilityv1.AvailabilityClient
	grpc.ServerStreamingClient[availabilityv1.WatchAvailabilityResponse]
	events *[]*availabilityv1.WatchAvailabilityResponse
}

func (w watched) WatchAvailability(context.Context, *availabilityv1.WatchAvailabilityRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[availabilityv1.WatchAvailabilityResponse], error) {
	return w, nil
}

func (w watched) Recv() (*availabilityv1.WatchAvailabilityResponse, error) {
	if len(*w.events) == 0 {
		return nil, io.EOF
	}
	event := (*w.events)[0]
	*w.events = (*w.events)[1:]
	return event, nil
}

type watcher struct {
	grpc.ServerStreamingServer[availabilityv1.WatchAvailabilityResponse]
	ctx  context.Context
	sent []*availabilityv1.WatchAvailabilityResponse
}

func (w *watcher) Context() context.Context { return w.ctx }

func (w *watcher) Send(event *availabilityv1.WatchAvailabilityResponse) error {
	w.sent = append(w.sent, event)
	return nil
}

// A watch tells the same overview as asking for it does.
func TestAWatchTellsOfAgentsThatAreAstray(t *testing.T) {
	overview := func() *availabilityv1.WatchAvailabilityResponse {
		return &availabilityv1.WatchAvailabilityResponse{Event: &availabilityv1.WatchAvailabilityResponse_Overview{Overview: &availabilityv1.Overview{Banners: []string{"its own"}}}}
	}
	server := &availabilityv1.WatchAvailabilityResponse{Event: &availabilityv1.WatchAvailabilityResponse_Server{Server: &availabilityv1.ServerAvailability{}}}
	events := []*availabilityv1.WatchAvailabilityResponse{overview(), server, overview()}
	s := &Availability{Service: watched{events: &events}, Registry: Registry{Agents: relinking{agents: 2, relinkable: 2}}}
	to := &watcher{ctx: t.Context()}
	_ = s.WatchAvailability(nil, to) // ends with the service's watch
	if len(to.sent) != 3 {
		t.Fatal(to.sent)
	}
	for _, i := range []int{0, 2} {
		if banners := to.sent[i].GetOverview().GetBanners(); len(banners) != 2 || banners[0] != "its own" || !strings.Contains(banners[1], "2 agents are linked") {
			t.Errorf("event %d: %q", i, banners)
		}
	}
}
