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
}
