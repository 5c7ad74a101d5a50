package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"

	"github.com/commandcenter/fleet/deploy/story"
)

// oddRoute is one route of the contract.
type oddRoute struct {
	method, template string
	input            protoreflect.MessageDescriptor
}

// oddRoutes are all routes of all services, other spellings included.
func oddRoutes() []oddRoute {
	var routes []oddRoute
	for _, file := range []protoreflect.FileDescriptor{
		operatorv1.File_commandcenter_operator_v1_operations_proto, operatorv1.File_commandcenter_operator_v1_config_proto,
		operatorv1.File_commandcenter_operator_v1_availability_proto, operatorv1.File_commandcenter_operator_v1_cloud_proto,
		heartbeatv1.File_commandcenter_heartbeat_v1_ingress_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				rule, _ := proto.GetExtension(methods.Get(j).Options(), annotations.E_Http).(*annotations.HttpRule)
				for _, one := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
					for method, template := range map[string]string{
						"GET": one.GetGet(), "POST": one.GetPost(), "PUT": one.GetPut(), "PATCH": one.GetPatch(), "DELETE": one.GetDelete(),
					} {
						if template != "" {
							routes = append(routes, oddRoute{method, template, methods.Get(j).Input()})
						}
					}
				}
			}
		}
	}
	return routes
}

func (r oddRoute) takesBody() bool {
	return r.method == "POST" || r.method == "PUT" || r.method == "PATCH"
}

var oddParameter = regexp.MustCompile(`\{([^}]+)\}`)

// usual are values with which a path leads to something that is there.
var usual = map[string]string{
	"agent": story.Both, "server": story.Both, "service": "W3SVC", "pool": "DefaultAppPool", "installation": "i-1", "command_id": "6f1d8a34-35b0-4a0e-9f34-0f2a3b1d7c55",
	"id": "1", "path": "HEARTBEAT_PATH_BUS", "group": "g", "name": "local",
}

// path is the route's path with one parameter given, and the others as usual.
func (r oddRoute) path(parameter, escaped string) string {
	return oddParameter.ReplaceAllStringFunc(r.template, func(found string) string {
		if name := found[1 : len(found)-1]; name != parameter {
			return usual[name]
		}
		return escaped
	})
}

var huge = strings.Repeat("x", 20_000)

// oddTexts are odd values of a parameter, not yet escaped.
func oddTexts(field protoreflect.FieldDescriptor) []string {
	texts := []string{
		"", " ", "0", "-0", "-1", "1", "1.5", "1e3", "1e999", "0x10", "+1", "2147483648", "-2147483649", "9223372036854775808", "99999999999999999999999", "NaN", "Infinity",
		"-Infinity", "null", "true", "TRUE", "yes", "[]", "{}", `"x"`, "x\x00y", "\x00", "\xff", "\xed\xa0\x80", "\u202e", "\uFEFF", "😀", "a,b", "a/b", "..", "%", "%zz",
		"\r\nX-Injected: 1", "' OR 1=1 --", "[a-", "%_", "*", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "10000-01-01T00:00:00Z", "2026-03-29T01:30:00",
		"-1s", "0s", "0.0000000001s", "315576000000s", "99999999999999s", "P1Y", "2h", "name desc", "name desc, state", "eyJzIjoiIn0", "e30", "bnVsbA", huge,
	}
	if field != nil && field.Enum() != nil {
		for i := range field.Enum().Values().Len() {
			value := field.Enum().Values().Get(i)
			texts = append(texts, string(value.Name()), strings.ToLower(string(value.Name())), strconv.Itoa(int(value.Number())))
		}
	}
	return texts
}

// oddValues are odd values of a field, as JSON or nearly.
func oddValues(field protoreflect.FieldDescriptor) []string {
	values := []string{
		"null", "true", "false", "0", "-0", "-1", "1", "1.5", "1e3", "1e999", "2147483648", "9223372036854775808", "1" + strings.Repeat("0", 400), `""`, `" "`, `"x"`, `"0"`,
		`"NaN"`, `"Infinity"`, "NaN", `"\u0000"`, `"\ud800"`, `"\udc00\ud800"`, "\"\xff\"", "\"\x01\"", `"😀"`, "[]", "{}", "[null]", "[{}]", `{"":""}`, `{"a":{"b":[{}]}}`,
		`["x","x"]`, `[["x"]]`, strings.Repeat("[", 500) + strings.Repeat("]", 500), strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200), `"` + huge + `"`,
		`"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59.999999999Z"`, `"10000-01-01T00:00:00Z"`, `"yesterday"`, `"-1s"`, `"315576000000s"`, `"99999999999999s"`, `"P1Y"`,
		`"http://a b"`, `"http://[::1"`, `"http://%zz"`, `":"`, `"http://a:99999"`, `"1:2"`, `"FREQ=SECONDLY"`, "",
	}
	if field.Enum() != nil {
		for i := range field.Enum().Values().Len() {
			value := field.Enum().Values().Get(i)
			values = append(values, strconv.Quote(string(value.Name())), strconv.Itoa(int(value.Number())), fmt.Sprintf("[%q]", value.Name()))
		}
	}
	return values
}

