package operatorgateway

import (
	"encoding/json"
	"strings"
	"testing"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

func withAvailability(a *fakeAvailability) func(*Config) {
	return func(c *Config) { c.Availability.Target = a.addr }
}

const (
	maintenance = "/api/config/servers/bm-01/maintenance"
	windows     = "/api/config/servers/bm-01/maintenance-windows"
	brake       = "/api/availability/brakes/HEARTBEAT_PATH_BUS"
	recurring   = `"rule":{"start":"2026-03-29T02:30","zone":"Europe/Amsterdam","rule":"FREQ=DAILY","duration":"3600s"}`
)

// availabilityRoutes are all of them, with what each asks of the service, what it answers, and its audit line, if it has one.
var availabilityRoutes = []struct {
	method, path, body, etag string
	asks, answers, act       string
}{
	{"GET", "/api/availability/overview", "", "", `{}`, `"banners":["bus is frozen"]`, ""},
	{
		"GET", "/api/availability/servers?verdicts=VERDICT_UNKNOWN&states=SERVER_STATE_HELD&held=true&maintenance=false&disagrees=true&query=bm&pageSize=5&pageToken=p", "", "",
		`{"verdicts":["VERDICT_UNKNOWN"],"held":true,"maintenance":false,"disagrees":true,"query":"bm","pageSize":5,"pageToken":"p","states":["SERVER_STATE_HELD"]}`, `"nextPageToken":"next"`, "",
	},
	{"GET", "/api/availability/servers/bm-01", "", "", `{"server":"bm-01"}`, `"verdict":"VERDICT_AVAILABLE"`, ""},
	{
		"GET", "/api/config/servers/bm-01/offline-log?startAt=2026-01-01T00:00:00Z&endAt=2026-02-01T00:00:00Z&pageSize=5&pageToken=p", "", "",
		`{"server":"bm-01","startAt":"2026-01-01T00:00:00Z","endAt":"2026-02-01T00:00:00Z","pageSize":5,"pageToken":"p"}`, `{"entries":[{"createdAt":"1970-01-01T00:00:00Z"}],"nextPageToken":"next"}`, "",
	},
	{
		"PUT", brake, `{"order":"BRAKE_ORDER_HOLD"}`, "b-0", `{"path":"HEARTBEAT_PATH_BUS","order":"BRAKE_ORDER_HOLD","etag":"b-0","actor":"local"}`, `"orderedBy":"local"`,
		`"order BRAKE_ORDER_HOLD for the brake of HEARTBEAT_PATH_BUS" agent="" server=""`,
	},
	{"GET", maintenance, "", "", `{"server":"bm-01"}`, `"on":false`, ""},
	{
		"PUT", maintenance, `{"reason":"patching","endAt":"2030-01-01T00:00:00Z"}`, "m-0", `{"server":"bm-01","etag":"m-0","reason":"patching","endAt":"2030-01-01T00:00:00Z","actor":"local"}`, `"changedBy":"local"`,
		`"set maintenance of server" agent="" server=bm-01`,
	},
	{
		"PUT", maintenance, `{"reason":"patching","duration":"7200s"}`, "m-0", `{"server":"bm-01","etag":"m-0","reason":"patching","actor":"local","duration":"7200s"}`, `"changedBy":"local"`,
		`"set maintenance of server" agent="" server=bm-01`,
	},
	{"DELETE", maintenance, "", "m-0", `{"server":"bm-01","etag":"m-0","actor":"local"}`, `"on":false`, `"clear maintenance of server" agent="" server=bm-01`},
	{"GET", windows, "", "", `{"server":"bm-01"}`, `{"windows":[{"id":"7"`, ""},
	{
		"POST", windows, `{"reason":"nightly",` + recurring + `}`, "", `{"server":"bm-01",` + recurring + `,"reason":"nightly","actor":"local"}`, `"createdBy":"local"`,
		`"create maintenance window of server" agent="" server=bm-01`,
	},
	{"POST", windows + ":preview", `{` + recurring + `}`, "", `{"server":"bm-01",` + recurring + `}`, `"startLocal":"2026-03-29T03:30:00+02:00"`, ""},
	{"DELETE", windows + "/7", "", "", `{"server":"bm-01","id":"7","actor":"local"}`, `{}`, `"delete maintenance window 7 of server" agent="" server=bm-01`},
}

func TestEachAvailabilityRoute(t *testing.T) {
	for _, route := range availabilityRoutes {
		t.Run(route.method+" "+route.path, func(t *testing.T) {
			availability := startAvailability(t)
			g := startGateway(t, startRegistry(t), withAvailability(availability))
			var headers []string
			if route.etag != "" {
				headers = []string{"If-Match", `"` + route.etag + `"`}
			}
			answered := g.do(route.method, route.path, route.body, headers...)
			if answered.status != 200 || !strings.Contains(answered.body, route.answers) || answered.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%d %s", answered.status, answered.body)
			}
			asked, err := protojson.Marshal(availability.last())
			check(t, err)
			if got := strings.ReplaceAll(string(asked), " ", ""); got != route.asks {
				t.Errorf("asks %s\nnot  %s", got, route.asks)
			}
			if etag := answered.header.Get("ETag"); route.etag != "" && (etag == "" || etag == `"`+route.etag+`"`) {
				t.Errorf("the etag becomes %s", etag)
			}
			audits := strings.Count(g.log.String(), "audit: decision")
			if route.act == "" && audits != 0 {
				t.Errorf("a read is audited: %s", g.log)
			}
			if route.act != "" && (audits != 1 || !strings.Contains(g.log.String(), "principal=local act="+route.act) || !strings.Contains(g.log.String(), "outcome=done")) {
				t.Errorf("audited as %s", g.log)
			}
		})
	}
}

