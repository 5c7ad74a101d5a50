package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// Every JSON answer ends its last line. People get it indented; programs get one line, as long as they do not ask for more.
func TestJSONIsIndentedForPeopleAndOneLineForPrograms(t *testing.T) {
	f := newFace(t, authn.Local())
	f.answering(func(context.Context, proto.Message) (proto.Message, error) {
		return &registryv1.Agent{Name: "BM-1", HttpBaseUrl: "http://a.test/?b=<c>&d"}, nil
	})
	const curl, program = "curl/8.14.1", "Go-http-client/1.1"
	for _, c := range []struct {
		what, path, agent, accept string
		indented                  bool
	}{
		{"a program", "/api/config/agents/BM-1", program, "", false},
		{"a program that takes everything", "/api/config/agents/BM-1", program, "*/*", false},
		{"a program that asks", "/api/config/agents/BM-1?pretty", program, "", true},
		{"a program that asks in full", "/api/config/agents/BM-1?pretty=true", program, "application/json", true},
		{"curl", "/api/config/agents/BM-1", curl, "*/*", true},
		{"wget", "/api/config/agents/BM-1", "Wget/1.21.3", "*/*", true},
		{"curl in a script", "/api/config/agents/BM-1", curl, "application/json", false},
		{"curl that declines", "/api/config/agents/BM-1?pretty=false", curl, "*/*", false},
		{"an error to curl", "/api/nowhere", curl, "*/*", true},
		{"an error to a program", "/api/nowhere", program, "", false},
		{"an error to a program that asks", "/api/nowhere?pretty=1", program, "", true},
		{"the description, to curl", "/openapi.json", curl, "*/*", true},
		{"the description, to a program", "/openapi.json", program, "", false},
	} {
		answered := f.do("GET", c.path, "", "User-Agent", c.agent, "Accept", c.accept)
		body := string(answered.body)
		if !json.Valid([]byte(body)) || !strings.HasSuffix(body, "}\n") || strings.HasSuffix(body, "\n\n") {
			t.Errorf("%s: %.60q … %q is no JSON that ends with its line", c.what, body, body[max(0, len(body)-20):])
		}
		if many := strings.Count(body, "\n") > 1; many != c.indented {
			t.Errorf("%s: indented is %t: %.200s", c.what, many, body)
		}
	}
}

// The parameter may stand beside others, and at routes that take none in the query.
func TestPrettyGoesWithEveryRoute(t *testing.T) {
	f := newFace(t, authn.Local())
	if asked := f.do("GET", "/api/config/agents?pretty&pageSize=3", ""); asked.StatusCode != http.StatusOK {
		t.Errorf("beside another parameter: %s %s", asked.Status, asked.body)
	}
	if asked := last[*operatorv1.ListConfigAgentsRequest](f); asked.GetPageSize() != 3 {
		t.Errorf("what stood beside it arrived as %v", asked)
	}
	if asked := f.do("POST", "/api/agents/BM-1/services/W3SVC/restart?pretty", "{}"); asked.StatusCode != http.StatusOK {
		t.Errorf("of a route that takes no parameters: %s %s", asked.Status, asked.body)
	}
}

// The parameter is no route's, so the routes must not see it; and what it says is checked (I-17).
func TestI17_PrettyIsTrueOrFalse(t *testing.T) {
	f := newFace(t, authn.Local())
	answered := f.do("GET", "/api/config/agents/BM-1?pretty=very", "")
	if answered.StatusCode != http.StatusBadRequest || !strings.Contains(string(answered.body), "#/pretty") {
		t.Errorf("%s %s", answered.Status, answered.body)
	}
	f.askedNothing()
}

// A stream is one line an event for every caller: what reads it goes by lines.
func TestLinesAreNeverIndented(t *testing.T) {
	f := newFace(t, authn.Local())
	f.watch = func(stream watchStream) error {
		_ = sendServer(stream, "BM-1")
		_ = sendServer(stream, "BM-2")
		return fault.New(fault.AvailabilityUnavailable, "no more of it")
	}
	answered := f.do("GET", watchPath+"?pretty", "", "User-Agent", "curl/8.14.1")
	lines := slices.Collect(strings.Lines(string(answered.body)))
	for _, line := range lines {
		if !json.Valid([]byte(line)) || !strings.HasSuffix(line, "}\n") {
			t.Errorf("%q is no line of JSON", line)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%s: %s", answered.Status, answered.body)
	}
}