// internals are traces of what our services are made of.
var internals = regexp.MustCompile(`goroutine |runtime error|panic|nil pointer|\.go:\d|proto:|strconv\.|json:|[rR]egex|regular expression|\[A-Za|first path segment|` +
	`interface conversion|google\.protobuf|[uU]nmarshal|invalid character|invalid URL|net/url|parse "|SQL logic|syntax error|no such column|constraint failed|rpc error`)

// odd is a system that is asked oddly.
type odd struct {
	client *http.Client
	gateway,
	control string // base URLs
}

func startOdd(t testing.TB) odd {
	t.Helper()
	world, stop, err := storyAt(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	asked := odd{client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 4}}, gateway: world.Client.Base}
	t.Cleanup(asked.client.CloseIdleConnections)
	deadline := time.Now().Add(30 * time.Second)
	for asked.control == "" && time.Now().Before(deadline) {
		answer, err := world.Client.Do(t.Context(), http.MethodGet, "/api/config/control-servers", nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if servers := answer.List("servers"); len(servers) > 0 {
			asked.control, _ = servers[0]["restEndpoint"].(string)
		}
	}
	if asked.control == "" {
		t.Fatal("there is no control server")
	}
	return asked
}

// ask asks, and says what is wrong with the answer; empty: nothing.
func (o odd) ask(ctx context.Context, r oddRoute, path, query, body string) string {
	base := o.gateway
	if strings.HasPrefix(r.template, "/agent/") {
		base = o.control
	}
	target := base + path
	if query != "" {
		target += "?" + query
	}
	request, err := http.NewRequestWithContext(ctx, r.method, target, strings.NewReader(body))
	if err != nil {
		return "" // no client can send it
	}
	if r.takesBody() {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Grpc-Timeout", "20S")
	request.Header.Set("If-Match", `"e"`)
	if strings.Contains(r.template, "watch") {
		request.Header.Set("Grpc-Timeout", "50m") // or it would go on
	}
	response, err := o.client.Do(request)
	if err != nil {
		return "was not answered: " + err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	shown := fmt.Sprintf("%s %.600s", response.Status, text)
	switch {
	case err != nil:
		return "broke off: " + err.Error()
	case response.StatusCode == http.StatusInternalServerError || response.StatusCode == http.StatusBadGateway:
		return shown
	case response.StatusCode >= 400 && response.Header.Get("Content-Type") != "application/problem+json":
		return "is no problem: " + shown
	case response.StatusCode >= 400 && internals.Match(bytes.ReplaceAll(text, []byte(huge), nil)):
		return "tells of what we are made of: " + shown
	case response.StatusCode == http.StatusBadRequest && !bytes.Contains(text, []byte("the request is not HTTP")) && !bytes.Contains(text, []byte(`"pointer"`)):
		return "names no field: " + shown
	case !json.Valid(text) && response.Header.Get("Content-Type") != "application/x-ndjson" && len(text) > 0:
		return "is no JSON: " + shown
	}
	return ""
}

// TestI17_NothingOddIsAnInternalError gives every field of every route every odd value of its kind, in the query, in the path and in the
// body, to a whole system.
func TestI17_NothingOddIsAnInternalError(t *testing.T) {
	asked := startOdd(t)
	count := 0
	try := func(r oddRoute, path, query, body string) {
		count++
		if wrong := asked.ask(t.Context(), r, path, query, body); wrong != "" {
			t.Errorf("%s %.200s?%.200s %.200s: %s", r.method, path, query, body, wrong)
		}
	}
	for _, r := range oddRoutes() {
		var inPath []string
		for _, match := range oddParameter.FindAllStringSubmatch(r.template, -1) {
			inPath = append(inPath, match[1])
			for _, text := range oddTexts(r.input.Fields().ByTextName(match[1])) {
				body := ""
				if r.takesBody() {
					body = "{}"
				}
				try(r, r.path(match[1], url.PathEscape(text)), "", body)
			}
			for _, text := range []string{"%", "%zz", "%2", "a%2Fb", "%2e%2e", "a;b", ":accept", "a:accept", "%00"} {
				try(r, r.path(match[1], text), "", "")
			}
		}
		plain := r.path("", "")
		for _, query := range []string{"a;b", "%zz=1", "%ff=1", "=", "&&", "unknown=1", "a[b]=c", "page_size=1&pageSize=2", "states=0", "%00=1"} {
			try(r, plain, query, "")
		}
		for _, body := range []string{"null", "[]", `"x"`, "{", "{}{}", "\uFEFF{}", `{"":1}`, `{"\ud800":1}`, "\x00", "\x1f\x8b", "{\"a\":\"\xff\"}", strings.Repeat("[", 20_000)} {
			try(r, plain, "", body)
		}
		tryFields(r, inPath, plain, try)
	}
	t.Logf("%d requests", count)
	if count < 5000 {
		t.Errorf("only %d requests were made", count)
	}
}

// tryFields gives each field of a route's message, and of the messages in it, its odd values.
func tryFields(r oddRoute, inPath []string, path string, try func(r oddRoute, path, query, body string)) {
	for i := range r.input.Fields().Len() {
		field := r.input.Fields().Get(i)
		if slices.Contains(inPath, string(field.Name())) {
			continue
		}
		if !r.takesBody() {
			for _, text := range oddTexts(field) {
				try(r, path, url.QueryEscape(field.JSONName())+"="+url.QueryEscape(text), "")
				try(r, path, string(field.Name())+"="+url.QueryEscape(text)+"&"+string(field.Name())+"=x", "")
			}
			continue
		}
		oddBodies(field, 3, func(body string) {
			try(r, path, "", body)
			if whole := beside(r.input, inPath, field, body); whole != body { // so that what comes after the first refusal is reached
				try(r, path, "", whole)
			}
		})
	}
}

// usualBodies are values with which a request of the contract is good, by the field's name.
var usualBodies = map[string]string{
	"name": `"BM-ODD"`, "url": `"https://odd.example"`, "http_base_url": `"http://127.0.0.1:9"`, "reason": `"r"`, "order": `"HOLD"`, "mode": `"NORMAL"`, "agents": `["BM-ODD"]`,
	"rule": `{"startAt":"2999-01-01T00:00:00Z","endAt":"2999-01-01T01:00:00Z"}`, "items": `[{"name":"BM-ODD","etag":"e"}]`, "start_service": `{"service":"W3SVC"}`,
	"token": `"` + strings.Repeat("t", 43) + `"`, "enrolment_key": `"fake-key"`, "heartbeat": `{"name":"BM-ODD"}`,
}

// beside puts the usual values of a message's other fields beside an object with one field.
func beside(message protoreflect.MessageDescriptor, inPath []string, field protoreflect.FieldDescriptor, body string) string {
	whole := strings.TrimSuffix(body, "}")
	for i := range message.Fields().Len() {
		other := message.Fields().Get(i)
		value := usualBodies[string(other.Name())]
		if value == "" || other == field || slices.Contains(inPath, string(other.Name())) || (other.ContainingOneof() != nil && other.ContainingOneof() == field.ContainingOneof()) {
			continue
		}
		whole += "," + strconv.Quote(other.JSONName()) + ":" + value
	}
	return whole + "}"
}

// oddBodies makes objects with one field of an odd value, and those of the fields below it.
func oddBodies(field protoreflect.FieldDescriptor, depth int, made func(string)) {
	name := strconv.Quote(field.JSONName())
	for _, value := range oddValues(field) {
		made("{" + name + ":" + value + "}")
		if field.IsList() {
			made("{" + name + ":[" + value + "]}")
		}
	}
	made("{" + name + ":null," + name + ":null}")
	message := field.Message()
	if message == nil || depth == 0 || message.ParentFile().Package() == "google.protobuf" {
		return
	}
	for i := range message.Fields().Len() {
		oddBodies(message.Fields().Get(i), depth-1, func(body string) {
			if field.IsList() {
				body = "[" + body + "]"
			}
			made("{" + name + ":" + body + "}")
		})
	}
}

// FuzzRequests asks a whole system whatever the fuzzer makes up.
func FuzzRequests(f *testing.F) {
	f.Add(uint(0), "states=0", "", "")
	f.Add(uint(1), "pageSize=-1", "a", `{"items":[{}]}`)
	f.Add(uint(9), "verdicts=VERDICT_UNSPECIFIED", "%00", `{"createServer":{"url":"http://[::1"}}`)
	f.Add(uint(30), "", "..", `{"rule":{"duration":"-1s"},"reason":"\ud800"}`)
	asked := startOdd(f)
	routes := oddRoutes()
	f.Fuzz(func(t *testing.T, route uint, query, segment, body string) {
		r := routes[route%uint(len(routes))]
		path := r.template
		for _, match := range oddParameter.FindAllStringSubmatch(r.template, -1) {
			path = strings.Replace(path, match[0], url.PathEscape(segment), 1)
		}
		if wrong := asked.ask(t.Context(), r, path, query, body); wrong != "" {
			t.Errorf("%s %q?%q %q: %s", r.method, path, query, body, wrong)
		}
	})
}
