package rest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
)

// contractRoutes are the routes of operator.v1 as its methods declare them, each as "METHOD path".
func contractRoutes() map[string]bool {
	found := map[string]bool{}
	for _, file := range []protoreflect.FileDescriptor{
		operatorv1.File_commandcenter_operator_v1_operations_proto, operatorv1.File_commandcenter_operator_v1_config_proto,
		operatorv1.File_commandcenter_operator_v1_availability_proto, operatorv1.File_commandcenter_operator_v1_cloud_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				rule := proto.GetExtension(methods.Get(j).Options(), annotations.E_Http).(*annotations.HttpRule)
				for method, path := range map[string]string{
					"GET": rule.GetGet(), "POST": rule.GetPost(), "PUT": rule.GetPut(), "PATCH": rule.GetPatch(), "DELETE": rule.GetDelete(),
				} {
					if path != "" {
						found[method+" "+path] = true
					}
				}
			}
		}
	}
	return found
}

// The document describes what is served here: every route of the contract, and none by which agents call control servers.
func TestTheOpenAPIDocumentHasTheRoutesThatAreServed(t *testing.T) {
	f := newFace(t, authn.Local())
	answered := f.do("GET", "/openapi.json", "")
	var document struct {
		Swagger string
		Paths   map[string]map[string]struct{ Responses map[string]any }
	}
	if err := json.Unmarshal(answered.body, &document); err != nil || answered.StatusCode != http.StatusOK || document.Swagger != "2.0" {
		t.Fatalf("%s %v", answered.Status, err)
	}
	missing := contractRoutes()
	if len(missing) != 55 {
		t.Errorf("the contract has %d routes, not 55", len(missing))
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

// Every route of the contract leads to its service, which at most does not know the method in these tests.
func TestEveryRouteOfTheContractIsRegistered(t *testing.T) {
	f := newFace(t, authn.Local())
	for route := range contractRoutes() {
		method, template, _ := strings.Cut(route, " ")
		path := strings.NewReplacer("{path}", "HEARTBEAT_PATH_BUS", "{id}", "7", "{", "", "}", "").Replace(template)
		if strings.HasSuffix(path, ":watch") || strings.HasSuffix(path, ":batch") {
			continue // they stream, and have tests of their own
		}
		if answered := f.do(method, path, ""); strings.Contains(answered.problem.Detail, "there is no route") || answered.StatusCode == http.StatusMethodNotAllowed {
			t.Errorf("%s: %s %s", route, answered.Status, answered.body)
		}
	}
}
