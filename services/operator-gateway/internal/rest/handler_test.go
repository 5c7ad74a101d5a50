package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/restserver"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/rpc"
)

var awkward = []string{
	"BM 01", "a/b", "/", "W3SVC$PROD", "a+b", "+", "Größe", "日本", "a.b.c", ".", "..", "...", "a:accept", ":reject", "agent:verifyHttp", "a%41", "100%",
	"%2F", "%", "a?b", "a#b", "a;b", "a,b", "user@host", "it's", "~", `back\slash`, "a&b=c", "..%2f..", "(x)[y]{z}", `"quoted"`, "a\tb", "services", "route",
}

func TestAwkwardNamesArriveAsTheyAre(t *testing.T) {
	f := newFace(t, authn.Local())
	for _, name := range awkward {
		t.Run(name, func(t *testing.T) {
			segment := url.PathEscape(name)
			calls := []struct {
				method, path string
				arrived      func() string
			}{
				{"GET", "/api/agents/" + segment + "/services", func() string { return last[*operatorv1.ListServicesRequest](f).GetAgent() }},
				{"POST", "/api/agents/a/services/" + segment + "/restart", func() string { return last[*operatorv1.RestartServiceRequest](f).GetService() }},
				{"POST", "/api/agents/a/iis/app-pools/" + segment + "/recycle", func() string { return last[*operatorv1.RecycleAppPoolRequest](f).GetPool() }},
				{"DELETE", "/api/agents/a/installations/" + segment, func() string { return last[*operatorv1.UninstallRequest](f).GetInstallation() }},
				{"GET", "/api/config/agents/" + segment, func() string { return last[*operatorv1.GetAgentRequest](f).GetAgent() }},
				{"POST", "/api/config/agents/" + segment + ":accept", func() string { return last[*operatorv1.AcceptAgentRequest](f).GetAgent() }},
				{"GET", "/api/config/servers/" + segment, func() string { return last[*operatorv1.GetServerRequest](f).GetServer() }},
				{"GET", "/api/availability/servers/" + segment, func() string { return last[*operatorv1.GetAvailabilityRequest](f).GetServer() }},
				{"DELETE", "/api/config/servers/" + segment + "/maintenance", func() string { return last[*operatorv1.ClearMaintenanceRequest](f).GetServer() }},
				{"PATCH", "/api/config/control-servers/" + segment, func() string { return last[*operatorv1.UpdateControlServerRequest](f).GetName() }},
				{"PATCH", "/api/config/affinity-groups/" + segment, func() string { return last[*operatorv1.UpdateAffinityGroupRequest](f).GetGroup() }},
				{"GET", "/api/config/agents/" + segment + "/failover-list", func() string { return last[*operatorv1.GetFailoverListRequest](f).GetAgent() }},
				{"DELETE", "/api/config/servers/" + segment + "/maintenance-windows/7", func() string { return last[*operatorv1.DeleteMaintenanceWindowRequest](f).GetServer() }},
			}
			for _, call := range calls {
				answered := f.do(call.method, call.path, "")
				if answered.StatusCode != http.StatusOK {
					t.Errorf("%s %s: %s %s", call.method, call.path, answered.Status, answered.body)
					continue
				}
				if got := call.arrived(); got != name {
					t.Errorf("%s %s arrived as %q", call.method, call.path, got)
				}
			}
		})
	}
}

func TestEveryCharacterMayStandInAName(t *testing.T) {
	f := newFace(t, authn.Local())
	for character := rune(1); character < 0x180; character++ {
		name := "a" + string(character) + "b"
		answered := f.do("GET", "/api/agents/"+url.PathEscape(name)+"/services", "")
		if answered.StatusCode != http.StatusOK {
			t.Fatalf("%q: %s %s", name, answered.Status, answered.body)
		}
		if got := last[*operatorv1.ListServicesRequest](f).GetAgent(); got != name {
			t.Errorf("%q arrived as %q", name, got)
		}
	}
}

func TestSegmentsMayBeEscapedMoreThanNeeded(t *testing.T) {
	f := newFace(t, authn.Local())
	for path, want := range map[string]string{
		"/api/agents/%42%4D%2D01/services": "BM-01", "/api/agents/a%2Eb/services": "a.b", "/api/agents/%2e%2e/services": "..",
		"/api/agents/a%3Aaccept/services": "a:accept", "/api/agents/a%2bb/services": "a+b", "/api/agents/a%2525/services": "a%25",
	} {
		if answered := f.do("GET", path, ""); answered.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, answered.body)
		} else if got := last[*operatorv1.ListServicesRequest](f).GetAgent(); got != want {
			t.Errorf("%s arrived as %q, not %q", path, got, want)
		}
	}
}

// An escaped colon belongs to the name; only a bare one begins a verb.
func TestAnAgentNamedLikeAVerbIsNoVerb(t *testing.T) {
	f := newFace(t, authn.Local())
	answered := f.do("POST", "/api/config/agents/a%3Aaccept", "")
	if answered.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST to an agent named a:accept: %s %s", answered.Status, answered.body)
	}
	f.askedNothing()
	f.do("POST", "/api/config/agents/a%3Aaccept:accept", "")
	if got := last[*operatorv1.AcceptAgentRequest](f).GetAgent(); got != "a:accept" {
		t.Errorf("accepted %q", got)
	}
}

