package rest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
)

var update = flag.Bool("update", false, "write testdata/problems.txt anew")

// TestEveryReasonAsAProblem holds what callers see of every reason against testdata/problems.txt. Each travels the whole way:
// from the service over gRPC to REST.
func TestEveryReasonAsAProblem(t *testing.T) {
	f := newFace(t, authn.Local())
	var table bytes.Buffer
	for _, reason := range fault.Reasons() {
		failure := fault.New(reason, "what happened <&>").WithAgent("BM-1").WithCommand("c-1").WithEtag("7-2").WithCause(errors.New("the cause"))
		if reason == fault.InvalidArgument {
			failure = failure.WithField("/createServer/url", "is not a URL")
		}
		f.answering(func(context.Context, proto.Message) (proto.Message, error) { return nil, failure })
		answered := f.do("POST", "/api/config/agents/a:accept", "", "X-Request-Id", "r")
		fmt.Fprintf(&table, "%s\n%s", answered.Status, answered.body)
		for _, header := range []string{"Retry-After", "WWW-Authenticate", "ETag", "Cache-Control"} {
			if value := answered.Header.Get(header); value != "" {
				fmt.Fprintf(&table, "%s: %s\n", header, value)
			}
		}
		table.WriteString("\n")
		if (answered.Header.Get("Retry-After") != "") != reason.NothingSent() {
			t.Errorf("%s: Retry-After is %q", reason, answered.Header.Get("Retry-After"))
		}
		checkAgainstContract(t, answered.body)
	}
	golden := filepath.Join("testdata", "problems.txt")
	if *update {
		if err := os.WriteFile(golden, table.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, table.Bytes()) {
		t.Errorf("problems differ from %s; look at them, and run with -update if they are right:\n%s", golden, table.Bytes())
	}
}

// checkAgainstContract reads a problem as the documented message, which must have all its fields.
func checkAgainstContract(t *testing.T, body []byte) {
	t.Helper()
	if err := protojson.Unmarshal(body, &operatorv1.Problem{}); err != nil {
		t.Errorf("%s is not operator.v1.Problem: %v", body, err)
	}
}

// TestRolesOverREST: who is not known is told how to be, and who may not is told so; neither reaches a service.
func TestRolesOverREST(t *testing.T) {
	var entries strings.Builder
	for _, role := range []string{"viewer", "operator", "admin", "heartbeat"} {
		sum := sha256.Sum256([]byte("fake-token-of-" + role))
		fmt.Fprintf(&entries, "- {sha256: %s, principal: the-%s, role: %s}\n", hex.EncodeToString(sum[:]), role, role)
	}
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(file, []byte(entries.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := authn.Open(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	f := newFace(t, tokens)
	var principal authn.Principal
	f.answering(func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		principal, _ = authn.PrincipalOf(ctx)
		return nil, nil
	})
	for _, row := range []struct {
		authorization, method, path string
		status                      int
	}{
		{"", "GET", "/api/agents", 401},
		{"Bearer wrong", "GET", "/api/agents", 401},
		{"Basic fake-token-of-admin", "GET", "/api/agents", 401},
		{"Bearer fake-token-of-heartbeat", "GET", "/api/agents", 403},
		{"Bearer fake-token-of-viewer", "GET", "/api/agents", 200},
		{"bearer fake-token-of-viewer", "GET", "/api/config/agents", 200},
		{"Bearer fake-token-of-viewer", "POST", "/api/agents/a/services/s/restart", 403},
		{"Bearer fake-token-of-viewer", "POST", "/api/config/agents/a:accept", 403},
		{"Bearer fake-token-of-operator", "POST", "/api/agents/a/services/s/restart", 200},
		{"Bearer fake-token-of-operator", "POST", "/api/config/agents/a:accept", 200},
		{"Bearer fake-token-of-operator", "DELETE", "/api/config/agents/a", 403},
		{"Bearer fake-token-of-operator", "PATCH", "/api/config/servers/s", 403},
		{"Bearer fake-token-of-viewer", "GET", "/api/availability/servers", 200},
		{"Bearer fake-token-of-viewer", "DELETE", "/api/config/servers/s/maintenance", 403},
		{"Bearer fake-token-of-viewer", "DELETE", "/api/config/servers/s/maintenance-windows/1", 403},
		{"Bearer fake-token-of-operator", "DELETE", "/api/config/servers/s/maintenance", 200},
		{"Bearer fake-token-of-viewer", "GET", "/api/config/control-servers", 200},
		{"Bearer fake-token-of-viewer", "PATCH", "/api/config/control-servers/c", 403},
		{"Bearer fake-token-of-operator", "PATCH", "/api/config/control-servers/c", 200},
		{"Bearer fake-token-of-operator", "DELETE", "/api/config/control-servers/c", 403},
		{"Bearer fake-token-of-admin", "DELETE", "/api/config/control-servers/c", 200},
		{"Bearer fake-token-of-operator", "DELETE", "/api/config/affinity-groups/g", 200},
		{"Bearer fake-token-of-operator", "POST", "/api/config/agents/a:resetToken", 403},
		{"Bearer fake-token-of-admin", "POST", "/api/config/agents/a:resetToken", 200},
		{"Bearer fake-token-of-admin", "DELETE", "/api/config/agents/a", 200},
		{"Bearer fake-token-of-admin", "PATCH", "/api/config/servers/s", 200},
	} {
		principal = authn.Principal{}
		answered := f.do(row.method, row.path, "", "Authorization", row.authorization)
		if answered.StatusCode != row.status {
			t.Errorf("%q %s %s: %s %s", row.authorization, row.method, row.path, answered.Status, answered.body)
		}
		if challenge := answered.Header.Get("WWW-Authenticate"); (row.status == http.StatusUnauthorized) != strings.HasPrefix(challenge, "Bearer") {
			t.Errorf("%d with WWW-Authenticate %q", row.status, challenge)
		}
		if _, role, _ := strings.Cut(row.authorization, "-of-"); row.status == http.StatusOK && principal.Name != "the-"+role {
			t.Errorf("%q acts as %q", row.authorization, principal.Name)
		}
		if row.status != http.StatusOK {
			f.askedNothing()
		}
		f.asked = nil
	}
	if strings.Contains(f.log.buffer.String(), "fake-token") {
		t.Error("a token is in the log")
	}
	// With tokens, callers from elsewhere are served.
	if answered := f.do("GET", "/api/agents", "", "Authorization", "Bearer fake-token-of-viewer", "Host", "fleet.example.test"); answered.StatusCode != http.StatusOK {
		t.Errorf("by name: %s", answered.Status)
	}
}
