package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/commandcenter/fleet/deploy/story"
	contracts "github.com/commandcenter/fleet/proto"
)

// openAPI is the document as a test reads it.
type openAPI struct {
	t        *testing.T
	compiler *jsonschema.Compiler
	Paths    map[string]map[string]openAPIOperation
	// Components are what operations refer to.
	Components struct {
		Parameters map[string]openAPIParameter
		Responses  map[string]openAPIResponse
	}
}

type openAPIOperation struct {
	OperationID string
	Parameters  []openAPIParameter
	RequestBody struct {
		Required bool
		Content  map[string]openAPIContent
	}
	Responses map[string]openAPIResponse
}

type openAPIParameter struct {
	Ref      string `json:"$ref"`
	Name, In string
	Example  any
}

type openAPIResponse struct {
	Ref     string `json:"$ref"`
	Headers map[string]any
	Content map[string]openAPIContent
}

type openAPIContent struct {
	Example  any
	Examples map[string]struct{ Value any }
}

func readOpenAPI(t *testing.T) *openAPI {
	t.Helper()
	document := &openAPI{t: t, compiler: jsonschema.NewCompiler()}
	if err := json.Unmarshal(contracts.OpenAPI, document); err != nil {
		t.Fatal(err)
	}
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(contracts.OpenAPI))
	if err != nil {
		t.Fatal(err)
	}
	document.compiler.DefaultDraft(jsonschema.Draft2020)
	document.compiler.AssertFormat()
	if err := document.compiler.AddResource("openapi.json", resource); err != nil {
		t.Fatal(err)
	}
	return document
}