// What cannot be read is answered with what can be.
func TestI17_RefusalsSayWhatIsAllowed(t *testing.T) {
	f := newFace(t, authn.Local())
	const windows, brake = "/api/config/servers/s/maintenance-windows", "/api/availability/brakes/HEARTBEAT_PATH_BUS"
	for _, row := range []struct{ method, path, body, allowed string }{
		{"GET", "/api/availability/servers?verdicts=DOWN", "", "VERDICT_AVAILABLE, VERDICT_UNAVAILABLE or VERDICT_UNKNOWN"},
		{"GET", "/api/availability/servers?held=maybe", "", "true or false"},
		{"GET", "/api/availability/servers?verdict=x", "", "which has verdicts, held, maintenance, disagrees, query, pageSize, pageToken"},
		{"GET", "/api/config/agents?unseenFor=week", "", "7d"},
		{"GET", "/api/agents/a/services?colour=x", "", "which has none"},
		{"PATCH", "/api/config/control-servers/c", `{"colour": 1}`, "there are etag, weight, standby and affinityGroup"},
		{"GET", "/api/availability/servers?pageSize=many", "", "one whole number"},
		{"GET", "/api/availability/servers?query=a&query=b", "", "one text"},
		{"GET", "/api/config/servers/s/offline-log?startAt=yesterday", "", "2026-03-29T01:30:00Z"},
		{"PUT", brake, "{}", "BRAKE_ORDER_APPLY, BRAKE_ORDER_HOLD or BRAKE_ORDER_NONE"},
		{"POST", windows, `{"reason": "r", "rule": {"duration": "2 hours"}}`, "seconds, such as 5400s"},
		{"POST", windows, `{"reason": "r", "rule": {"startAt": "tomorrow"}}`, "2026-03-29T01:30:00Z"},
	} {
		answered := f.do(row.method, row.path, row.body)
		if p := answered.problem; answered.StatusCode != 400 || len(p.Errors) != 1 || !strings.Contains(p.Errors[0].Detail, row.allowed) {
			t.Errorf("%s %s %s: %s %s", row.method, row.path, row.body, answered.Status, answered.body)
		}
	}
	f.askedNothing()
}

