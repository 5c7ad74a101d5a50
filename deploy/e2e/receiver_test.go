package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/commandcenter/fleet/deploy/story"
)

// A machine whose agent sends heartbeats and answers no command is shown as such, until one is answered.
func TestAnAgentThatAnswersNoCommandIsShown(t *testing.T) {
	world := world(t)
	heard(t, world, story.Bus)
	shown := get(t, world.Client, "/api/config/agents/"+story.Bus)
	accepted, err := world.Client.Do(t.Context(), http.MethodPost, "/api/config/agents/"+story.Bus+":accept",
		map[string]any{"createServer": map[string]any{"url": "https://x.example.test"}}, shown.Text("etag"))
	if err != nil || accepted.Status != http.StatusOK {
		t.Fatal(accepted.Raw, err)
	}
	suspect := func() bool {
		for _, agent := range get(t, world.Client, "/api/agents").List("agents") {
			if agent["name"] == story.Bus {
				return agent["receiverSuspect"] == true
			}
		}
		t.Fatalf("%s is not listed", story.Bus)
		return false
	}
	services := "/api/agents/" + story.Bus + "/services"
	if read := get(t, world.Client, services); read.Status != http.StatusOK || suspect() {
		t.Fatalf("it answers: %s", read.Raw)
	}
	if err := world.Fleet.Mute(story.Bus); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		read, err := world.Client.Do(t.Context(), http.MethodGet, services, nil, "")
		if err != nil || read.Status != http.StatusServiceUnavailable || read.Text("reason") != "READ_TIMEOUT" {
			t.Fatalf("it does not answer: %s %v", read.Raw, err)
		}
	}
	until(t, "it is suspect", suspect)
	route := get(t, world.Client, "/api/agents/"+story.Bus+"/route")
	if route.Text("receiverSuspect") != "true" || route.Text("commandReceiver", "unanswered") != "2" || route.Text("transport") != "TRANSPORT_SERVICE_BUS" ||
		!strings.Contains(route.Text("warning"), "the last 2 commands over Service Bus were not answered") {
		t.Errorf("the route says %s", route.Raw)
	}
	if err := world.Fleet.Answer(story.Bus); err != nil { // the late answers are answers too
		t.Fatal(err)
	}
	until(t, "it is suspect no more", func() bool { return !suspect() })
}
