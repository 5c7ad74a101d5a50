package heartbeat_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	emulator "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/services/heartbeat"
)

// rest is an agent in a language without gRPC.
type rest struct {
	t    testing.TB
	base string
}

// restAnswer is a body of ours: an answer, or a problem.
type restAnswer struct {
	status int
	header http.Header
	text   string
	fields map[string]any
}

func restAgent(t testing.TB, r *replica) rest {
	t.Helper()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return rest{t, "http://" + r.at.IngressREST}
}

func (a rest) do(method, path, body string, headers ...string) restAnswer {
	a.t.Helper()
	request, err := http.NewRequestWithContext(a.t.Context(), method, a.base+path, strings.NewReader(body))
	check(a.t, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	check(a.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	check(a.t, err)
	got := restAnswer{status: response.StatusCode, header: response.Header, text: string(text)}
	if err := json.Unmarshal(text, &got.fields); err != nil && len(text) > 0 {
		a.t.Fatalf("%s %s: %s: %v", method, path, text, err)
	}
	return got
}

func (a rest) beat(name string, machine, sequence int) restAnswer {
	a.t.Helper()
	return a.do("POST", "/agent/v1/heartbeat", fmt.Sprintf(`{"heartbeat":{"name":%q,"bootId":"b","sequence":"%d"},"token":%q}`, name, sequence, tokenOf(machine)))
}

func (a rest) register(name string, machine int, key string) restAnswer {
	a.t.Helper()
	return a.do("POST", "/agent/v1/register", fmt.Sprintf(`{"heartbeat":{"name":%q,"bootId":"b","sequence":"1","ofTomorrow":[1]},"enrolmentKey":%q,"token":%q}`, name, key, tokenOf(machine)))
}

// problem checks that an answer is a problem of a reason.
func (a rest) problem(what string, got restAnswer, status int, reason string) {
	a.t.Helper()
	if got.status != status || got.fields["reason"] != reason || got.fields["status"] != float64(status) || got.fields["detail"] == "" ||
		got.header.Get("Content-Type") != "application/problem+json" {
		a.t.Errorf("%s: %d %s, wanted %d %s", what, got.status, got.text, status, reason)
	}
}

func TestAnAgentOverREST(t *testing.T) {
	registry := newServer(t)
	registry.registry.setDirect(func(d *direct) {
		d.list = &agentv1.FailoverList{Etag: "e-1", Servers: []*agentv1.ControlServerAddress{{Name: "cs-1", RestEndpoint: "https://cs-1"}}}
	})
	registry.cloud.set(func(c *fakeCloud) { c.lists = map[string]*agentv1.FailoverList{"BUS-1": {Etag: "e-7"}} })
	agent := restAgent(t, run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)))

	got := agent.register("BM-1", 1, enrolmentKey)
	if got.status != http.StatusOK || got.fields["controlServer"] != "cs-1" || got.fields["heartbeatInterval"] != "30s" || !strings.Contains(got.text, `"https://cs-1"`) {
		t.Errorf("registered: %d %s", got.status, got.text)
	}
	got = agent.beat("BM-1", 1, 2)
	if draining, said := got.fields["draining"]; got.status != http.StatusOK || !said || draining != false || !strings.Contains(got.text, `"e-1"`) {
		t.Errorf("heard: %d %s", got.status, got.text)
	}
	if got = agent.do("GET", "/agent/v1/control-server", ""); got.status != http.StatusOK || got.fields["takesAgents"] != true {
		t.Errorf("pinged: %d %s", got.status, got.text)
	}
	got = agent.do("POST", "/agent/v1/failover-list", fmt.Sprintf(`{"name":"BUS-1","enrolmentKey":%q}`, enrolmentKey))
	if got.status != http.StatusOK || !strings.Contains(got.text, `"e-7"`) {
		t.Errorf("asked for a list: %d %s", got.status, got.text)
	}
	if stored := registry.registry.directs(); len(stored) != 2 || stored[1].GetHeartbeat().GetSequence() != 2 {
		t.Errorf("the registry got %v", stored)
	}
}