// Every row of what is refused over REST, with the pointer to what is wrong; nothing reaches a service.
func TestI17_BadInputNamesTheFieldAndReachesNothing(t *testing.T) {
	f := newFace(t, authn.Local())
	const restart, accept, agents = "/api/agents/a/services/s/restart", "/api/config/agents/a:accept", "/api/config/agents"
	const maintenance, windows, brake = "/api/config/servers/s/maintenance", "/api/config/servers/s/maintenance-windows", "/api/availability/brakes/HEARTBEAT_PATH_BUS"
	const mode = "/api/config/control-servers/c/mode"
	long := strings.Repeat("x", 129)
	for _, row := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		reason                   fault.Reason
		pointer                  string // "-": none
	}{
		{"unknown route", "GET", "/api/agent", "", nil, 404, fault.RouteNotFound, "-"},
		{"unknown route below a known one", "GET", "/api/agents/a/service", "", nil, 404, fault.RouteNotFound, "-"},
		{"trailing slash", "GET", "/api/agents/", "", nil, 404, fault.RouteNotFound, "-"},
		{"trailing slash where a name may stand", "GET", "/api/config/agents/", "", nil, 404, fault.RouteNotFound, "-"},
		{"trailing slash after a name", "GET", "/api/config/agents/a/", "", nil, 404, fault.RouteNotFound, "-"},
		{"trailing slash after a verb", "POST", accept + "/", "{}", nil, 404, fault.RouteNotFound, "-"},
		{"trailing slash in an OPTIONS", "OPTIONS", "/api/config/agents/", "", nil, 404, fault.RouteNotFound, "-"},
		{"doubled slash", "GET", "/api//agents", "", nil, 404, fault.RouteNotFound, "-"},
		{"wrong method", "DELETE", "/api/agents", "", nil, 405, fault.MethodNotAllowed, "-"},
		{"wrong method below", "GET", restart, "", nil, 405, fault.MethodNotAllowed, "-"},
		{"made up method", "BREW", "/api/agents", "", nil, 405, fault.MethodNotAllowed, "-"},
		{"wrong method on a page", "POST", "/openapi.json", "", nil, 405, fault.MethodNotAllowed, "-"},
		{"unknown field", "POST", accept, `{"createServer": {"url": "https://a.test", "colour": 1}}`, nil, 400, fault.InvalidArgument, "/createServer/colour"},
		{"unknown field at the top", "POST", restart, `{"force": true}`, nil, 400, fault.InvalidArgument, "/force"},
		{"unknown field in a list", "POST", agents + ":accept", `{"items": [{"name": "a"}, {"name": "b", "e-tag/": ""}]}`, nil, 400, fault.InvalidArgument, "/items/1/e-tag~1"},
		{"wrong type", "POST", accept, `{"createServer": {"url": 5}}`, nil, 400, fault.InvalidArgument, "/createServer/url"},
		{"wrong type in a list", "POST", agents + ":accept", `{"items": ["a"]}`, nil, 400, fault.InvalidArgument, "/items/0"},
		{"field twice", "POST", accept, `{"etag": "a", "etag": "b"}`, nil, 400, fault.InvalidArgument, "/etag"},
		{"not an object", "POST", restart, `[]`, nil, 400, fault.InvalidArgument, ""},
		{"null", "POST", restart, `null`, nil, 400, fault.InvalidArgument, ""},
		{"broken JSON", "POST", accept, `{"createServer": {"url": "https://a.test"`, nil, 400, fault.InvalidArgument, "/createServer"},
		{"broken value", "POST", accept, `{"createServer": {"url": nope}}`, nil, 400, fault.InvalidArgument, "/createServer/url"},
		{"trailing garbage", "POST", restart, `{} {}`, nil, 400, fault.InvalidArgument, ""},
		{"byte order mark", "POST", accept, "\uFEFF{}", nil, 400, fault.InvalidArgument, ""},
		{"half a character", "POST", accept, `{"createServer": {"url": "\ud83d"}}`, nil, 400, fault.InvalidArgument, "/createServer/url"},
		{"second half of a character", "POST", accept, `{"etag": "\ude00"}`, nil, 400, fault.InvalidArgument, "/etag"},
		{"half a character in a name", "POST", accept, `{"\ud83d": 1}`, nil, 400, fault.InvalidArgument, "/\uFFFD"},
		{"field in two spellings", "POST", accept, `{"serverName": "a", "server_name": "b"}`, nil, 400, fault.InvalidArgument, "/server_name"},
		{"two of which one may be given", "POST", "/api/agents:batch", `{"agents": ["a"], "startService": {"service": "s"}, "stop_service": {"service": "s"}}`, nil, 400, fault.InvalidArgument, "/stop_service"},
		{"null in a list", "POST", "/api/agents:batch", `{"agents": ["a", null]}`, nil, 400, fault.InvalidArgument, "/agents/1"},
		{"query parameter as the contract's file has it", "GET", agents + "?page_size=1001", "", nil, 400, fault.InvalidArgument, "#/page_size"},
		{"field as the contract's file has it", "POST", agents, `{"name": "a", "http_base_url": "http://a", "create_server": {"url": ""}}`, nil, 400, fault.InvalidArgument, "/create_server/url"},
		{"zero where a state is named", "GET", agents + "?states=Unknown", "", nil, 400, fault.InvalidArgument, "#/states"},
		{"query parameter that is empty", "GET", agents + "?pageSize=", "", nil, 400, fault.InvalidArgument, "#/pageSize"},
		{"invalid UTF-8", "POST", accept, "{\"etag\": \"\xff\"}", nil, 400, fault.InvalidArgument, "/etag"},
		{"field of the path in the body", "POST", restart, `{"agent": "other"}`, nil, 400, fault.InvalidArgument, "/agent"},
		{"body over 1 MiB", "POST", restart, `{"x":"` + strings.Repeat("a", MaxBodyBytes) + `"}`, nil, 413, fault.BodyTooLarge, "-"},
		{"body of another type", "POST", restart, `<restart/>`, []string{"Content-Type", "application/xml"}, 415, fault.UnsupportedMediaType, "-"},
		{"body of another character set", "POST", restart, `{}`, []string{"Content-Type", "application/json; charset=latin1"}, 415, fault.UnsupportedMediaType, "-"},
		{"compressed body", "POST", restart, `{}`, []string{"Content-Encoding", "gzip"}, 415, fault.UnsupportedMediaType, "-"},
		{"body where none is read", "DELETE", "/api/config/agents/a", `{"etag": "e"}`, nil, 400, fault.InvalidArgument, ""},
		{"unknown query parameter", "GET", agents + "?state=ACCEPTED", "", nil, 400, fault.InvalidArgument, "#/state"},
		{"query parameter that is no number", "GET", agents + "?pageSize=many", "", nil, 400, fault.InvalidArgument, "#/pageSize"},
		{"query parameter that is no name of a state", "GET", agents + "?states=Approved", "", nil, 400, fault.InvalidArgument, "#/states"},
		{"state without a meaning", "GET", agents + "?states=REGISTRATION_STATE_UNSPECIFIED", "", nil, 400, fault.InvalidArgument, "#/states/0"},
		{"verdict without a meaning", "GET", "/api/availability/servers?verdicts=VERDICT_UNSPECIFIED", "", nil, 400, fault.InvalidArgument, "#/verdicts/0"},
		{"server's state without a meaning", "GET", "/api/availability/servers?states=unspecified", "", nil, 400, fault.InvalidArgument, "#/states/0"},
		{"query parameter out of range", "GET", agents + "?pageSize=1001", "", nil, 400, fault.InvalidArgument, "#/pageSize"},
		{"query parameter twice", "GET", agents + "?pageSize=1&pageSize=2", "", nil, 400, fault.InvalidArgument, "#/pageSize"},
		{"query parameter in two spellings", "GET", agents + "?pageSize=1&page_size=2", "", nil, 400, fault.InvalidArgument, "#/page_size"},
		{"query parameter of the path", "GET", "/api/agents/a/services?agent=b", "", nil, 400, fault.InvalidArgument, "#/agent"},
		{"query where there are no parameters", "GET", "/api/agents/a/services?colour=red", "", nil, 400, fault.InvalidArgument, "#/colour"},
		{"query where the body is read", "POST", accept + "?etag=e", "", nil, 400, fault.InvalidArgument, "#/etag"},
		{"query that cannot be read", "GET", agents + "?a;b", "", nil, 400, fault.InvalidArgument, "#/query"},
		{"time that is none", "GET", "/api/config/servers/s/offline-log?startAt=yesterday", "", nil, 400, fault.InvalidArgument, "#/startAt"},
		{"name too long in the path", "GET", "/api/agents/" + long + "/services", "", nil, 400, fault.InvalidArgument, "#/agent"},
		{"name too long in the path, with a body", "POST", "/api/agents/" + long + "/services/s/restart", "{}", nil, 400, fault.InvalidArgument, "#/agent"},
		{"name missing in the path", "GET", "/api/agents//services", "", nil, 400, fault.InvalidArgument, "#/agent"},
		{"name too long in the body", "POST", agents, `{"httpBaseUrl": "http://a", "name": "` + long + `"}`, nil, 400, fault.InvalidArgument, "/name"},
		{"no package", "POST", "/api/agents/a/packages/sync", `{"packages": [ ]}`, nil, 400, fault.InvalidArgument, "/packages"},
		{"no package in a batch", "POST", "/api/agents:batch", `{"agents": ["a"], "sync_packages": {"packages": []}}`, nil, 400, fault.InvalidArgument, "/sync_packages/packages"},
		{"packages that are null", "POST", "/api/agents/a/packages/sync", `{"packages": null}`, nil, 400, fault.InvalidArgument, "/packages"},
		{"packages that are null in a batch", "POST", "/api/agents:batch", `{"agents": ["a"], "syncPackages": {"packages": null}}`, nil, 400, fault.InvalidArgument, "/syncPackages/packages"},
		{"a set that is null", "POST", "/api/agents/a/packages/sync", `{"wanted": {"packages": null}}`, nil, 400, fault.InvalidArgument, "/wanted/packages"},
		{"a set of no package", "POST", "/api/agents/a/packages/sync", `{"wanted": {"packages": []}}`, nil, 400, fault.InvalidArgument, "/wanted/packages"},
		{"a set that is left open", "POST", "/api/agents/a/packages/sync", `{"wanted": {}}`, nil, 400, fault.InvalidArgument, "/wanted/packages"},
		{"nothing in a batch", "POST", agents + ":accept", `{"items": []}`, nil, 400, fault.InvalidArgument, "/items"},
		{"bad UTF-8 in the path", "GET", "/api/agents/%ff/services", "", nil, 400, fault.InvalidArgument, "#/agent"},
		{"bad UTF-8 in the query", "GET", agents + "?query=%ff", "", nil, 400, fault.InvalidArgument, "#/query"},
		{"path that is none", "PUT", "/api/availability/brakes/train", `{"order": "BRAKE_ORDER_HOLD"}`, nil, 400, fault.InvalidArgument, "#/path"},
		{"path of no meaning", "PUT", "/api/availability/brakes/HEARTBEAT_PATH_UNSPECIFIED", `{"order": "BRAKE_ORDER_HOLD"}`, nil, 400, fault.InvalidArgument, "#/path"},
		{"order missing", "PUT", brake, "", nil, 400, fault.InvalidArgument, "/order"},
		{"order that is none", "PUT", brake, `{"order": "HALT"}`, nil, 400, fault.InvalidArgument, "/order"},
		{"path in the body too", "PUT", brake, `{"path": "HEARTBEAT_PATH_DIRECT"}`, nil, 400, fault.InvalidArgument, "/path"},
		{"number that is none in the path", "DELETE", windows + "/first", "", nil, 400, fault.InvalidArgument, "#/id"},
		{"number out of range in the path", "DELETE", windows + "/0", "", nil, 400, fault.InvalidArgument, "#/id"},
		{"body of a DELETE by number", "DELETE", windows + "/1", `{"reason": "r"}`, nil, 400, fault.InvalidArgument, ""},
		{"etag of what never changes", "DELETE", windows + "/1?etag=e", "", nil, 400, fault.InvalidArgument, "#/etag"},
		{"query of a PUT", "PUT", maintenance + "?reason=r", "", nil, 400, fault.InvalidArgument, "#/reason"},
		{"body missing of a PUT", "PUT", maintenance, "", nil, 400, fault.InvalidArgument, "/reason"},
		{"unknown field of a PUT", "PUT", maintenance, `{"reason": "r", "until": "x"}`, nil, 400, fault.InvalidArgument, "/until"},
		{"time that is none in a PUT", "PUT", maintenance, `{"reason": "r", "endAt": "tomorrow"}`, nil, 400, fault.InvalidArgument, "/endAt"},
		{"server of the path in a PUT", "PUT", maintenance, `{"reason": "r", "server": "t"}`, nil, 400, fault.InvalidArgument, "/server"},
		{"server's name too long in a PUT", "PUT", "/api/config/servers/" + long + long + "/maintenance", `{"reason": "r"}`, nil, 400, fault.InvalidArgument, "#/server"},
		{"unknown field of a rule", "POST", windows, `{"reason": "r", "rule": {"every": "day"}}`, nil, 400, fault.InvalidArgument, "/rule/every"},
		{"duration that is none", "POST", windows, `{"reason": "r", "rule": {"duration": "two hours"}}`, nil, 400, fault.InvalidArgument, "/rule/duration"},
		{"rule missing", "POST", windows, `{"reason": "r"}`, nil, 400, fault.InvalidArgument, "/rule"},
		{"mode that is none", "PUT", mode, `{"mode": "REPAIR"}`, nil, 400, fault.InvalidArgument, "/mode"},
		{"mode without a meaning", "PUT", mode, `{"mode": 7}`, nil, 400, fault.InvalidArgument, "/mode"},
		{"mode missing", "PUT", mode, `{"etag": "e"}`, nil, 400, fault.InvalidArgument, "/mode"},
		{"control server of the path in the body", "PUT", mode, `{"mode": "CONTROL_SERVER_MODE_NORMAL", "name": "d"}`, nil, 400, fault.InvalidArgument, "/name"},
		{"weight out of range", "PATCH", "/api/config/control-servers/c", `{"weight": 0}`, nil, 400, fault.InvalidArgument, "/weight"},
		{"mode where it is not set", "PATCH", "/api/config/control-servers/c", `{"mode": "CONTROL_SERVER_MODE_NORMAL"}`, nil, 400, fault.InvalidArgument, "/mode"},
		{"control server's name too long", "DELETE", "/api/config/control-servers/" + long, "", nil, 400, fault.InvalidArgument, "#/name"},
		{"group without a name", "POST", "/api/config/affinity-groups", `{"agents": ["a"]}`, nil, 400, fault.InvalidArgument, "/name"},
		{"group's new name empty", "PATCH", "/api/config/affinity-groups/g", `{"name": ""}`, nil, 400, fault.InvalidArgument, "/name"},
		{"group's name too long in the path", "PATCH", "/api/config/affinity-groups/" + long, `{"name": "h"}`, nil, 400, fault.InvalidArgument, "#/group"},
		{"events' page too large", "GET", "/api/config/partition-events?pageSize=1001", "", nil, 400, fault.InvalidArgument, "#/pageSize"},
		{"route of the control servers", "POST", "/agent/v1/heartbeat", `{}`, nil, 404, fault.RouteNotFound, "-"},
		{"unknown verdict", "GET", "/api/availability/servers?verdicts=DOWN", "", nil, 400, fault.InvalidArgument, "#/verdicts"},
		{"filter of a watch", "GET", "/api/availability:watch?server=a", "", nil, 400, fault.InvalidArgument, "#/server"},
		{"body of a watch", "GET", "/api/availability:watch", `{}`, nil, 400, fault.InvalidArgument, ""},
		{"watch by POST", "POST", "/api/availability:watch", `{}`, nil, 405, fault.MethodNotAllowed, "-"},
		{"timeout that is none of a watch", "GET", "/api/availability:watch", "", []string{"Grpc-Timeout", "soon"}, 400, fault.InvalidArgument, "#/Grpc-Timeout"},
		{"timeout that is none", "GET", agents, "", []string{"Grpc-Timeout", "soon"}, 400, fault.InvalidArgument, "#/Grpc-Timeout"},
		{"page of another origin", "POST", restart, "", []string{"Origin", "https://evil.test", "Sec-Fetch-Site", "cross-site"}, 403, fault.PermissionDenied, "-"},
		{"name rebound to loopback", "GET", agents, "", []string{"Host", "evil.test"}, 403, fault.PermissionDenied, "-"},
	} {
		t.Run(row.name, func(t *testing.T) {
			answered := f.do(row.method, row.path, row.body, row.headers...)
			p := answered.problem
			if answered.StatusCode != row.status || p.Reason != string(row.reason) {
				t.Fatalf("%s %s: %s %s", row.method, row.path, answered.Status, answered.body)
			}
			switch {
			case row.pointer == "-" && len(p.Errors) > 0, row.pointer != "-" && (len(p.Errors) != 1 || p.Errors[0].Pointer != row.pointer || p.Errors[0].Detail == ""):
				t.Errorf("points at %v, not at %q", p.Errors, row.pointer)
			}
			if strings.Contains(p.Detail, "; nothing was changed") && len(p.Errors) == 1 && !strings.HasPrefix(p.Detail, row.pointer+": ") {
				t.Errorf("points at %q, and says %q", row.pointer, p.Detail)
			}
			if row.status == 405 && answered.Header.Get("Allow") == "" {
				t.Error("there is no Allow header")
			}
			if answered.Header.Get("Retry-After") != "" {
				t.Error("says to try again what will never do")
			}
			if strings.Contains(string(answered.body), "\u00a0") {
				t.Errorf("holds a blank that protobuf varies: %q", answered.body)
			}
			if lines := f.log.lines(answered.Header.Get("X-Request-Id")); len(lines) != 1 {
				t.Errorf("%d log lines for one request: %v", len(lines), lines)
			}
			f.askedNothing()
		})
	}
}

