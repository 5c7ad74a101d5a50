package registry_test

import (
	"strings"
	"testing"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// What cannot be seen would make two agents that look the same, so a name that holds it makes none; the answer says which character.
func TestI17_ANewNameIsRefusedForWhatIsNotSeen(t *testing.T) {
	c := serve(t)
	names := []string{"SP\u200b-1", "SP-1\u202e", "\ufeffSP-1", "SP-1\u2069", ".", "..", "SP\u00a0-1", "SP-1"}
	response, err := c.agents.RecordHeartbeats(t.Context(), beats(names...))
	if err != nil {
		t.Fatal(err)
	}
	for i, says := range []string{"U+200B", "U+202E", "U+FEFF", "U+2069", "dots", "dots", "U+00A0", ""} {
		result := response.GetResults()[i]
		refused := result.GetResult() == registryv1.HeartbeatResult_HEARTBEAT_RESULT_INVALID
		if refused != (says != "") || !strings.Contains(result.GetDescription(), says) || (refused && result.GetField() != "heartbeat.name") {
			t.Errorf("%q: %v, want %q", names[i], result, says)
		}
	}
	list, err := c.agents.ListAgents(t.Context(), &registryv1.ListAgentsRequest{})
	if err != nil || len(list.GetAgents()) != 1 {
		t.Fatalf("%v %v", list, err)
	}
	for _, name := range names[:7] {
		_, err := c.servers.CreateServer(t.Context(), &registryv1.CreateServerRequest{Name: name, Url: "https://x.example.test", Actor: "op"})
		refused(t, err, fault.InvalidArgument, "/name")
		_, err = c.agents.AddAgent(t.Context(), &registryv1.AddAgentRequest{Name: name, HttpBaseUrl: "http://10.0.0.1", CreateServer: &registryv1.NewServer{Url: "https://x.example.test"}, Actor: "op"})
		refused(t, err, fault.InvalidArgument, "/name")
	}
}

// The other texts of a heartbeat are not taken from a new agent either. One that is known is alive whatever it says: it goes on, marked.
func TestI7_ATextThatIsNotShownCostsNoKnownAgentItsHeartbeat(t *testing.T) {
	c := serve(t)
	c.record(t, beats("SP-1"))
	for _, known := range []string{"SP-1", "SP-NEW"} {
		request := beats(known, known, known)
		for i, set := range []func(*registryv1.ObservedHeartbeat){
			func(h *registryv1.ObservedHeartbeat) { h.Heartbeat.Hostname = "host\n" },
			func(h *registryv1.ObservedHeartbeat) { h.Heartbeat.AgentVersion = "1.2\x1b[2J" },
			func(h *registryv1.ObservedHeartbeat) { h.Heartbeat.HttpBaseUrl = "http://h\u202e:1" },
		} {
			request.Heartbeats[i].Heartbeat.Sequence = int64(i) + 2
			set(request.Heartbeats[i])
		}
		response, err := c.agents.RecordHeartbeats(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range [][2]string{{"heartbeat.hostname", "U+000A"}, {"heartbeat.agent_version", "U+001B"}, {"heartbeat.http_base_url", "U+202E"}} {
			result := response.GetResults()[i]
			if refused := result.GetField() == want[0] && strings.Contains(result.GetDescription(), want[1]); refused != (known == "SP-NEW") {
				t.Errorf("%s: %v, want %s", known, result, want)
			}
		}
	}
	list, err := c.agents.ListAgents(t.Context(), &registryv1.ListAgentsRequest{})
	if err != nil || len(list.GetAgents()) != 1 || len(list.GetAgents()[0].GetProblems()) == 0 {
		t.Fatalf("%v %v", list, err)
	}
}

func TestI17_TextsOfServersAreChecked(t *testing.T) {
	c := serve(t)
	for what, row := range map[string]struct {
		request *registryv1.CreateServerRequest
		field   string
	}{
		"a type with a control character": {&registryv1.CreateServerRequest{Name: "S", Url: "https://x", Type: "A\tB"}, "/type"},
		"a URL with an empty label":       {&registryv1.CreateServerRequest{Name: "S", Url: "https://a..b/"}, "/url"},
		"a URL with an empty A-label":     {&registryv1.CreateServerRequest{Name: "S", Url: "http://xn--/"}, "/url"},
		"a URL that is not seen":          {&registryv1.CreateServerRequest{Name: "S", Url: "https://x\u200b.example.test"}, "/url"},
	} {
		row.request.Actor = "op"
		_, err := c.servers.CreateServer(t.Context(), row.request)
		t.Log(what)
		refused(t, err, fault.InvalidArgument, row.field)
	}
}
