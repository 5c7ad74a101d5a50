package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/commandcenter/fleet/agent/fleet"
	"github.com/commandcenter/fleet/deploy/local"
	"github.com/commandcenter/fleet/deploy/story"
)

// An agent waits on the session of its own name, blanks and all. It is one agent with the one of the trimmed name, and gets its commands.
func TestI13_AnAgentWithBlanksAroundItsNameGetsItsCommands(t *testing.T) {
	agents := map[string]string{"SP-1 ": "SP-1", " SP-2": "sp-2", "\u00a0SP-3\u00a0\u2003": "SP-3", "SP-4": "SP-4"}
	var members []fleet.Agent
	for name := range agents {
		members = append(members, fleet.Agent{Name: name, ServiceBus: true})
	}
	members = append(members, fleet.Agent{Name: "SP-5 ", HTTP: true}, fleet.Agent{Name: " SP-6 ", ServiceBus: true, HTTP: true})
	system, err := local.Start(t.Context(), local.Config{
		Dir: t.TempDir(), REST: "127.0.0.1:0", AnyPorts: true, HeartbeatInterval: time.Second, WriteBudget: 10 * time.Second, Agents: members,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := system.Close(); err != nil {
			t.Error("stopping:", err)
		}
	})
	world := story.World{Client: story.Client{Base: system.REST, HTTP: &http.Client{Timeout: 30 * time.Second}}}
	for name, asked := range agents {
		heard(t, world, asked)
		shown := answered(t, world, http.MethodGet, "/api/config/agents/"+asked, nil, "")
		if shown.Text("reportedName") != name {
			t.Errorf("%q is shown as reported in %q", name, shown.Text("reportedName"))
		}
		server := map[string]any{"createServer": map[string]any{"url": "https://x.example.test"}}
		answered(t, world, http.MethodPost, "/api/config/agents/"+asked+":accept", server, shown.Text("etag"))
		answered(t, world, http.MethodPost, "/api/agents/"+asked+"/services/W3SVC/restart", nil, "")
		answered(t, world, http.MethodGet, "/api/agents/"+asked+"/services", nil, "")
	}

	// Over HTTP: one that was added by hand, and one whose heartbeats said its spelling.
	for name, asked := range map[string]string{"SP-5 ": "SP-5", " SP-6 ": "SP-6"} {
		base, err := system.Fleet.HTTPBaseURL(name)
		if err != nil {
			t.Fatal(err)
		}
		added := map[string]any{"name": asked, "httpBaseUrl": base, "createServer": map[string]any{"url": "https://x.example.test"}}
		if asked == "SP-6" {
			heard(t, world, asked)
			shown := answered(t, world, http.MethodGet, "/api/config/agents/"+asked, nil, "")
			shown = answered(t, world, http.MethodPost, "/api/config/agents/"+asked+":accept", map[string]any{"createServer": added["createServer"]}, shown.Text("etag"))
			answered(t, world, http.MethodPatch, "/api/config/agents/"+asked, map[string]any{"httpBaseUrl": base, "onServiceBus": false}, shown.Text("agent", "etag"))
		} else {
			answered(t, world, http.MethodPost, "/api/config/agents", added, "")
		}
		answered(t, world, http.MethodPost, "/api/config/agents/"+asked+":verifyHttp", map[string]any{}, "")
		answered(t, world, http.MethodPost, "/api/agents/"+asked+"/services/W3SVC/restart", nil, "")
		answered(t, world, http.MethodGet, "/api/agents/"+asked+"/services", nil, "")
	}
}