// A name that ends like a verb of another route leaves the parameters of its own.
func TestQueryOfAnAgentNamedLikeAVerb(t *testing.T) {
	f := newFace(t, authn.Local())
	if answered := f.do("DELETE", "/api/config/agents/a:accept?etag=e", ""); answered.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", answered.Status, answered.body)
	}
	if asked := last[*operatorv1.RemoveAgentRequest](f); asked.GetAgent() != "a:accept" || asked.GetEtag() != "e" {
		t.Errorf("asked %v", asked)
	}
}

// Values of enums may be given in short, in any case, wherever one is read; what is answered has the whole names. Durations may be
// given as people write them.
func TestShortFormsAreTaken(t *testing.T) {
	f := newFace(t, authn.Local())
	f.do("GET", "/api/config/agents?states=pending&states=Accepted&transport=service-bus", "")
	if asked := last[*operatorv1.ListConfigAgentsRequest](f); len(asked.GetStates()) != 2 || asked.GetStates()[0] != registryv1.RegistrationState_REGISTRATION_STATE_PENDING ||
		asked.GetStates()[1] != registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED || asked.GetTransport() != registryv1.Transport_TRANSPORT_SERVICE_BUS {
		t.Errorf("asked %v", asked)
	}
	for _, mode := range []string{`"MAINTENANCE"`, `"maintenance"`, `"CONTROL_SERVER_MODE_MAINTENANCE"`, `2`} {
		f.do("PUT", "/api/config/control-servers/c/mode", `{"etag": "e", "mode": `+mode+`}`)
		if asked := last[*operatorv1.SetControlServerModeRequest](f); asked.GetMode() != registryv1.ControlServerMode_CONTROL_SERVER_MODE_MAINTENANCE || asked.GetEtag() != "e" {
			t.Errorf("%s: asked %v", mode, asked)
		}
	}
	for _, path := range []string{"bus", "BUS", "heartbeat_path_bus", "1"} {
		f.do("PUT", "/api/availability/brakes/"+path, `{"order": "hold"}`)
		if asked := last[*operatorv1.OrderBrakeRequest](f); asked.GetPath() != registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS || asked.GetOrder() != availabilityv1.BrakeOrder_BRAKE_ORDER_HOLD {
			t.Errorf("%s: asked %v", path, asked)
		}
	}
	for text, want := range map[string]time.Duration{"5400s": 90 * time.Minute, "2h": 2 * time.Hour, "PT2H": 2 * time.Hour, "1h30m": 90 * time.Minute, "1d": 24 * time.Hour, "P1DT1S": 24*time.Hour + time.Second} {
		f.do("POST", "/api/config/servers/s/maintenance-windows", `{"reason": "r", "rule": {"duration": "`+text+`"}}`)
		if asked := last[*operatorv1.CreateMaintenanceWindowRequest](f); asked.GetRule().GetDuration().AsDuration() != want {
			t.Errorf("%s: asked %v", text, asked)
		}
	}
	f.answering(func(context.Context, proto.Message) (proto.Message, error) {
		return &registryv1.Agent{RegistrationState: registryv1.RegistrationState_REGISTRATION_STATE_PENDING}, nil
	})
	if answered := f.do("GET", "/api/config/agents/a", ""); !strings.Contains(string(answered.body), `"REGISTRATION_STATE_PENDING"`) {
		t.Errorf("answered %s", answered.body)
	}
}

