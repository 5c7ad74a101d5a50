package operatorgateway

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

const (
	controlServers  = "/api/config/control-servers"
	affinityGroups  = "/api/config/affinity-groups"
	partitionEvents = "/api/config/partition-events"
	resetToken      = "/api/config/agents/bm-01:resetToken"
	intoMaintenance = `{"mode":"CONTROL_SERVER_MODE_MAINTENANCE"}`
)

// cloudRoutes are all of them, with what each asks of the registry, what it answers, the etag it gives, and its audit line, if it has one.
var cloudRoutes = []struct {
	method, path, body, etag   string
	asks, answers, gives, acts string
}{
	{"GET", controlServers, "", "", `{}`, `"epoch":"7","warnings":["mixed versions"]`, "", ""},
	{
		"PUT", controlServers + "/cs-1/mode", intoMaintenance, "c-0", `{"name":"cs-1","etag":"c-0","mode":"CONTROL_SERVER_MODE_MAINTENANCE","actor":"local"}`,
		`"changedBy":"local"`, `"c-1"`, `"set CONTROL_SERVER_MODE_MAINTENANCE of control server" agent="" server="" control_server=cs-1 group=""`,
	},
	{
		"PATCH", controlServers + "/cs-1", `{"weight":200,"standby":false,"affinityGroup":"west"}`, "c-0",
		`{"name":"cs-1","etag":"c-0","weight":200,"standby":false,"affinityGroup":"west","actor":"local"}`,
		`"changedBy":"local"`, `"c-1"`, `"update control server" agent="" server="" control_server=cs-1 group=""`,
	},
	{
		"PATCH", controlServers + "/cs-1", `{"affinityGroup":""}`, "c-0", `{"name":"cs-1","etag":"c-0","affinityGroup":"","actor":"local"}`,
		`"changedBy":"local"`, `"c-1"`, `"update control server" agent="" server="" control_server=cs-1 group=""`,
	},
	{
		"DELETE", controlServers + "/cs-2", "", "c-0", `{"name":"cs-2","etag":"c-0","actor":"local"}`,
		`{}`, "", `"remove control server" agent="" server="" control_server=cs-2 group=""`,
	},
	{"GET", affinityGroups, "", "", `{}`, `{"groups":[{"name":"east"`, "", ""},
	{
		"POST", affinityGroups, `{"name":"north","agents":["BM-01","BM-02"],"controlServers":["cs-1"]}`, "",
		`{"name":"north","agents":["BM-01","BM-02"],"controlServers":["cs-1"],"actor":"local"}`,
		`{"name":"north","agents":2`, `"g-1"`, `"create affinity group" agent="" server="" control_server="" group=north`,
	},
	{
		"PATCH", affinityGroups + "/West", `{"name":"north","addAgents":["a"],"removeAgents":["b"],"addControlServers":["c"],"removeControlServers":["d"]}`, "g-0",
		`{"name":"West","etag":"g-0","newName":"north","addAgents":["a"],"removeAgents":["b"],"addControlServers":["c"],"removeControlServers":["d"],"actor":"local"}`,
		`{"name":"west"`, `"g-1"`, `"update affinity group" agent="" server="" control_server="" group=West`,
	},
	{
		"DELETE", affinityGroups + "/west", "", "g-0", `{"name":"west","etag":"g-0","actor":"local"}`,
		`{}`, "", `"delete affinity group" agent="" server="" control_server="" group=west`,
	},
	{"GET", "/api/config/agents/bm-01/failover-list", "", "", `{"agent":"bm-01"}`, `{"etag":"l-1","servers":[{"name":"cs-1"`, "", ""},
	{
		"GET", partitionEvents + "?startAt=2026-01-01T00:00:00Z&endAt=2026-02-01T00:00:00Z&pageSize=5&pageToken=p", "", "",
		`{"startAt":"2026-01-01T00:00:00Z","endAt":"2026-02-01T00:00:00Z","pageSize":5,"pageToken":"p"}`, `"nextPageToken":"next"`, "", "",
	},
}

