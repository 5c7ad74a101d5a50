package operatorgateway

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// overHTTP is an agent that is reached over HTTP.
func overHTTP(agent *fakeAgent, state registryv1.RegistrationState) *registryv1.Agent {
	return &registryv1.Agent{
		Name: agent.name, ReportedName: agent.name, RegistrationState: state, HttpBaseUrl: agent.URL,
		Server: &registryv1.ServerLink{ServerKey: 1, Name: agent.name, Active: true, Online: true},
	}
}

// everyRoute are the twelve routes to an agent; the thirteenth lists them.
func everyRoute(agent string) map[string]string {
	base := "/api/agents/" + agent
	return map[string]string{
		base + "/installations": "GET", base + "/installations/i-1": "DELETE",
		base + "/services": "GET", base + "/services/W3SVC/start": "POST", base + "/services/W3SVC/stop": "POST", base + "/services/W3SVC/restart": "POST",
		base + "/iis/app-pools": "GET", base + "/iis/app-pools/p/start": "POST", base + "/iis/app-pools/p/stop": "POST", base + "/iis/app-pools/p/recycle": "POST",
		base + "/certificates": "GET", base + "/packages/sync": "POST",
	}
}

func TestI1_OnlyAcceptedAgentsAreAddressable(t *testing.T) {
	agent := startAgent(t, "BM-01")
	registry := startRegistry(t, overHTTP(agent, pending))
	g := startGateway(t, registry, nil)
	refused := func(name string, status int, reason string) {
		t.Helper()
		for path, method := range everyRoute(name) {
			answered := g.do(method, path, "")
			if answered.status != status || answered.reason() != reason || answered.header.Get("Retry-After") != "" {
				t.Errorf("%s %s: %d %s", method, path, answered.status, answered.body)
			}
		}
		if got := agent.commands(); len(got) != 0 {
			t.Errorf("the agent got %d commands", len(got))
		}
		if listed := g.do("GET", "/api/agents", ""); strings.Contains(listed.body, "BM-01") {
			t.Errorf("it is listed: %s", listed.body)
		}
	}
	refused("BM-01", 409, "AGENT_NOT_ACCEPTED")
	refused("nobody", 404, "AGENT_NOT_FOUND")

	answered := g.do("POST", "/api/config/agents/BM-01:accept", "", "If-Match", `"1-0"`)
	if answered.status != 200 || answered.header.Get("ETag") != `"1-1"` || !strings.Contains(answered.body, `"decidedBy":"local"`) {
		t.Fatalf("accept: %d %s", answered.status, answered.body)
	}
	if listed := g.do("GET", "/api/agents", ""); !strings.Contains(listed.body, `"transport":"TRANSPORT_HTTP"`) {
		t.Errorf("it is not listed: %s", listed.body)
	}
	if answered := g.do("POST", "/api/agents/BM-01/services/W3SVC/restart", ""); answered.status != 200 || answered.fields["transport"] != "TRANSPORT_HTTP" {
		t.Errorf("accepted: %d %s", answered.status, answered.body)
	}
	if got := agent.commands(); len(got) != 1 || got[0].GetRestartService().GetService() != "W3SVC" || got[0].GetIssuedBy() != "local" {
		t.Errorf("the agent got %v", got)
	}

	if answered := g.do("POST", "/api/config/agents/BM-01:reject", "", "If-Match", "1-1"); answered.status != 200 {
		t.Fatalf("reject: %d %s", answered.status, answered.body)
	}
	refused("BM-01", 409, "AGENT_NOT_ACCEPTED")
}