// OPTIONS * asks about the server, not about a path; no other method has that target.
func TestTheServerSaysItsMethods(t *testing.T) {
	f := newFace(t, authn.Local())
	for method, want := range map[string]struct {
		status      int
		allow, says string
	}{
		"OPTIONS": {http.StatusNoContent, "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT", ""},
		"GET":     {http.StatusBadRequest, "", "#/path: must begin with a slash"},
	} {
		request, answered := httptest.NewRequest(method, "*", nil), httptest.NewRecorder()
		request.Host = "localhost"
		f.handler.ServeHTTP(answered, request)
		if answered.Code != want.status || answered.Header().Get("Allow") != want.allow || !strings.Contains(answered.Body.String(), want.says) {
			t.Errorf("%s *: %d, Allow %q, %s", method, answered.Code, answered.Header().Get("Allow"), answered.Body)
		}
	}
}

func TestAllowListsWhatThePathHas(t *testing.T) {
	f := newFace(t, authn.Local())
	for path, want := range map[string]string{
		"/api/config/agents/a": "DELETE, GET, HEAD, OPTIONS, PATCH", "/api/agents": "GET, HEAD, OPTIONS", "/api/config/agents": "GET, HEAD, OPTIONS, POST", "/": "GET, HEAD, OPTIONS",
		"/api/config/servers/a/maintenance": "DELETE, GET, HEAD, OPTIONS, PUT", "/api/config/servers/a/maintenance-windows/1": "DELETE, OPTIONS",
		"/api/config/servers/a/maintenance-windows": "GET, HEAD, OPTIONS, POST", "/api/config/servers/a/maintenance-windows:preview": "OPTIONS, POST",
		"/api/availability/brakes/HEARTBEAT_PATH_BUS": "OPTIONS, PUT", "/api/availability:watch": "GET, HEAD, OPTIONS", "/api/agents:batch": "OPTIONS, POST",
		"/api/config/control-servers": "GET, HEAD, OPTIONS", "/api/config/control-servers/c": "DELETE, OPTIONS, PATCH", "/api/config/control-servers/c/mode": "OPTIONS, PUT",
	} {
		for _, method := range []string{"BREW", "OPTIONS"} {
			if got := f.do(method, path, "").Header.Get("Allow"); got != want {
				t.Errorf("%s %s: Allow %q, not %q", method, path, got, want)
			}
		}
	}
	if answered := f.do("OPTIONS", "/api/nothing", ""); answered.StatusCode != http.StatusNotFound {
		t.Errorf("OPTIONS of no route: %s", answered.Status)
	}
}