// keeps checks a value against the schema that keys lead to.
func (d *openAPI) keeps(value any, keys ...string) error {
	pointer := ""
	for _, key := range keys {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(key)
	}
	schema, err := d.compiler.Compile("openapi.json#" + pointer)
	if err != nil {
		return err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(read)
}

// examples checks the examples of one content, and counts them.
func (d *openAPI) examples(content map[string]openAPIContent, keys ...string) int {
	count := 0
	for kind, described := range content {
		values := []any{}
		if described.Example != nil {
			values = append(values, described.Example)
		}
		for _, one := range described.Examples {
			values = append(values, one.Value)
		}
		for _, value := range values {
			if err := d.keeps(value, slices.Concat(keys, []string{"content", kind, "schema"})...); err != nil {
				d.t.Errorf("the example of %v: %v", keys, err)
			}
			count++
		}
		if len(values) == 0 {
			d.t.Errorf("%v has no example", keys)
		}
	}
	return count
}

func (d *openAPI) parameter(of openAPIParameter) openAPIParameter {
	if of.Ref != "" {
		return d.Components.Parameters[of.Ref[strings.LastIndex(of.Ref, "/")+1:]]
	}
	return of
}

// Every request, every answer and every parameter of a path has an example, and each is what its schema says.
func TestTheExamplesOfTheOpenAPIDocumentKeepItsSchemas(t *testing.T) {
	document := readOpenAPI(t)
	count := 0
	for path, methods := range document.Paths {
		for method, operation := range methods {
			at := []string{"paths", path, method}
			count += document.examples(operation.RequestBody.Content, append(at, "requestBody")...)
			for status, response := range operation.Responses {
				count += document.examples(response.Content, append(at, "responses", status)...)
			}
			for i, parameter := range operation.Parameters {
				if parameter.In != "path" {
					continue
				}
				if err := document.keeps(parameter.Example, append(at, "parameters", strconv.Itoa(i), "schema")...); err != nil {
					t.Errorf("%s %s: the example of %s: %v", method, path, parameter.Name, err)
				}
			}
		}
	}
	for name, response := range document.Components.Responses {
		count += document.examples(response.Content, "components", "responses", name)
	}
	for name, parameter := range document.Components.Parameters {
		if err := document.keeps(parameter.Example, "components", "parameters", name, "schema"); err != nil {
			t.Errorf("the example of %s: %v", name, err)
		}
	}
	if count < 100 {
		t.Errorf("%d examples", count)
	}
}

// call is an operation with its place in the document.
type call struct {
	path, method string
	openAPIOperation
}

// calls lists the operations: those that read, then those that change, then those that remove.
func (d *openAPI) calls() []call {
	rank := map[string]int{"get": 0, "put": 1, "patch": 2, "post": 3, "delete": 4}
	var all []call
	for path, methods := range d.Paths {
		for method, operation := range methods {
			all = append(all, call{path, method, operation})
		}
	}
	slices.SortFunc(all, func(a, b call) int {
		if a.method != b.method {
			return rank[a.method] - rank[b.method]
		}
		return strings.Compare(a.path, b.path)
	})
	return all
}

// Each example request is sent to a running system. Whatever it answers is what the document says of that status: its body, its media
// type and its headers.
func TestARunningSystemAnswersAsTheOpenAPIDocumentSays(t *testing.T) {
	document, world := readOpenAPI(t), world(t)
	heard(t, world, story.Bus)
	shown := answered(t, world, http.MethodGet, "/api/config/agents/"+story.Bus, nil, "")
	server := map[string]any{"createServer": map[string]any{"url": "https://bm-ams-01.example.test"}}
	answered(t, world, http.MethodPost, "/api/config/agents/"+story.Bus+"/accept", server, shown.Text("etag"))
	answered(t, world, http.MethodGet, "/api/agents/"+story.Bus+"/services", nil, "")
	succeeded := map[string]bool{}
	for _, call := range document.calls() {
		if status := document.try(world, call); status == http.StatusOK {
			succeeded[call.OperationID] = true
		} else {
			t.Logf("%s %s: %d", call.method, call.path, status)
		}
	}
	for _, call := range document.calls() {
		for header, bad := range map[string]string{"Idempotency-Key": "no-uuid", "If-Match": `"unfinished`} {
			if body, read := document.refusal(world, call, header, bad); read != document.takes(call, header) {
				t.Errorf("%s %s reads %s: %t, and its parameters say %t: %s", call.method, call.path, header, read, !read, body)
			}
		}
	}
	for _, want := range []string{
		"AgentOperations_ListAgents", "AgentOperations_GetRoute", "AgentOperations_ListServices", "AgentOperations_RestartService", "AgentOperations_BatchRun",
		"AgentConfig_ListAgents", "AgentConfig_GetAgent", "ServerConfig_ListServers", "ServerConfig_GetServer", "ServerConfig_ListOfflineLog",
		"AvailabilityConfig_GetOverview", "AvailabilityConfig_ListAvailability", "AvailabilityConfig_WatchAvailability", "AvailabilityConfig_GetMaintenance",
		"AvailabilityConfig_SetMaintenance", "AvailabilityConfig_CreateMaintenanceWindow", "AvailabilityConfig_PreviewMaintenanceWindow",
		"AvailabilityConfig_ListMaintenanceWindows", "CloudConfig_ListControlServers", "CloudConfig_CreateAffinityGroup", "CloudConfig_ListPartitionEvents",
	} {
		if !succeeded[want] {
			t.Errorf("the example of %s does not succeed", want)
		}
	}
}

// takes reports whether a header is among an operation's parameters.
func (d *openAPI) takes(call call, header string) bool {
	return slices.ContainsFunc(call.Parameters, func(one openAPIParameter) bool { return d.parameter(one).Name == header })
}

// refusal sends an operation's example with a header that cannot be read. It gives the answer's body, and whether it is about the header.
func (d *openAPI) refusal(world story.World, call call, header, bad string) (string, bool) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 30*time.Second)
	defer cancel()
	request := d.request(ctx, world, call)
	request.Header.Set(header, bad)
	response, err := world.Client.HTTP.Do(request)
	if err != nil {
		d.t.Errorf("%s %s: %v", call.method, call.path, err)
		return "", false
	}
	defer response.Body.Close()
	body, _ := bufio.NewReader(response.Body).ReadString('\n') // a watch goes on
	return body, response.StatusCode == http.StatusBadRequest && strings.Contains(body, "#/"+header)
}