// Each route carries its own operation with what it names: none is mixed up with another.
func TestEveryRouteCarriesItsOperation(t *testing.T) {
	agent := startAgent(t, "BM-01")
	g := startGateway(t, startRegistry(t, overHTTP(agent, accepted)), nil)
	routes := everyRoute("BM-01")
	operations := map[string]string{
		"/installations": `"listInstallations":{}`, "/installations/i-1": `"uninstall":{"installation":"i-1"}`,
		"/services": `"listServices":{}`, "/services/W3SVC/start": `"startService":{"service":"W3SVC"}`,
		"/services/W3SVC/stop": `"stopService":{"service":"W3SVC"}`, "/services/W3SVC/restart": `"restartService":{"service":"W3SVC"}`,
		"/iis/app-pools": `"listAppPools":{}`, "/iis/app-pools/p/start": `"startAppPool":{"pool":"p"}`,
		"/iis/app-pools/p/stop": `"stopAppPool":{"pool":"p"}`, "/iis/app-pools/p/recycle": `"recycleAppPool":{"pool":"p"}`,
		"/certificates": `"listCertificates":{}`, "/packages/sync": `"syncPackages":{}`,
	}
	if len(operations) != len(routes) {
		t.Fatalf("%d routes and %d operations", len(routes), len(operations))
	}
	for path, method := range routes {
		answered := g.do(method, path, "")
		got := agent.commands()
		if len(got) != 1 {
			t.Fatalf("%s %s: %d commands: %s", method, path, len(got), answered.body)
		}
		sent, err := protojson.Marshal(got[0])
		check(t, err)
		if want := operations[strings.TrimPrefix(path, "/api/agents/BM-01")]; !strings.Contains(strings.ReplaceAll(string(sent), " ", ""), want) {
			t.Errorf("%s %s carries %s, not %s", method, path, sent, want)
		}
	}
}

func TestI3_TheCallersKeyReachesTheAgent(t *testing.T) {
	const key = "6f1c1a52-0b3e-4f0a-9d57-1c2e3f4a5b6c"
	agent := startAgent(t, "BM-01")
	g := startGateway(t, startRegistry(t, overHTTP(agent, accepted)), nil)
	answered := g.do("POST", "/api/agents/BM-01/services/W3SVC/restart", "", "Idempotency-Key", key)
	if sent := agent.commands(); answered.status != 200 || answered.fields["commandId"] != key || len(sent) != 1 || sent[0].GetCommandId() != key {
		t.Errorf("%d %s", answered.status, answered.body)
	}
	answered = g.do("POST", "/api/agents/BM-01/services/W3SVC/restart", "", "Idempotency-Key", "order-17")
	if sent := agent.commands(); answered.status != 400 || !strings.Contains(answered.body, "#/Idempotency-Key") || len(sent) != 0 {
		t.Errorf("%d %s, %d commands", answered.status, answered.body, len(sent))
	}
}

func TestWhatBecameOfACommandIsReadFromItsAgent(t *testing.T) {
	const id = "6f1c1a52-0b3e-4f0a-9d57-1c2e3f4a5b6c"
	agent := startAgent(t, "BM-01")
	agent.answer = func(_ context.Context, command *agentv1.Command) *agentv1.CommandResult {
		return &agentv1.CommandResult{Outcome: agentv1.Outcome_OUTCOME_SUCCEEDED, Payload: &agentv1.CommandResult_CommandRecord{CommandRecord: &agentv1.CommandRecord{
			CommandId: command.GetGetCommand().GetCommandId(), State: agentv1.CommandState_COMMAND_STATE_FINISHED,
			Result: &agentv1.CommandResult{Outcome: agentv1.Outcome_OUTCOME_FAILED, Message: "stuck"},
		}}}
	}
	g := startGateway(t, startRegistry(t, overHTTP(agent, accepted)), nil)
	answered := g.do("GET", "/api/agents/bm-01/commands/"+id, "")
	for _, want := range []string{id, "COMMAND_STATE_FINISHED", "OUTCOME_FAILED", "stuck"} {
		if answered.status != 200 || !strings.Contains(answered.body, want) {
			t.Errorf("%d %s", answered.status, answered.body)
		}
	}
	if strings.Contains(g.log.String(), "audit: command") {
		t.Error("a read is audited as a write")
	}
	if answered := g.do("GET", "/api/agents/bm-01/commands/17", ""); answered.status != 400 || !strings.Contains(answered.body, "#/command") {
		t.Errorf("%d %s", answered.status, answered.body)
	}
}

