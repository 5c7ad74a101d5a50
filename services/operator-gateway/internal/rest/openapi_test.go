package rest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	contracts "github.com/commandcenter/fleet/proto"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/restserver"
)

type describedOperation struct {
	OperationID, Summary, Description string
	Tags                              []string
	Parameters                        []struct {
		Ref                   string `json:"$ref"`
		Name, In, Description string
	}
	RequestBody struct{ Content map[string]map[string]any }
	Responses   map[string]struct {
		Content map[string]map[string]any
	}
}

func (o describedOperation) takes(parameter string) bool {
	for _, one := range o.Parameters {
		if strings.HasSuffix(one.Ref, "/"+parameter) {
			return true
		}
	}
	return false
}

func describedOperations(t *testing.T) map[restserver.Binding]describedOperation {
	t.Helper()
	var document struct {
		Paths map[string]map[string]describedOperation
	}
	if err := json.Unmarshal(contracts.OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	found := map[restserver.Binding]describedOperation{}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			found[restserver.Binding{Method: strings.ToUpper(method), Template: path}] = operation
		}
	}
	return found
}

// What a reader needs is there for every operation, also for one that was just added.
func TestEveryOperationIsDescribedWhole(t *testing.T) {
	ids := map[string]restserver.Binding{}
	for at, operation := range describedOperations(t) {
		if other, taken := ids[operation.OperationID]; taken || operation.OperationID == "" {
			t.Errorf("%v and %v have the id %q", at, other, operation.OperationID)
		}
		ids[operation.OperationID] = at
		if operation.Summary == "" || len(operation.Tags) != 1 {
			t.Errorf("%v: summary %q, tags %v; its method needs a comment in the contract", at, operation.Summary, operation.Tags)
		}
		if !strings.Contains(operation.Description, "Needs the role ") {
			t.Errorf("%v: says nothing of the role; its method is missing in the policy", at)
		}
		for _, parameter := range operation.Parameters {
			if parameter.Ref == "" && parameter.Description == "" {
				t.Errorf("%v: nothing is said of %s", at, parameter.Name)
			}
		}
		for kind, content := range operation.RequestBody.Content {
			if content["example"] == nil || content["schema"] == nil {
				t.Errorf("%v: the request as %s has no example or no schema", at, kind)
			}
		}
		for kind, content := range operation.Responses["200"].Content {
			if (content["example"] == nil && content["examples"] == nil) || content["schema"] == nil {
				t.Errorf("%v: the answer as %s has no example or no schema", at, kind)
			}
		}
		if len(operation.Responses["200"].Content) != 1 {
			t.Errorf("%v: answers in %d ways", at, len(operation.Responses["200"].Content))
		}
	}
}

// A header stands in the document of exactly those routes that read it.
func TestHeadersAreDescribedWhereTheyAreRead(t *testing.T) {
	f := newFace(t, authn.Local())
	for at, operation := range describedOperations(t) {
		path := strings.NewReplacer("{path}", "HEARTBEAT_PATH_BUS", "{id}", "7", "{", "", "}", "").Replace(at.Template)
		body := ""
		if content := operation.RequestBody.Content["application/json"]; content != nil {
			text, err := json.Marshal(content["example"])
			if err != nil {
				t.Fatal(err)
			}
			body = string(text)
		}
		for header, bad := range map[string]string{"Grpc-Timeout": "soon"} {
			if answered := f.do(at.Method, path, body, header, bad); answered.StatusCode != http.StatusBadRequest || !operation.takes("GrpcTimeout") {
				t.Errorf("%v with %s: %s %s", at, header, answered.Status, answered.body)
			}
		}
		if !operation.takes("XRequestId") {
			t.Errorf("%v: X-Request-Id is not described", at)
		}
	}
}

// The reasons of the document are those of the error table.
func TestTheReasonsAreTheErrorTables(t *testing.T) {
	var document struct {
		Components struct {
			Schemas struct{ Reason struct{ Enum []fault.Reason } }
		}
	}
	if err := json.Unmarshal(contracts.OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(document.Components.Schemas.Reason.Enum, fault.Reasons()) {
		t.Errorf("%v and not %v: make generate", document.Components.Schemas.Reason.Enum, fault.Reasons())
	}
}

// The reference shows every operation and every type, and loads and runs nothing but its own style.
func TestTheReferenceShowsTheWholeDocument(t *testing.T) {
	f := newFace(t, authn.Local())
	answered := f.do("GET", "/docs", "")
	page := string(answered.body)
	if answered.StatusCode != http.StatusOK || !strings.HasPrefix(answered.Header.Get("Content-Type"), "text/html") {
		t.Fatalf("%s %v", answered.Status, answered.Header)
	}
	if policy := answered.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'self'") {
		t.Errorf("the policy is %q", policy)
	}
	for _, foreign := range []string{"<script", "style=", "http://", "src="} {
		if strings.Contains(strings.ReplaceAll(page, "http://127.0.0.1", ""), foreign) {
			t.Errorf("the page has %s", foreign)
		}
	}
	for at, operation := range describedOperations(t) {
		if !strings.Contains(page, `<article id="`+operation.OperationID+`">`) || !strings.Contains(page, "<code>"+at.Template+"</code>") {
			t.Errorf("%v is not shown", at)
		}
	}
	links := regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1)
	for _, link := range links {
		if !strings.Contains(page, `id="`+link[1]+`"`) {
			t.Errorf("a link leads to no %s", link[1])
		}
	}
	if len(links) < 200 {
		t.Errorf("%d links", len(links))
	}
	if style := f.do("GET", "/docs.css", ""); style.StatusCode != http.StatusOK || !strings.HasPrefix(style.Header.Get("Content-Type"), "text/css") {
		t.Errorf("%s %v", style.Status, style.Header)
	}
}