// Who posts a window a second time, since the first answer was lost, names it by the same key.
func TestAWindowsIdempotencyKeyIsPassedOn(t *testing.T) {
	const key = "6f1d1c5e-0000-4000-8000-000000000001"
	availability := startAvailability(t)
	g := startGateway(t, startRegistry(t), withAvailability(availability))
	body := `{"reason":"nightly",` + recurring + `}`
	if answered := g.do("POST", windows, body, "Idempotency-Key", key); answered.status != 200 {
		t.Fatalf("%d %s", answered.status, answered.body)
	}
	asked, _ := availability.last().(*availabilityv1.CreateMaintenanceWindowRequest)
	if asked.GetIdempotencyKey() != key {
		t.Errorf("asks %v", asked)
	}
	if answered := g.do("POST", windows, body, "Idempotency-Key", "night"); answered.status != 400 || !strings.Contains(answered.body, `"pointer":"#/Idempotency-Key"`) {
		t.Errorf("%d %s", answered.status, answered.body)
	}
}

func TestWhatTheAvailabilityServiceRefusesIsPassedOn(t *testing.T) {
	availability := startAvailability(t)
	g := startGateway(t, startRegistry(t), withAvailability(availability))
	for _, row := range []struct {
		method, path, body string
		etag               string
		status             int
		reason, pointer    string
		currentEtag        string
	}{
		{"GET", "/api/availability/servers/none", "", "", 404, "SERVER_NOT_FOUND", "", ""},
		{"GET", "/api/config/servers/none/offline-log", "", "", 404, "SERVER_NOT_FOUND", "", ""},
		{"GET", "/api/config/servers/none/maintenance", "", "", 404, "SERVER_NOT_FOUND", "", ""},
		{"DELETE", windows + "/8", "", "", 404, "WINDOW_NOT_FOUND", "", ""},
		{"PUT", maintenance, `{"reason":"r"}`, "", 428, "ETAG_REQUIRED", "", "m-0"},
		{"PUT", maintenance, `{"reason":"r"}`, "*", 428, "ETAG_REQUIRED", "", ""},
		{"PUT", maintenance, `{"reason":"r"}`, "m-9", 412, "STALE_ETAG", "", "m-0"},
		{"PUT", maintenance, `{"reason":"r","etag":"m-1"}`, "m-0", 400, "INVALID_ARGUMENT", "/etag", ""},
		{"PUT", maintenance, `{"reason":"r","endAt":"1999-01-01T00:00:00Z"}`, "m-0", 400, "INVALID_ARGUMENT", "/endAt", ""},
		{"DELETE", maintenance, "", "", 428, "ETAG_REQUIRED", "", "m-0"},
		{"DELETE", maintenance + "?etag=m-9", "", "", 412, "STALE_ETAG", "", "m-0"},
		{"PUT", brake, `{"order":"BRAKE_ORDER_APPLY"}`, "", 428, "ETAG_REQUIRED", "", "b-0"},
		{"PUT", brake, `{"order":"BRAKE_ORDER_APPLY"}`, "b-9", 412, "STALE_ETAG", "", "b-0"},
		{"PUT", "/api/availability/brakes/both", `{"order":"BRAKE_ORDER_APPLY"}`, "b-0", 400, "INVALID_ARGUMENT", "#/path", ""},
		{"POST", windows, `{"reason":"r","rule":{"zone":"Mars/Olympus"}}`, "", 400, "INVALID_ARGUMENT", "/rule/zone", ""},
		{"DELETE", windows + "/seven", "", "", 400, "INVALID_ARGUMENT", "#/id", ""},
	} {
		var headers []string
		if row.etag != "" {
			headers = []string{"If-Match", row.etag}
		}
		answered := g.do(row.method, row.path, row.body, headers...)
		currentEtag, _ := answered.fields["currentEtag"].(string)
		if answered.status != row.status || answered.reason() != row.reason || currentEtag != row.currentEtag || answered.header.Get("Retry-After") != "" {
			t.Errorf("%s %s: %d %s", row.method, row.path, answered.status, answered.body)
		}
		if row.pointer != "" && !strings.Contains(answered.body, `"pointer":"`+row.pointer+`"`) {
			t.Errorf("%s %s does not point at %s: %s", row.method, row.path, row.pointer, answered.body)
		}
	}
	if availability.changes != 0 {
		t.Errorf("%d changes were made", availability.changes)
	}
}