func TestHeadIsGetWithoutABody(t *testing.T) {
	f := newFace(t, authn.Local())
	answered := f.do("HEAD", "/api/agents/a/services", "")
	if answered.StatusCode != http.StatusOK || len(answered.body) != 0 || answered.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("HEAD: %s %q %v", answered.Status, answered.body, answered.Header)
	}
	last[*operatorv1.ListServicesRequest](f)
}

func TestPagesSayWhereToLook(t *testing.T) {
	f := newFace(t, authn.Local())
	answered := f.do("GET", "/", "")
	for _, want := range []string{
		"/openapi.json", "/api/availability/servers", "/maintenance", "/api/config/control-servers", "/api/config/affinity-groups", "/api/config/partition-events",
	} {
		if answered.StatusCode != http.StatusOK || !strings.Contains(string(answered.body), want+" ") {
			t.Errorf("/ does not name %s: %s %s", want, answered.Status, answered.body)
		}
	}
}

func TestEtagTravelsAsHeaders(t *testing.T) {
	f := newFace(t, authn.Local())
	var seen []string
	f.answering(func(ctx context.Context, request proto.Message) (proto.Message, error) {
		incoming, _ := metadata.FromIncomingContext(ctx)
		seen = incoming.Get(rpc.IfMatch)
		switch request.(type) {
		case *operatorv1.AcceptAgentRequest:
			return &operatorv1.AcceptedAgent{Agent: &registryv1.Agent{Etag: "7-2"}}, nil
		case *operatorv1.GetServerRequest:
			return &registryv1.Server{Etag: "s-1"}, nil
		case *operatorv1.GetMaintenanceRequest, *operatorv1.SetMaintenanceRequest, *operatorv1.ClearMaintenanceRequest:
			return &availabilityv1.Maintenance{Manual: &availabilityv1.MaintenanceSwitch{Etag: "m-1"}}, nil
		case *operatorv1.UpdateControlServerRequest, *operatorv1.SetControlServerModeRequest:
			return &registryv1.ControlServer{Etag: "c-1"}, nil
		case *operatorv1.UpdateAffinityGroupRequest, *operatorv1.CreateAffinityGroupRequest:
			return &registryv1.AffinityGroup{Etag: "g-1"}, nil
		case *operatorv1.OrderBrakeRequest:
			return &availabilityv1.PathStatus{Etag: "b-1"}, nil
		case *operatorv1.RemoveAgentRequest:
			return nil, fault.New(fault.StaleEtag, "changed meanwhile").WithAgent("BM-1").WithEtag("7-9")
		}
		return &registryv1.Agent{Etag: "7-1"}, nil
	})
	if got := f.do("GET", "/api/config/agents/a", "").Header.Get("ETag"); got != `"7-1"` {
		t.Errorf("the agent's ETag is %s", got)
	}
	if got := f.do("GET", "/api/config/servers/a", "").Header.Get("ETag"); got != `"s-1"` {
		t.Errorf("the server's ETag is %s", got)
	}
	if got := f.do("POST", "/api/config/agents/a:accept", "", "If-Match", `W/"7-1"`).Header.Get("ETag"); got != `"7-2"` || len(seen) != 1 || seen[0] != `W/"7-1"` {
		t.Errorf("accepted under %s from %q", got, seen)
	}
	for method, body := range map[string]string{"GET": "", "PUT": `{"reason": "r"}`, "DELETE": ""} {
		if got := f.do(method, "/api/config/servers/a/maintenance", body, "If-Match", `"m-0"`).Header.Get("ETag"); got != `"m-1"` || len(seen) != 1 || seen[0] != `"m-0"` {
			t.Errorf("%s of maintenance gives %s from %q", method, got, seen)
		}
	}
	if got := f.do("PUT", "/api/availability/brakes/HEARTBEAT_PATH_BUS", `{"order": "BRAKE_ORDER_HOLD"}`, "If-Match", `"b-0"`).Header.Get("ETag"); got != `"b-1"` || len(seen) != 1 || seen[0] != `"b-0"` {
		t.Errorf("the brake gives %s from %q", got, seen)
	}
	for _, row := range []struct{ method, path, body, want string }{
		{"PATCH", "/api/config/control-servers/c", "", `"c-1"`},
		{"PUT", "/api/config/control-servers/c/mode", `{"mode": "CONTROL_SERVER_MODE_MAINTENANCE"}`, `"c-1"`},
		{"PATCH", "/api/config/affinity-groups/g", "", `"g-1"`},
		{"POST", "/api/config/affinity-groups", `{"name": "g"}`, `"g-1"`},
	} {
		if got := f.do(row.method, row.path, row.body, "If-Match", `"e-0"`).Header.Get("ETag"); got != row.want || len(seen) != 1 || seen[0] != `"e-0"` {
			t.Errorf("%s %s gives %s from %q", row.method, row.path, got, seen)
		}
	}
	stale := f.do("DELETE", "/api/config/agents/a", "", "If-Match", `"7-1"`)
	if stale.StatusCode != http.StatusPreconditionFailed || stale.problem.CurrentEtag != "7-9" || stale.Header.Get("ETag") != `"7-9"` || stale.problem.Agent != "BM-1" {
		t.Errorf("stale: %s %s", stale.Status, stale.body)
	}
}