func TestEachCloudRoute(t *testing.T) {
	for _, route := range cloudRoutes {
		t.Run(route.method+" "+route.path, func(t *testing.T) {
			registry := startRegistry(t)
			g := startGateway(t, registry, nil)
			var headers []string
			if route.etag != "" {
				headers = []string{"If-Match", `"` + route.etag + `"`}
			}
			answered := g.do(route.method, route.path, route.body, headers...)
			if answered.status != 200 || !strings.Contains(answered.body, route.answers) || answered.header.Get("Cache-Control") != "no-store" || answered.header.Get("ETag") != route.gives {
				t.Errorf("%d %v %s", answered.status, answered.header, answered.body)
			}
			asked, err := protojson.Marshal(registry.cloud.last())
			check(t, err)
			if got := strings.ReplaceAll(string(asked), " ", ""); got != route.asks {
				t.Errorf("asks %s\nnot  %s", got, route.asks)
			}
			checkAudit(t, g, route.acts, "done")
		})
	}
}

// checkAudit holds the log against the one audit line of a change; a read has none.
func checkAudit(t *testing.T, g *gateway, act, outcome string) {
	t.Helper()
	want, log := 1, g.log.String()
	if act == "" {
		want = 0
	}
	if audits := strings.Count(log, "audit: decision"); audits != want {
		t.Errorf("%d audit lines: %s", audits, log)
	}
	if act != "" && (!strings.Contains(log, "principal=local act="+act) || !strings.Contains(log, "outcome="+outcome)) {
		t.Errorf("audited as %s", log)
	}
}

func TestATokenIsReset(t *testing.T) {
	registry := startRegistry(t, &registryv1.Agent{Name: "BM-01", RegistrationState: accepted, HasToken: true})
	g := startGateway(t, registry, nil)
	answered := g.do("POST", resetToken, "", "If-Match", `"1-0"`)
	if answered.status != 200 || answered.header.Get("ETag") != `"1-1"` || answered.fields["hasToken"] != false || answered.fields["claimable"] != true || answered.fields["decidedBy"] != "local" {
		t.Errorf("%d %s", answered.status, answered.body)
	}
	checkAudit(t, g, `"reset token of agent" agent=bm-01 server="" control_server="" group=""`, "done")
}

