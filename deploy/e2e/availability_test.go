package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/commandcenter/fleet/agent/fleet"
	"github.com/commandcenter/fleet/deploy/local"
	"github.com/commandcenter/fleet/deploy/story"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
)

const (
	skewed = "BM-SKEW-01" // only the test sends its heartbeats
	other  = "BM-OTHER-02"
)

// A stream of heartbeats that come twice, in any order, and from a clock that is wrong by up to two hours either way, is a stream of
// an agent that is well: its server goes online once, and never offline.
func TestI6_I9_AMessyStreamIsNoTransition(t *testing.T) {
	system, client := availableSystem(t)
	sender := stateSender(t, system.Bus)
	send(t, sender, 1, 1)
	accept(t, client, skewed)
	until(t, skewed+" is online", func() bool { return online(t, client, skewed) })

	pace := time.NewTicker(300 * time.Millisecond)
	defer pace.Stop()
	for sequence := int64(2); sequence < 30; sequence++ { // three maximum ages
		send(t, sender, sequence, sequence-rand.Int64N(sequence), sequence, max(1, sequence-1))
		<-pace.C
		if !online(t, client, skewed) {
			t.Fatalf("offline after sequence %d", sequence)
		}
	}
	log := get(t, client, "/api/config/servers/"+skewed+"/offline-log")
	if rows := len(log.List("entries")); rows != 0 {
		t.Errorf("%d rows in the offline log: %s", rows, log.Raw)
	}
}