func TestEmptyListsAndPlainValuesAreThere(t *testing.T) {
	f := newFace(t, authn.Local())
	answered := f.do("GET", "/api/agents", "")
	if string(answered.body) != `{"agents":[],"nextPageToken":"","total":0}`+"\n" || answered.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v %s", answered.Header, answered.body)
	}
}

func TestRequestIDGoesInAndOut(t *testing.T) {
	f := newFace(t, authn.Local())
	f.answering(func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		return nil, fault.New(fault.RegistryUnavailable, "no registry").WithCause(errors.New("the cause"))
	})
	answered := f.do("GET", "/api/agents", "", "X-Request-Id", "order-66")
	if answered.Header.Get("X-Request-Id") != "order-66" || answered.problem.Instance != "urn:commandcenter:request:order-66" {
		t.Errorf("%v %s", answered.Header, answered.body)
	}
	lines := f.log.lines("order-66")
	if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0]["error"]), "the cause") || strings.Contains(string(answered.body), "the cause") {
		t.Errorf("the cause belongs into the one log line, and not into the answer: %v; %s", lines, answered.body)
	}
	if id := f.do("GET", "/api/agents", "", "X-Request-Id", "bad id\"").Header.Get("X-Request-Id"); id == "" || strings.Contains(id, " ") {
		t.Errorf("a malformed id was taken: %q", id)
	}
}