func TestI10_ActiveAndOnlineBlockNoCommand(t *testing.T) {
	agent := startAgent(t, "BM-01")
	registry := startRegistry(t, overHTTP(agent, accepted))
	g := startGateway(t, registry, nil)
	registry.change("BM-01", func(a *registryv1.Agent) { a.Server.Active, a.Server.Online = false, false })
	if answered := g.do("POST", "/api/agents/BM-01/services/W3SVC/start", ""); answered.status != 200 {
		t.Errorf("%d %s", answered.status, answered.body)
	}
}

func TestI13_NamesInAnyCaseAreOneAgent(t *testing.T) {
	agent := startAgent(t, "BM-Größe")
	registry := startRegistry(t, overHTTP(agent, pending))
	g := startGateway(t, registry, nil)
	if answered := g.do("POST", "/api/config/agents/bm-gr%C3%B6%C3%9Fe:accept", `{"serverName": "BM-GRÖßE"}`, "If-Match", "1-0"); answered.status != 200 {
		t.Fatalf("accept: %d %s", answered.status, answered.body)
	}
	for _, spelling := range []string{"BM-Gr%C3%B6%C3%9Fe", "bm-gr%C3%B6%C3%9Fe", "BM-GR%C3%B6%C3%9FE"} {
		answered := g.do("POST", "/api/agents/"+spelling+"/services/W3SVC/start", "")
		if answered.status != 200 || answered.fields["agent"] != "BM-Größe" {
			t.Errorf("%s: %d %s", spelling, answered.status, answered.body)
		}
		if got := agent.commands(); len(got) != 1 || got[0].GetTargetAgent() != "BM-Größe" {
			t.Errorf("%s: the agent got %v", spelling, got)
		}
	}
}

func TestI14_OfDecisionsAtOnceOneWins(t *testing.T) {
	agent := startAgent(t, "BM-01")
	g := startGateway(t, startRegistry(t, overHTTP(agent, pending)), nil)
	if answered := g.do("POST", "/api/config/agents/BM-01:accept", ""); answered.status != 428 || answered.reason() != "ETAG_REQUIRED" {
		t.Errorf("without an etag: %d %s", answered.status, answered.body)
	}
	if answered := g.do("POST", "/api/config/agents/BM-01:accept", "", "If-Match", "*"); answered.status != 428 {
		t.Errorf("with any etag: %d %s", answered.status, answered.body)
	}
	var group sync.WaitGroup
	answers := make([]reply, 8)
	for i := range answers {
		group.Go(func() {
			act := []string{"accept", "reject"}[i%2]
			answers[i], _ = g.try("POST", "/api/config/agents/BM-01:"+act, "", "If-Match", `"1-0"`)
		})
	}
	group.Wait()
	won := 0
	for _, answered := range answers {
		switch {
		case answered.status == 200:
			won++
		case answered.status != 412 || answered.reason() != "STALE_ETAG" || answered.fields["currentEtag"] != "1-1" || answered.header.Get("ETag") != `"1-1"` || answered.fields["agent"] != "BM-01":
			t.Errorf("a loser is told %d %s", answered.status, answered.body)
		}
	}
	if won != 1 {
		t.Errorf("%d of two operators won", won)
	}
}