func TestI17_RESTErrorsSayWhatIsWrong(t *testing.T) {
	registry := newServer(t)
	agent := restAgent(t, run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)))
	agent.problem("wrong key", agent.register("BM-1", 1, "fake-wrong-key"), 401, "UNAUTHENTICATED")
	if got := agent.register("BM-1", 1, enrolmentKey); got.status != http.StatusOK {
		t.Fatalf("registered: %s", got.text)
	}
	reached := len(registry.registry.directs())
	agent.problem("no route", agent.do("GET", "/agent/v1/nothing", ""), 404, "ROUTE_NOT_FOUND")
	agent.problem("no method", agent.do("GET", "/agent/v1/heartbeat", ""), 405, "METHOD_NOT_ALLOWED")
	agent.problem("no JSON", agent.do("POST", "/agent/v1/heartbeat", "{}", "Content-Type", "text/plain"), 415, "UNSUPPORTED_MEDIA_TYPE")
	agent.problem("another origin", agent.do("POST", "/agent/v1/heartbeat", "{}", "Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site"), 403, "PERMISSION_DENIED")
	agent.problem("too large", agent.do("POST", "/agent/v1/heartbeat", `{"token":"`+strings.Repeat("t", 5<<20)+`"}`), 413, "BODY_TOO_LARGE")
	for _, row := range []struct{ body, pointer, want string }{
		{`{"heartbeat":{"name":"BM-1"},"token":fake-secret}`, "/token", "unexpected"},
		{`{"heartbeat":{"name":5},"token":"t"}`, "/heartbeat/name", "text"},
		{`{"heartbeat":{"name":"BM-1","sequence":"fake-secret"}}`, "/heartbeat/sequence", "whole number"},
		{`{"heartbeat":{"name":"BM-1","reportedAt":"fake-secret"}}`, "/heartbeat/reportedAt", "2026-03-29T01:30:00Z"},
		{`{"heartbeat":{"name":"BM-1","reported_at":"fake-secret"}}`, "/heartbeat/reported_at", "2026-03-29T01:30:00Z"},
		{`{"heartbeat":{"name":"BM-1","httpBaseUrl":"\ud800fake-secret"}}`, "/heartbeat/httpBaseUrl", "half a character"},
		{`{"heartbeat":{"name":"BM-1","ofTomorrow":["\udc00fake-secret"]}}`, "/heartbeat/ofTomorrow/0", "half a character"},
		{`{"heartbeat":{"name":"BM-1"},"token":"a","token":"fake-secret"}`, "/token", "twice"},
		{"\uFEFF{}", "", "byte order mark"},
		{"\x1f\x8b\x08fake", "", "compressed"},
		{`[]`, "", "object"},
		{`{"heartbeat":{"name":"BM-1"},"token":"` + "\x01fake-secret" + `"}`, "/token", "U+0001"},
	} {
		got := agent.do("POST", "/agent/v1/heartbeat", row.body)
		agent.problem(row.body, got, 400, "INVALID_ARGUMENT")
		if detail, _ := got.fields["detail"].(string); !strings.Contains(detail, row.want) || strings.Contains(got.text, "fake-secret") ||
			!strings.Contains(got.text, fmt.Sprintf(`"errors":[{"pointer":%q,`, row.pointer)) {
			t.Errorf("%s: %s", row.body, got.text)
		}
	}
	agent.problem("compressed", agent.do("POST", "/agent/v1/heartbeat", "{}", "Content-Encoding", "gzip"), 415, "UNSUPPORTED_MEDIA_TYPE")
	if got := agent.do("GET", "/agent/v1/control-server", "", "Grpc-Timeout", "soon"); got.status != 400 || !strings.Contains(got.text, `"#/Grpc-Timeout"`) {
		t.Errorf("a timeout that is none: %d %s", got.status, got.text)
	}
	agent.problem("a trailing slash", agent.do("POST", "/agent/v1/heartbeat/", "{}"), 404, "ROUTE_NOT_FOUND")
	agent.problem("a rule broken under a name of the contract's file", agent.do("POST", "/agent/v1/heartbeat",
		`{"heartbeat":{"name":"BM-1"},"token":"`+tokenOf(1)+`","list_etag":"`+strings.Repeat("e", 200)+`"}`), 400, "INVALID_ARGUMENT")
	got := agent.do("POST", "/agent/v1/heartbeat", `{"heartbeat":{"name":""},"token":"fake-short"}`)
	agent.problem("rules broken", got, 400, "INVALID_ARGUMENT")
	for _, pointer := range []string{`"/heartbeat/name"`, `"/token"`} {
		if !strings.Contains(got.text, pointer) || strings.Contains(got.text, "fake-short") {
			t.Errorf("%s is not named: %s", pointer, got.text)
		}
	}
	agent.problem("an empty body", agent.do("POST", "/agent/v1/heartbeat", ""), 400, "INVALID_ARGUMENT")
	if now := len(registry.registry.directs()); now != reached {
		t.Errorf("%d heartbeats reached the registry", now-reached)
	}
	agent.problem("wrong token", agent.beat("BM-1", 2, 2), 401, "UNAUTHENTICATED")
	agent.problem("a second machine", agent.register("BM-1", 2, enrolmentKey), 409, "IDENTITY_CONFLICT")
	agent.problem("not registered", agent.beat("BM-9", 9, 1), 409, "NOT_REGISTERED")
}