// A write whose caller stopped waiting may have been carried out; it must not read as one that was not.
func TestI3_AWriteThatRanOutOfTimeMayHaveRun(t *testing.T) {
	f := newFace(t, authn.Local())
	release := make(chan struct{})
	f.answering(func(context.Context, proto.Message) (proto.Message, error) {
		<-release // later than its caller waits
		return nil, nil
	})
	defer close(release)
	write := f.do("POST", "/api/agents/a/services/s/restart", "", "Grpc-Timeout", "50m")
	if write.StatusCode != 503 || write.problem.Reason != string(fault.OutcomeUnknown) || write.Header.Get("Retry-After") != "" {
		t.Errorf("write: %s %s", write.Status, write.body)
	}
	read := f.do("GET", "/api/agents/a/services", "", "Grpc-Timeout", "50m")
	if read.problem.Reason != string(fault.ReadTimeout) {
		t.Errorf("read: %s %s", read.Status, read.body)
	}
}

// The time for the body must not run on while the command does, which would end it.
func TestTheBodysTimeDoesNotEndTheCommand(t *testing.T) {
	f := newFace(t, authn.Local())
	f.handler.bodyTimeout = 50 * time.Millisecond
	f.answering(func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		timer := time.NewTimer(6 * f.handler.bodyTimeout)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return nil, fault.New(fault.OutcomeUnknown, "ended by the front")
		case <-timer.C:
			return nil, nil
		}
	})
	for _, body := range []string{"", `{}`} {
		if answered := f.do("POST", "/api/agents/a/services/s/restart", body); answered.StatusCode != http.StatusOK {
			t.Errorf("with body %q: %s %s", body, answered.Status, answered.body)
		}
	}
}

func TestABodyThatDoesNotArriveIsGivenUp(t *testing.T) {
	f := newFace(t, authn.Local())
	f.handler.bodyTimeout = 50 * time.Millisecond
	conn, err := net.Dial("tcp", f.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /api/agents/a/services/s/restart HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var p restserver.Problem
	if err := json.NewDecoder(response.Body).Decode(&p); err != nil || response.StatusCode != 408 || !strings.Contains(p.Detail, "did not arrive in time") {
		t.Errorf("%s %v %v", response.Status, p, err)
	}
	f.askedNothing()
}

func TestADisconnectedCallerEndsItsRead(t *testing.T) {
	f := newFace(t, authn.Local())
	begun, ended := make(chan struct{}), make(chan error, 1)
	f.answering(func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	request, _ := http.NewRequestWithContext(ctx, "GET", f.URL+"/api/agents/a/services", nil)
	go func() { <-begun; cancel() }()
	if response, err := f.Client().Do(request); err == nil {
		response.Body.Close()
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the read went on without its caller")
	}
}

func TestAPanicIsAProblemAndALogLine(t *testing.T) {
	f := newFace(t, authn.Local())
	f.handler.mux = nil // whatever it is that breaks
	answered := f.do("GET", "/api/agents", "")
	if answered.problem.Reason != string(fault.Internal) || strings.Contains(string(answered.body), "nil pointer") {
		t.Errorf("%s %s", answered.Status, answered.body)
	}
	if lines := f.log.lines(answered.Header.Get("X-Request-Id")); len(lines) != 1 || lines[0]["level"] != "ERROR" || !strings.Contains(fmt.Sprint(lines[0]["error"]), "nil pointer") {
		t.Errorf("logged as %v", lines)
	}
}

func TestOneLogLineAndOneMeasureForEachRequest(t *testing.T) {
	f := newFace(t, authn.Local())
	for _, call := range []struct{ method, path string }{
		{"GET", "/api/agents"}, {"GET", "/"}, {"OPTIONS", "/api/agents"}, {"POST", "/api/agents/a/services/s/restart"}, {"GET", "/nowhere"}, {"BREW", "/api/agents"},
	} {
		answered := f.do(call.method, call.path, "")
		if lines := f.log.lines(answered.Header.Get("X-Request-Id")); len(lines) != 1 || lines[0]["duration"] == nil {
			t.Errorf("%s %s: %d lines: %v", call.method, call.path, len(lines), lines)
		}
	}
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]bool{}
	for _, metric := range families[0].GetMetric() {
		var labels []string
		for _, label := range metric.GetLabel() {
			labels = append(labels, label.GetValue())
		}
		series[strings.Join(labels, " ")] = true
	}
	for _, want := range []string{"GET /api/agents 200", "POST /api/agents/{agent}/services/{service}/restart 200", "GET  404", "other /api/agents 405"} {
		if !series[want] {
			t.Errorf("no measure %q among %v", want, series)
		}
	}
}