// Another replica takes over from one that stopped, and the story of the server goes on without a gap or a double row.
func TestAnotherReplicaTakesOver(t *testing.T) {
	system, client := availableSystem(t)
	heard(t, story.World{Client: client}, other)
	accept(t, client, other)
	until(t, other+" is online", func() bool { return online(t, client, other) })
	holder := get(t, client, "/api/availability/overview").Text("holder")
	if err := system.StopAvailability(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	until(t, "another holder", func() bool {
		now := get(t, client, "/api/availability/overview").Text("holder")
		return now != "" && now != holder
	})
	if err := system.Fleet.Silence(other); err != nil {
		t.Fatal(err)
	}
	until(t, other+" is offline", func() bool { return !online(t, client, other) })
	if rows := len(get(t, client, "/api/config/servers/"+other+"/offline-log").List("entries")); rows != 1 {
		t.Errorf("%d rows in the offline log", rows)
	}
}

func TestI17_BadMaintenanceIsRefusedByField(t *testing.T) {
	_, client := availableSystem(t)
	server := map[string]any{"name": "BM-WINDOW", "url": "https://bm.example.test"}
	if answer, err := client.Do(t.Context(), http.MethodPost, "/api/config/servers", server, ""); err != nil || answer.Status != 200 {
		t.Fatal(answer.Raw, err)
	}
	world := story.World{Client: client}
	windows := "/api/config/servers/BM-WINDOW/maintenance-windows"
	recurring := func(zone, rule, duration string) string {
		return fmt.Sprintf(`{"reason":"x","rule":{"start":"2026-03-29T02:30","zone":%q,"rule":%q,"duration":%q}}`, zone, rule, duration)
	}
	for _, test := range []struct {
		what, method, path, body, etag string
		status                         int
		pointer                        string
	}{
		{"unknown zone", "POST", windows, recurring("Europe/Atlantis", "FREQ=DAILY", "3600s"), "", 400, "/rule/zone"},
		{"zero duration", "POST", windows, recurring("UTC", "FREQ=DAILY", "0s"), "", 400, "/rule/duration"},
		{"over 7 days", "POST", windows, recurring("UTC", "FREQ=DAILY", "604801s"), "", 400, "/rule/duration"},
		{"never occurs", "POST", windows, recurring("UTC", "FREQ=MONTHLY;BYMONTHDAY=1;BYDAY=5MO", "3600s"), "", 400, "/rule/rule"},
		{"unsupported part", "POST", windows, recurring("UTC", "FREQ=DAILY;BYHOUR=3", "3600s"), "", 400, "/rule/rule"},
		{"COUNT with UNTIL", "POST", windows, recurring("UTC", "FREQ=DAILY;COUNT=2;UNTIL=20270101T000000Z", "3600s"), "", 400, "/rule/rule"},
		{"end before start", "POST", windows, `{"reason":"x","rule":{"startAt":"2030-01-02T00:00:00Z","endAt":"2030-01-01T00:00:00Z"}}`, "", 400, "/rule/endAt"},
		{"one-off over 7 days", "POST", windows, `{"reason":"x","rule":{"startAt":"2030-01-01T00:00:00Z","endAt":"2030-02-01T00:00:00Z"}}`, "", 400, "/rule/endAt"},
		{"no reason", "POST", windows, `{"rule":{"startAt":"2030-01-01T00:00:00Z","endAt":"2030-01-02T00:00:00Z"}}`, "", 400, "/reason"},
		{"preview of a bad one", "POST", windows + ":preview", `{"rule":{"start":"2026-03-29","zone":"UTC","rule":"FREQ=DAILY","duration":"60s"}}`, "", 400, "/rule/start"},
		{"unknown server", "GET", "/api/config/servers/ghost/maintenance", "", "", 404, ""},
		{"window of an unknown server", "POST", "/api/config/servers/ghost/maintenance-windows", recurring("UTC", "FREQ=DAILY", "60s"), "", 404, ""},
		{"unknown window", "DELETE", windows + "/4711", "", "", 404, ""},
		{"a window id that is no number", "DELETE", windows + "/x", "", "", 400, "#/id"},
		{"maintenance without an etag", "PUT", "/api/config/servers/BM-WINDOW/maintenance", `{"reason":"x"}`, "", 428, ""},
		{"maintenance with a stale etag", "PUT", "/api/config/servers/BM-WINDOW/maintenance", `{"reason":"x"}`, "4711", 412, ""},
		{"unknown field", "PUT", "/api/config/servers/BM-WINDOW/maintenance", `{"reasons":"x"}`, "0", 400, "/reasons"},
		{"unknown path", "PUT", "/api/availability/brakes/HEARTBEAT_PATH_PIGEON", `{"order":"BRAKE_ORDER_HOLD"}`, "x", 400, "#/path"},
	} {
		t.Run(test.what, func(t *testing.T) {
			status, header, raw := raw(t, world, test.method, test.path, test.body, test.etag)
			if status != test.status || header.Get("Content-Type") != "application/problem+json" || !strings.Contains(raw, test.pointer) {
				t.Errorf("%d %s %s", status, header.Get("Content-Type"), raw)
			}
		})
	}
	if listed := get(t, client, windows); len(listed.List("windows")) != 0 {
		t.Errorf("something was stored: %s", listed.Raw)
	}
}

// The gap of the spring night in Amsterdam is shown before anything is saved.
func TestAPreviewShowsTheGap(t *testing.T) {
	_, client := availableSystem(t)
	server := map[string]any{"name": "BM-WINDOW", "url": "https://bm.example.test"}
	if answer, err := client.Do(t.Context(), http.MethodPost, "/api/config/servers", server, ""); err != nil || answer.Status != 200 {
		t.Fatal(answer.Raw, err)
	}
	rule := map[string]any{"rule": map[string]any{"start": "2028-03-25T02:30", "zone": "Europe/Amsterdam", "rule": "FREQ=DAILY", "duration": "3600s"}}
	answer, err := client.Do(t.Context(), http.MethodPost, "/api/config/servers/BM-WINDOW/maintenance-windows:preview", rule, "")
	if err != nil || answer.Status != 200 {
		t.Fatal(answer.Raw, err)
	}
	occurrences := answer.List("occurrences")
	if len(occurrences) != 5 || occurrences[1]["startLocal"] != "2028-03-26T03:30:00+02:00" || occurrences[1]["startAt"] != "2028-03-26T01:30:00Z" {
		t.Errorf("%s", answer.Raw)
	}
}

// availableSystem is a system with two replicas of the availability service and times short enough to be watched.
func availableSystem(t *testing.T) (*local.System, story.Client) {
	t.Helper()
	return availableSystemAt(t, nil)
}

// availableSystemAt is one whose broker has a clock of its own; nil is this machine's.
func availableSystemAt(t *testing.T, clock broker.Clock) (*local.System, story.Client) {
	t.Helper()
	system, err := local.Start(t.Context(), local.Config{
		Dir: t.TempDir(), REST: "127.0.0.1:0", AnyPorts: true, HeartbeatInterval: time.Second, SweepInterval: 300 * time.Millisecond, AvailabilityReplicas: 2,
		BrokerClock: clock,
		// The third speaks on: where nobody is heard at all, we are blind.
		Agents: []fleet.Agent{{Name: other, ServiceBus: true}, {Name: "BM-THIRD-03", ServiceBus: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := system.Close(); err != nil {
			t.Error(err)
		}
	})
	return system, story.Client{Base: system.REST, HTTP: &http.Client{Timeout: 20 * time.Second}}
}

func get(t *testing.T, client story.Client, path string) story.Answer {
	t.Helper()
	answer, err := client.Do(t.Context(), http.MethodGet, path, nil, "")
	if err != nil || answer.Status != http.StatusOK {
		t.Fatal(path, answer.Status, answer.Raw, err)
	}
	return answer
}

func online(t *testing.T, client story.Client, server string) bool {
	t.Helper()
	return get(t, client, "/api/availability/servers/"+server).Text("online") == "true"
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatal("not in time: ", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// accept waits until the agent was heard, and accepts it with a new server.
func accept(t *testing.T, client story.Client, agent string) {
	t.Helper()
	until(t, agent+" is accepted", func() bool {
		known, err := client.Do(t.Context(), http.MethodGet, "/api/config/agents/"+agent, nil, "")
		if err != nil || known.Status != http.StatusOK {
			return false
		}
		server := map[string]any{"createServer": map[string]any{"url": "https://bm.example.test"}}
		answer, err := client.Do(t.Context(), http.MethodPost, "/api/config/agents/"+agent+":accept", server, known.Text("etag"))
		return err == nil && answer.Status == http.StatusOK
	})
}

func stateSender(t *testing.T, bus string) *azservicebus.Sender {
	t.Helper()
	client, err := azservicebus.NewClientFromConnectionString(bus, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.WithoutCancel(t.Context())) })
	sender, err := client.NewSender("agent-state", nil)
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

// send sends heartbeats of these sequences, in this order, each with a clock of its own.
func send(t *testing.T, sender *azservicebus.Sender, sequences ...int64) {
	t.Helper()
	kind := "application/json"
	for _, sequence := range sequences {
		clock := time.Now().Add(time.Duration(rand.Int64N(int64(4*time.Hour))) - 2*time.Hour).UTC().Format(time.RFC3339)
		body := fmt.Appendf(nil, `{"name":%q,"hostname":"skew","bootId":"boot","sequence":"%d","reportedAt":%q}`, skewed, sequence, clock)
		if err := sender.SendMessage(t.Context(), &azservicebus.Message{Body: body, ContentType: &kind}, nil); err != nil {
			t.Fatal(err)
		}
	}
}