func TestAgentsAreListedWithTheAvailabilityOfTheirServers(t *testing.T) {
	availability := startAvailability(t)
	unlinked := &registryv1.Agent{Name: "BM-02", ReportedName: "BM-02", RegistrationState: accepted, OnServiceBus: true, BusHeartbeatAge: durationpb.New(0)}
	g := startGateway(t, startRegistry(t, overHTTP(startAgent(t, "BM-01"), accepted), unlinked), withAvailability(availability))
	if listed := availabilities(t, g); len(listed) != 2 || listed["BM-01"] == nil || listed["BM-01"]["verdict"] != "VERDICT_AVAILABLE" || listed["BM-02"] != nil {
		t.Errorf("%v", listed)
	}
	if asked, ok := availability.last().(*availabilityv1.ListAvailabilityRequest); !ok || len(asked.GetServerKeys()) != 1 || asked.GetServerKeys()[0] != 1 {
		t.Errorf("asked %v", asked)
	}
	availability.server.Stop()
	for range 3 {
		if listed := availabilities(t, g); len(listed) != 2 || listed["BM-01"] != nil {
			t.Errorf("without the availability service: %v", listed)
		}
	}
	if told := strings.Count(g.log.String(), "listed without availability"); told != 1 {
		t.Errorf("told %d times: %s", told, g.log)
	}
	if answered := g.do("GET", "/api/availability/servers", ""); answered.status != 503 || answered.reason() != "AVAILABILITY_UNAVAILABLE" || answered.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", answered.status, answered.body)
	}
}

// availabilities are those of the listed agents, by name.
func availabilities(t *testing.T, g *gateway) map[string]map[string]any {
	t.Helper()
	answered := g.do("GET", "/api/agents", "")
	var page struct {
		Agents []struct {
			Name         string
			Availability map[string]any
		}
	}
	check(t, json.Unmarshal([]byte(answered.body), &page))
	found := map[string]map[string]any{}
	for _, agent := range page.Agents {
		found[agent.Name] = agent.Availability
	}
	return found
}

func TestWithoutAnAvailabilityServiceItsRoutesSayWhatToSet(t *testing.T) {
	g := startGateway(t, startRegistry(t, overHTTP(startAgent(t, "BM-01"), accepted)), nil)
	refused := func(method, path, body string) {
		t.Helper()
		answered := g.do(method, path, body)
		if answered.status != 503 || answered.reason() != "AVAILABILITY_UNAVAILABLE" || !strings.Contains(answered.body, "set availability.target") || answered.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d %s", method, path, answered.status, answered.body)
		}
	}
	for _, route := range availabilityRoutes {
		refused(route.method, route.path, route.body)
	}
	refused("GET", "/api/availability:watch", "")
	if listed := availabilities(t, g); len(listed) != 1 || listed["BM-01"] != nil {
		t.Errorf("listed %v", listed)
	}
	if g.readyz() != 200 || strings.Contains(g.log.String(), "level=WARN") {
		t.Errorf("it is told as something wrong: %s", g.log)
	}
}

// An availability service that is down takes its own routes away, and nothing else.
func TestReadyWithoutTheAvailabilityService(t *testing.T) {
	t.Parallel()
	availability := startAvailability(t)
	g := startGateway(t, startRegistry(t), withAvailability(availability))
	health := healthv1.NewHealthClient(g.dial())
	serving := func(service string) bool {
		answer, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		return err == nil && answer.GetStatus() == healthv1.HealthCheckResponse_SERVING
	}
	own := operatorv1.AvailabilityConfig_ServiceDesc.ServiceName
	rest := func() bool {
		return serving("") && serving(operatorv1.AgentOperations_ServiceDesc.ServiceName) && serving(operatorv1.ServerConfig_ServiceDesc.ServiceName) && g.readyz() == 200
	}
	if !serving(own) || !rest() {
		t.Fatal("not serving at first")
	}
	availability.serving(false)
	eventually(t, "its routes not serving", func() bool { return !serving(own) })
	if !rest() {
		t.Error("the gateway does not serve")
	}
	availability.serving(true)
	eventually(t, "its routes serving again", func() bool { return serving(own) })
}