// try sends an operation's example, checks the answer, and gives its status.
func (d *openAPI) try(world story.World, call call) int {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 30*time.Second)
	defer cancel()
	response, err := world.Client.HTTP.Do(d.request(ctx, world, call))
	if err != nil {
		d.t.Errorf("%s %s: %v", call.method, call.path, err)
		return 0
	}
	defer response.Body.Close()
	if err := d.check(call, response); err != nil {
		d.t.Errorf("%s %s: %s: %v", call.method, call.path, response.Status, err)
	}
	return response.StatusCode
}

func (d *openAPI) request(ctx context.Context, world story.World, call call) *http.Request {
	d.t.Helper()
	path, changes := call.path, false
	for _, parameter := range call.Parameters {
		parameter = d.parameter(parameter)
		if parameter.In == "path" {
			path = strings.Replace(path, "{"+parameter.Name+"}", fmt.Sprint(parameter.Example), 1)
		}
		changes = changes || parameter.Name == "If-Match"
	}
	var body io.Reader = http.NoBody
	if content, has := call.RequestBody.Content["application/json"]; has {
		text, err := json.Marshal(content.Example)
		if err != nil {
			d.t.Fatal(err)
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, strings.ToUpper(call.method), world.Client.Base+path, body)
	if err != nil {
		d.t.Fatal(err)
	}
	if changes {
		request.Header.Set("If-Match", d.etag(ctx, world, path))
	}
	return request
}

// etag reads the etag of what a path changes: that of the path itself, or of what it is part of. It is a stale one where none can be read.
func (d *openAPI) etag(ctx context.Context, world story.World, path string) string {
	resource, _, _ := strings.Cut(path, ":")
	for strings.Count(resource, "/") > 2 {
		read, err := world.Client.Do(ctx, http.MethodGet, resource, nil, "")
		if err == nil && read.Header.Get("ETag") != "" {
			return read.Header.Get("ETag")
		}
		resource = resource[:strings.LastIndex(resource, "/")]
	}
	return `"stale"`
}

func (d *openAPI) check(call call, response *http.Response) error {
	keys := []string{"paths", call.path, call.method, "responses", strconv.Itoa(response.StatusCode)}
	described, has := call.Responses[keys[4]]
	if !has {
		keys[4] = "default"
		described = call.Responses["default"]
	}
	if described.Ref != "" {
		name := described.Ref[strings.LastIndex(described.Ref, "/")+1:]
		keys, described = []string{"components", "responses", name}, d.Components.Responses[name]
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	if _, has := described.Content[kind]; !has {
		return fmt.Errorf("%s is not described", kind)
	}
	for _, header := range []string{"ETag", "X-Request-Id"} {
		if _, said := described.Headers[header]; said != (response.Header.Get(header) != "") {
			return fmt.Errorf("%s is %q, and described: %t", header, response.Header.Get(header), said)
		}
	}
	if _, said := described.Headers["Retry-After"]; !said && response.Header.Get("Retry-After") != "" {
		return fmt.Errorf("Retry-After is not described")
	}
	lines := bufio.NewReader(response.Body)
	for count := 0; count < 2; count++ {
		line, err := lines.ReadString('\n')
		if line == "" {
			if count == 0 {
				return fmt.Errorf("no body: %w", err)
			}
			return nil
		}
		if response.StatusCode == http.StatusBadRequest {
			return fmt.Errorf("the example is refused; mend it in services/operator-gateway/internal/openapi/example.go: %s", line)
		}
		var value any
		if err := json.Unmarshal([]byte(line), &value); err != nil {
			return err
		}
		if err := d.keeps(value, append(keys, "content", kind, "schema")...); err != nil {
			return fmt.Errorf("%w\n%s", err, line)
		}
	}
	return nil
}
