package rest

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/restserver"
)

// contractMethods are the methods of operator.v1.
func contractMethods() []protoreflect.MethodDescriptor {
	var found []protoreflect.MethodDescriptor
	for _, file := range []protoreflect.FileDescriptor{
		operatorv1.File_commandcenter_operator_v1_operations_proto, operatorv1.File_commandcenter_operator_v1_config_proto,
		operatorv1.File_commandcenter_operator_v1_availability_proto, operatorv1.File_commandcenter_operator_v1_cloud_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				found = append(found, methods.Get(j))
			}
		}
	}
	return found
}

func fullMethod(method protoreflect.MethodDescriptor) string {
	return "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
}

// contractRoutes are the routes of operator.v1 as its methods declare them, each as "METHOD path".
func contractRoutes() map[string]bool {
	found := map[string]bool{}
	for _, method := range contractMethods() {
		for _, one := range restserver.Bindings(fullMethod(method)) {
			found[one.Method+" "+one.Template] = true
		}
	}
	return found
}

// Tools that trip over colons have another spelling of every route with a verb, "/verb" for ":verb". Where the segment after a slash is a
// name that callers choose it is "-verb": an agent may be called "accept".
func TestEveryVerbHasASpellingWithoutAColon(t *testing.T) {
	named := regexp.MustCompile(`^\S+ (.*)/\{[^}]+\}`)
	collections := map[string]bool{}
	for route := range contractRoutes() {
		if match := named.FindStringSubmatch(route); match != nil && !strings.Contains(route, "/{id}") { // ids are whole numbers
			collections[match[1]] = true
		}
	}
	verbs := 0
	for _, method := range contractMethods() {
		bindings := restserver.Bindings(fullMethod(method))
		for _, one := range bindings {
			base, verb, has := strings.Cut(one.Template, ":")
			if !has {
				continue
			}
			verbs++
			plain := base + "/" + verb
			if collections[base] {
				plain = base + "-" + verb
			}
			if one != bindings[0] || !slices.Contains(bindings, restserver.Binding{Method: one.Method, Template: plain}) {
				t.Errorf("%s: %s %s must come first and have the additional binding %s", method.FullName(), one.Method, one.Template, plain)
			}
		}
	}
	if verbs < 9 {
		t.Errorf("%d routes with verbs", verbs)
	}
}

// No path leads to two routes: what is a verb in one is not a name in another.
func TestNoRouteTakesAnothersPlace(t *testing.T) {
	routes := slices.Sorted(maps.Keys(contractRoutes()))
	for i, one := range routes {
		for _, other := range routes[i+1:] {
			if overlap(one, other) {
				t.Errorf("a path leads to both %s and %s", one, other)
			}
		}
	}
}

// overlap reports whether some path matches both routes.
func overlap(one, other string) bool {
	return slices.EqualFunc(strings.Split(one, "/"), strings.Split(other, "/"), func(a, b string) bool {
		a, verb, _ := strings.Cut(a, ":")
		b, otherVerb, _ := strings.Cut(b, ":")
		return verb == otherVerb && (a == b || strings.HasPrefix(a, "{") || strings.HasPrefix(b, "{"))
	})
}

// The document describes what is served here: every route of the contract, and none by which agents call control servers.
func TestTheOpenAPIDocumentHasTheRoutesThatAreServed(t *testing.T) {
	f := newFace(t, authn.Local())
	answered := f.do("GET", "/openapi.json", "")
	var document struct {
		OpenAPI string
		Paths   map[string]map[string]struct{ Responses map[string]any }
	}
	if err := json.Unmarshal(answered.body, &document); err != nil || answered.StatusCode != http.StatusOK || document.OpenAPI != "3.1.0" {
		t.Fatalf("%s %v", answered.Status, err)
	}
	missing := map[string]bool{} // the document names parameters as JSON does
	for route := range contractRoutes() {
		missing[regexp.MustCompile(`_[a-z]`).ReplaceAllStringFunc(route, func(next string) string { return strings.ToUpper(next[1:]) })] = true
	}
	if len(missing) < 64 {
		t.Errorf("the contract has only %d routes", len(missing))
	}
	for path, methods := range document.Paths {
		for method, described := range methods {
			route := strings.ToUpper(method) + " " + path
			if !missing[route] {
				t.Errorf("%s is described, and not in the contract", route)
			}
			if described.Responses["default"] == nil {
				t.Errorf("%s: no problem is described", route)
			}
			delete(missing, route)
		}
	}
	for route := range missing {
		t.Errorf("%s is not described", route)
	}
}

// Every route of the contract leads to its service, which at most does not know the method in these tests. A method with a stream answers
// in lines, or with a problem, by each of its routes.
func TestEveryRouteOfTheContractIsRegistered(t *testing.T) {
	f := newFace(t, authn.Local())
	f.watch = func(stream watchStream) error { return sendServer(stream, "BM-1") }
	for _, method := range contractMethods() {
		for _, one := range restserver.Bindings(fullMethod(method)) {
			path := strings.NewReplacer("{path}", "HEARTBEAT_PATH_BUS", "{id}", "7", "{", "", "}", "").Replace(one.Template)
			answered := f.do(one.Method, path, "")
			if strings.Contains(answered.problem.Detail, "there is no route") || answered.StatusCode == http.StatusMethodNotAllowed {
				t.Errorf("%v: %s %s", one, answered.Status, answered.body)
			}
			if kind := answered.Header.Get("Content-Type"); method.IsStreamingServer() && kind != "application/x-ndjson" && kind != "application/problem+json" {
				t.Errorf("%v: answers %s %s", one, kind, answered.body)
			}
		}
	}
}

// The two spellings of a route answer the same.
func TestSpellingsOfARouteAnswerAlike(t *testing.T) {
	f := newFace(t, authn.Local())
	for _, method := range contractMethods() {
		var first reply
		for i, one := range restserver.Bindings(fullMethod(method)) {
			path := strings.NewReplacer("{path}", "HEARTBEAT_PATH_BUS", "{id}", "7", "{agent}", "accept", "{", "", "}", "").Replace(one.Template)
			body := ""
			if restserver.TakesBody(one.Method) {
				body = `{"noSuchField": 1}`
			}
			got := f.do(one.Method, path, body, "X-Request-Id", "same")
			if i == 0 {
				first = got
			} else if got.StatusCode != first.StatusCode || string(got.body) != string(first.body) {
				t.Errorf("%v: %s %s, and not %s %s", one, got.Status, got.body, first.Status, first.body)
			}
		}
	}
}

// A parameter of a command has one name: in the path, over gRPC, in a batch, and where the agent reads it.
func TestParametersOfCommandsHaveOneName(t *testing.T) {
	operations := (&agentv1.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("operation").Fields()
	service := operatorv1.File_commandcenter_operator_v1_operations_proto.Services().ByName("AgentOperations")
	for i := range operations.Len() {
		command := operations.Get(i).Message()
		method := service.Methods().ByName(command.Name())
		if method == nil {
			t.Errorf("there is no method for %s", command.Name())
			continue
		}
		for j := range command.Fields().Len() {
			field := command.Fields().Get(j)
			asked := method.Input().Fields().ByName(field.Name())
			if asked == nil || asked.Kind() != field.Kind() || asked.Options().(*descriptorpb.FieldOptions).GetDeprecated() {
				t.Errorf("%s has %s, and %s does not", command.FullName(), field.Name(), method.Input().FullName())
			}
		}
	}
	if operations.Len() < 12 {
		t.Errorf("%d operations", operations.Len())
	}
}