// The routes of a control server have the methods that those of the gateway would have.
func TestRESTHasHeadAndOptions(t *testing.T) {
	agent := restAgent(t, run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), newServer(t))))
	if got := agent.do("HEAD", "/agent/v1/control-server", ""); got.status != http.StatusOK || got.text != "" {
		t.Errorf("HEAD: %d %s", got.status, got.text)
	}
	for path, want := range map[string]string{"/agent/v1/control-server": "GET, HEAD, OPTIONS", "/agent/v1/heartbeat": "OPTIONS, POST"} {
		if got := agent.do("OPTIONS", path, ""); got.status != http.StatusNoContent || got.header.Get("Allow") != want {
			t.Errorf("OPTIONS %s: %d, Allow %q, not %q", path, got.status, got.header.Get("Allow"), want)
		}
		got := agent.do("BREW", path, "")
		agent.problem(path, got, 405, "METHOD_NOT_ALLOWED")
		if got.header.Get("Allow") != want {
			t.Errorf("BREW %s: Allow %q, not %q", path, got.header.Get("Allow"), want)
		}
	}
	agent.problem("no route", agent.do("OPTIONS", "/agent/v1/nothing", ""), 404, "ROUTE_NOT_FOUND")
}

// Answers look as the gateway's do: on one line that ends, or indented for people. A parameter that no route has does not go unnoticed.
func TestRESTAnswersLookAsTheGatewaysDo(t *testing.T) {
	agent := restAgent(t, run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), newServer(t))))
	const route = "/agent/v1/control-server"
	for _, row := range []struct {
		path, program string
		indented      bool
	}{
		{route, "Go-http-client/1.1", false},
		{route, "curl/8.14.1", true},
		{route + "?pretty", "Go-http-client/1.1", true},
		{route + "?pretty=false", "curl/8.14.1", false},
		{"/agent/v1/nothing", "curl/8.14.1", true},
		{"/agent/v1/nothing", "Go-http-client/1.1", false},
	} {
		got := agent.do("GET", row.path, "", "User-Agent", row.program)
		if !strings.HasSuffix(got.text, "}\n") || strings.Count(got.text, "\n") > 1 != row.indented {
			t.Errorf("%s to %s, indented is to be %t: %q", row.path, row.program, row.indented, got.text)
		}
	}
	for _, got := range []restAnswer{agent.do("GET", route+"?colour=red", ""), agent.do("POST", "/agent/v1/heartbeat?colour=red", "{}")} {
		agent.problem("a parameter that there is not", got, 400, "INVALID_ARGUMENT")
		if !strings.Contains(got.text, `"#/colour"`) {
			t.Error(got.text)
		}
	}
	agent.problem("pretty that is neither", agent.do("GET", route+"?pretty=very", ""), 400, "INVALID_ARGUMENT")
}