// What is refused reaches neither registry nor agent.
func TestI17_BadInputChangesNothing(t *testing.T) {
	agent := startAgent(t, "BM-01")
	registry := startRegistry(t, overHTTP(agent, accepted))
	g := startGateway(t, registry, nil)
	for _, row := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/api/agents/BM-01/services/W3SVC/restart", `{"force": true}`, 400},
		{"POST", "/api/agents/BM-01/services/" + strings.Repeat("x", 257) + "/restart", "", 400},
		{"POST", "/api/agents/BM-01/services/W3SVC/restart", "{", 400},
		{"POST", "/api/agents/BM-01/services/W3SVC/pause", "", 404},
		{"PUT", "/api/agents/BM-01/services/W3SVC/restart", "", 405},
		{"POST", "/api/config/agents/BM-01:reject", `{"etag": "1-0", "reason": "x"}`, 400},
		{"DELETE", "/api/config/agents/BM-01?tag=1-0", "", 400},
	} {
		if answered := g.do(row.method, row.path, row.body); answered.status != row.status || answered.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d %s", row.method, row.path, answered.status, answered.body)
		}
	}
	if got := agent.commands(); len(got) != 0 || registry.changes != 0 {
		t.Errorf("the agent got %v, the registry changed %d times", got, registry.changes)
	}
}

func TestI18_AgentAndServerShareOneName(t *testing.T) {
	agent := startAgent(t, "BM-01")
	registry := startRegistry(t, overHTTP(agent, pending))
	g := startGateway(t, registry, nil)
	if answered := g.do("POST", "/api/config/agents/BM-01:accept", `{"serverName": "BM-02"}`, "If-Match", "1-0"); answered.status != 409 || answered.reason() != "NAME_MISMATCH" || answered.fields["agent"] != "BM-01" {
		t.Errorf("linked to another: %d %s", answered.status, answered.body)
	}
	g.do("POST", "/api/config/agents/BM-01:accept", `{"serverName": "bm-01"}`, "If-Match", "1-0")
	registry.change("BM-01", func(a *registryv1.Agent) { a.Server.Name = "BM-02" })
	for path, method := range everyRoute("BM-01") {
		if answered := g.do(method, path, ""); answered.status != 409 || answered.reason() != "NAME_MISMATCH" {
			t.Errorf("%s %s after the names parted: %d %s", method, path, answered.status, answered.body)
		}
	}
	if got := agent.commands(); len(got) != 0 {
		t.Errorf("the agent got %v", got)
	}
	if listed := g.do("GET", "/api/agents", ""); !strings.Contains(listed.body, `"refusal":"NAME_MISMATCH"`) {
		t.Errorf("the list does not say so: %s", listed.body)
	}
}

func TestRouteIsExplainedAndSendsNothing(t *testing.T) {
	agent := startAgent(t, "BM-01")
	registry := startRegistry(t, overHTTP(agent, accepted))
	g := startGateway(t, registry, nil)
	if answered := g.do("GET", "/api/agents/nobody/route", ""); answered.status != 200 || answered.fields["refusal"] != "AGENT_NOT_FOUND" || answered.fields["rule"] != "1" {
		t.Errorf("unknown: %d %s", answered.status, answered.body)
	}
	if answered := g.do("GET", "/api/agents/bm-01/route?write=true", ""); answered.fields["transport"] != "TRANSPORT_HTTP" || answered.fields["rule"] != "7" {
		t.Errorf("over HTTP: %s", answered.body)
	}
	registry.change("BM-01", func(a *registryv1.Agent) { a.OnServiceBus, a.BusHeartbeatAge = true, durationpb.New(time.Hour) })
	if answered := g.do("GET", "/api/agents/BM-01/route", ""); answered.fields["refusal"] != "HEARTBEAT_STALE" || answered.fields["rule"] != "5" || answered.fields["busHeartbeatAge"] != "3600s" {
		t.Errorf("stale: %s", answered.body)
	}
	if answered := g.do("POST", "/api/config/agents/BM-01:verifyHttp", ""); answered.status != 200 || answered.fields["answeredAs"] != "BM-01" || answered.fields["recorded"] != true {
		t.Errorf("verify: %d %s", answered.status, answered.body)
	}
	if answered := g.do("GET", "/api/agents/BM-01/route", ""); answered.fields["transport"] != "TRANSPORT_HTTP" || answered.fields["rule"] != "4" {
		t.Errorf("verified: %s", answered.body)
	}
	if got := agent.commands(); len(got) != 0 {
		t.Errorf("the agent got %v", got)
	}
}