func TestWhatTheRegistryRefusesOfTheCloudIsPassedOn(t *testing.T) {
	registry := startRegistry(t, &registryv1.Agent{Name: "BM-01", HasToken: true}, &registryv1.Agent{Name: "BM-02", Claimable: true})
	g := startGateway(t, registry, nil)
	const server, group, mode = controlServers + "/cs-1", affinityGroups + "/west", controlServers + "/cs-1/mode"
	for _, row := range []struct {
		method, path, body string
		etag               string
		status             int
		reason, pointer    string
		currentEtag        string
	}{
		{"PUT", controlServers + "/cs-9/mode", intoMaintenance, "c-0", 404, "CONTROL_SERVER_NOT_FOUND", "", ""},
		{"PUT", mode, intoMaintenance, "", 428, "ETAG_REQUIRED", "", "c-0"},
		{"PUT", mode, intoMaintenance, "*", 428, "ETAG_REQUIRED", "", ""},
		{"PUT", mode, intoMaintenance, "c-9", 412, "STALE_ETAG", "", "c-0"},
		{"PUT", mode, `{"mode":"CONTROL_SERVER_MODE_NORMAL"}`, "c-0", 409, "ALREADY_DECIDED", "", ""},
		{"PUT", mode, `{"mode":"REPAIR"}`, "c-0", 400, "INVALID_ARGUMENT", "/mode", ""},
		{"PUT", mode, `{"mode":"CONTROL_SERVER_MODE_UNSPECIFIED"}`, "c-0", 400, "INVALID_ARGUMENT", "/mode", ""},
		{"PUT", mode, `{"mode":"CONTROL_SERVER_MODE_MAINTENANCE","etag":"c-1"}`, "c-0", 400, "INVALID_ARGUMENT", "/etag", ""},
		{"PATCH", controlServers + "/cs-9", `{"weight":1}`, "c-0", 404, "CONTROL_SERVER_NOT_FOUND", "", ""},
		{"PATCH", server, `{"affinityGroup":"none"}`, "c-0", 404, "GROUP_NOT_FOUND", "", ""},
		{"PATCH", server, `{"weight":1}`, "", 428, "ETAG_REQUIRED", "", "c-0"},
		{"PATCH", server, `{"weight":1}`, "c-9", 412, "STALE_ETAG", "", "c-0"},
		{"PATCH", server, `{"weight":1001}`, "c-0", 400, "INVALID_ARGUMENT", "/weight", ""},
		{"PATCH", controlServers + "/c%01", `{"weight":1}`, "c-0", 400, "INVALID_ARGUMENT", "#/name", ""},
		{"DELETE", controlServers + "/cs-9", "", "c-0", 404, "CONTROL_SERVER_NOT_FOUND", "", ""},
		{"DELETE", server, "", "c-0", 409, "IN_USE", "", ""},
		{"DELETE", server, "", "", 428, "ETAG_REQUIRED", "", "c-0"},
		{"DELETE", server + "?etag=c-9", "", "", 412, "STALE_ETAG", "", "c-0"},
		{"POST", affinityGroups, `{"name":"WEST"}`, "", 409, "NAME_TAKEN", "", ""},
		{"POST", affinityGroups, `{"name":"a\u0001"}`, "", 400, "INVALID_ARGUMENT", "/name", ""},
		{"POST", affinityGroups, `{"name":"north","agents":["nobody"]}`, "", 404, "AGENT_NOT_FOUND", "", ""},
		{"PATCH", affinityGroups + "/none", `{"name":"north"}`, "g-0", 404, "GROUP_NOT_FOUND", "", ""},
		{"PATCH", group, `{"name":"East"}`, "g-0", 409, "NAME_TAKEN", "", ""},
		{"PATCH", group, `{"name":"north"}`, "", 428, "ETAG_REQUIRED", "", "g-0"},
		{"PATCH", group, `{"name":"north"}`, "g-9", 412, "STALE_ETAG", "", "g-0"},
		{"PATCH", group, `{"name":"a\u0001"}`, "g-0", 400, "INVALID_ARGUMENT", "/name", ""},
		{"PATCH", affinityGroups + "/a%01", `{"name":"north"}`, "g-0", 400, "INVALID_ARGUMENT", "#/group", ""},
		{"DELETE", affinityGroups + "/none", "", "g-0", 404, "GROUP_NOT_FOUND", "", ""},
		{"DELETE", affinityGroups + "/a%01", "", "g-0", 400, "INVALID_ARGUMENT", "#/group", ""},
		{"DELETE", group, "", "", 428, "ETAG_REQUIRED", "", "g-0"},
		{"DELETE", group, "", "g-9", 412, "STALE_ETAG", "", "g-0"},
		{"GET", "/api/config/agents/nobody/failover-list", "", "", 404, "AGENT_NOT_FOUND", "", ""},
		{"GET", "/api/config/agents/lonely/failover-list", "", "", 404, "CONTROL_SERVER_NOT_FOUND", "", ""},
		{"GET", partitionEvents + "?startAt=yesterday", "", "", 400, "INVALID_ARGUMENT", "#/startAt", ""},
		{"GET", partitionEvents + "?pageToken=made-up", "", "", 400, "INVALID_ARGUMENT", "#/pageToken", ""},
		{"POST", "/api/config/agents/nobody:resetToken", "", "1-0", 404, "AGENT_NOT_FOUND", "", ""},
		{"POST", "/api/config/agents/a%01:resetToken", "", "1-0", 400, "INVALID_ARGUMENT", "#/agent", ""},
		{"POST", "/api/config/agents/bm-02:resetToken", "", "1-0", 409, "ALREADY_DECIDED", "", ""},
		{"POST", resetToken, "", "", 428, "ETAG_REQUIRED", "", "1-0"},
		{"POST", resetToken, `{"etag":"1-9"}`, "", 412, "STALE_ETAG", "", "1-0"},
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
	if registry.cloud.changes != 0 || registry.changes != 0 || strings.Contains(g.log.String(), "outcome=done") {
		t.Errorf("%d and %d changes were made", registry.cloud.changes, registry.changes)
	}
}

// A value that no mode has is named, with the field.
func TestI17_AModeThatIsNoneIsNamed(t *testing.T) {
	registry := startRegistry(t)
	g := startGateway(t, registry, nil)
	answered := g.do("PUT", controlServers+"/cs-1/mode", `{"mode":"REPAIR"}`, "If-Match", "c-0")
	if detail, _ := answered.fields["detail"].(string); answered.status != 400 || !strings.Contains(detail, `"REPAIR"`) || !strings.Contains(detail, "/mode") || !strings.Contains(detail, "nothing was done") {
		t.Errorf("%d %s", answered.status, answered.body)
	}
	if asked := registry.cloud.last(); asked != nil {
		t.Errorf("the registry was asked %v", asked)
	}
}

func TestWithoutTheRegistryNothingOfTheCloudIsChanged(t *testing.T) {
	for _, route := range append(cloudRoutes, struct {
		method, path, body, etag   string
		asks, answers, gives, acts string
	}{method: "POST", path: resetToken, etag: "1-0", acts: `"reset token of agent" agent=bm-01`}) {
		g := startGateway(t, &fakeRegistry{addr: "127.0.0.1:" + closedPort(t)}, nil)
		answered := g.do(route.method, route.path, route.body, "If-Match", route.etag)
		if answered.status != 503 || answered.reason() != "REGISTRY_UNAVAILABLE" || answered.header.Get("Retry-After") == "" || !strings.Contains(answered.body, "nothing was changed") {
			t.Errorf("%s %s: %d %s", route.method, route.path, answered.status, answered.body)
		}
		checkAudit(t, g, route.acts, "REGISTRY_UNAVAILABLE")
	}
}

// Of two operators who saw the same control server one decides, and the other is told what to read again; over gRPC as over REST.
func TestI14_OfDecisionsAboutAControlServerOneWins(t *testing.T) {
	registry := startRegistry(t)
	g := startGateway(t, registry, nil)
	cloud := operatorv1.NewCloudConfigClient(g.dial())
	weight := int32(50)
	won, err := cloud.UpdateControlServer(t.Context(), &operatorv1.UpdateControlServerRequest{Name: "cs-1", Etag: "c-0", Weight: &weight})
	if err != nil || won.GetEtag() != "c-1" {
		t.Fatalf("%v %v", won, err)
	}
	_, err = cloud.SetControlServerMode(t.Context(), &operatorv1.SetControlServerModeRequest{
		Name: "cs-1", Etag: "c-0", Mode: registryv1.ControlServerMode_CONTROL_SERVER_MODE_MAINTENANCE,
	})
	if found := fault.From(err); found == nil || found.Reason != fault.StaleEtag || found.CurrentEtag != "c-1" {
		t.Errorf("%v", err)
	}
	if answered := g.do("PUT", controlServers+"/cs-1/mode", intoMaintenance, "If-Match", "c-0"); answered.status != 412 || answered.header.Get("ETag") != `"c-1"` {
		t.Errorf("%d %s", answered.status, answered.body)
	}
	if registry.cloud.changes != 1 {
		t.Errorf("%d changes were made", registry.cloud.changes)
	}
}
