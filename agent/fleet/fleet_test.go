package fleet_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/commandcenter/fleet/agent/fleet"
	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

// claimRenewer may outlive its link: when many at once use a link of the SDK that was lost, each opens it anew, and closing ends the
// renewals of claims of the last one only.
const claimRenewer = "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal.(*Namespace).startNegotiateClaimRenewer.func3"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(claimRenewer)) }

func bus(t *testing.T) *emu.Emulator {
	t.Helper()
	session := emu.SubscriptionProperties{RequiresSession: true}
	e, err := emu.Start(emu.Config{UserConfig: emu.UserConfig{Namespaces: []emu.Namespace{{Topics: []emu.Topic{
		{Name: "agent-state", Subscriptions: []emu.Subscription{{Name: "commandcenter"}}},
		{Name: "agent-commands", Subscriptions: []emu.Subscription{{Name: "agents", Properties: session}}},
		{Name: "agent-replies", Subscriptions: []emu.Subscription{{Name: "gateways", Properties: session}}},
	}}}}}, emu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestAFleetOfEveryKind(t *testing.T) {
	e := bus(t)
	f, err := fleet.Start(t.Context(), fleet.Config{
		ConnectionString: e.ConnectionString(), AgentsPerConnection: 4,
		Agents: append(fleet.Numbered(10, fleet.Agent{Name: "SIM-", ServiceBus: true}),
			fleet.Agent{Name: "BOTH", ServiceBus: true, HTTP: true, Silent: true}, fleet.Agent{Name: "WEB", HTTP: true}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := f.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	heard := func(want int) {
		t.Helper()
		for ctx.Err() == nil {
			if c, err := e.Counts("agent-state", "commandcenter"); err == nil && c.Active == want {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatalf("%d heartbeats were never heard", want)
	}
	heard(10) // all but the silent one and the one on HTTP alone
	if err := f.Wake("both"); err != nil {
		t.Error(err)
	}
	heard(11)
	base, err := f.HTTPBaseURL("WEB")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		response, err := http.Post(base+"/agent/v1/commands", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	if n, err := f.HTTPCommands("web"); err != nil || n != 2 {
		t.Errorf("%d commands came in over HTTP, %v", n, err)
	}
	if _, err := f.HTTPBaseURL("SIM-0001"); err == nil {
		t.Error("an agent without HTTP has a base URL")
	}
	if _, err := f.Host("nobody"); err == nil {
		t.Error("there is a host of no agent")
	}
}

func TestControl(t *testing.T) {
	f, err := fleet.Start(t.Context(), fleet.Config{Agents: []fleet.Agent{{Name: "WEB 1", HTTP: true}}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	control := f.Control()
	for path, want := range map[string]int{
		"/agents/web%201/silence": 204, "/agents/WEB%201/wake": 204, "/agents/WEB%201/mute": 204, "/agents/WEB%201/answer": 204,
		"/agents/WEB%201/hang?unit=Spooler": 204, "/agents/WEB%201/release?unit=Spooler": 204,
		"/agents/WEB%201/fail?subject=Spooler&detail=no": 204, "/agents/nobody/silence": 404, "/agents/WEB%201/explode": 404,
	} {
		w := httptest.NewRecorder()
		control.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
	host, err := f.Host("web 1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := host.StopService(t.Context(), "Spooler"); err == nil || !strings.Contains(err.Error(), "no") {
		t.Errorf("the fault was not passed on: %v", err)
	}
}

func TestI17_BadFleetsAreRefused(t *testing.T) {
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	for want, cfg := range map[string]fleet.Config{
		"Agents":           {},
		"twice":            {Agents: []fleet.Agent{{Name: "A", HTTP: true}, {Name: "a", HTTP: true}}},
		"at least one":     {Agents: []fleet.Agent{{Name: "A"}}},
		"ConnectionString": {Agents: []fleet.Agent{{Name: "A", ServiceBus: true}}},
		"HTTP.Listen":      {Agents: []fleet.Agent{{Name: "A", HTTP: true}, {Name: "B", HTTP: true, Listen: taken.Listener.Addr().String()}}},
	} {
		if f, err := fleet.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
			if f != nil {
				_ = f.Close()
			}
		}
	}
}