func TestRESTSaysWhenToComeAgain(t *testing.T) {
	registry := newServer(t)
	agent := restAgent(t, run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)))
	registry.registry.set(unavailable)
	got := agent.register("BM-1", 1, enrolmentKey)
	agent.problem("busy", got, 429, "BUSY")
	if after, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || after < 1 || after > 60 {
		t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
	}
	registry.registry.set(nil)
	registry.cloud.set(func(c *fakeCloud) { c.listing = status.Error(codes.Internal, "broken") })
	got = agent.do("POST", "/agent/v1/failover-list", fmt.Sprintf(`{"name":"BUS-1","enrolmentKey":%q}`, enrolmentKey))
	agent.problem("busy", got, 429, "BUSY")
}

// Without a key only loopback is served, and no page in a browser there.
func TestWithoutAKeyOnlyLoopbackIsServed(t *testing.T) {
	registry := newServer(t)
	cfg := controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)
	cfg.Ingress.EnrolmentKeyFile = ""
	r := run(t, cfg)
	agent := restAgent(t, r)
	if got := agent.register("BM-1", 1, "any-key"); got.status != http.StatusOK {
		t.Errorf("registered: %s", got.text)
	}
	for _, host := range []string{"localhost", "127.0.0.1:1", "[::1]:7423", "[::1]"} {
		if got := agent.do("GET", "/agent/v1/control-server", "", "Host", host); got.status != http.StatusOK {
			t.Errorf("%s: %s", host, got.text)
		}
	}
	for _, host := range []string{"fleet.example.test", "fleet.example.test:7423", "10.0.0.1:80"} {
		agent.problem(host, agent.do("GET", "/agent/v1/control-server", "", "Host", host), 403, "PERMISSION_DENIED")
	}
}

func TestRESTMayBeLeftOut(t *testing.T) {
	registry := newServer(t)
	cfg := controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)
	cfg.Ingress.REST = heartbeat.IngressListenConfig{}
	r := run(t, cfg)
	if r.at.IngressREST != "" {
		t.Errorf("REST is served at %s", r.at.IngressREST)
	}
	_, err := agents(t, r).Register(t.Context(), registration("BM-1", 1))
	check(t, err)
	eventually(t, "joined", func() bool {
		registry.cloud.mu.Lock()
		defer registry.cloud.mu.Unlock()
		return len(registry.cloud.renewals) > 0
	})
	if joined := registry.cloud.renewals[0]; joined.GetRestEndpoint() != "" || joined.GetGrpcEndpoint() != r.at.IngressGRPC {
		t.Errorf("joined as %v", joined)
	}
}

// An agent may change from REST to gRPC, and be spelled otherwise there.
func TestAnAgentIsTheSameOverRESTAndGRPC(t *testing.T) {
	registry := newServer(t)
	r := run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry))
	if got := restAgent(t, r).register("BM-1", 1, enrolmentKey); got.status != http.StatusOK {
		t.Fatalf("registered: %s", got.text)
	}
	_, err := agents(t, r).Heartbeat(t.Context(), beat("bm-1", 1, 2))
	if want := registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT; err != nil || registry.registry.directs()[1].GetPath() != want {
		t.Errorf("%v, %v", err, registry.registry.directs())
	}
}
