package authn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is an entry for a token, as the file holds it.
func line(token, principal string, role Role) string {
	return fmt.Sprintf("- sha256: %s\n  principal: %s\n  role: %s\n", hexOf(token), principal, role)
}

func hexOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func tokenFile(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	write(t, path, content)
	return path
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func opened(t testing.TB, path string, log io.Writer) *Tokens {
	t.Helper()
	tokens, err := Open(path, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestAuthenticate(t *testing.T) {
	path := tokenFile(t, line("fake-alice", "alice", Operator)+line("fake-gateway", "gateway-1", Gateway)+
		"- {sha256: "+strings.ToUpper(hexOf("fake-bob"))+", principal: bob, role: viewer}\n")
	tokens := opened(t, path, &bytes.Buffer{})
	if !tokens.Required() {
		t.Error("a token must be required")
	}
	for token, want := range map[string]Principal{
		"fake-alice": {"alice", Operator}, "fake-gateway": {"gateway-1", Gateway}, "fake-bob": {"bob", Viewer},
		"": {}, "fake-alice ": {}, "FAKE-ALICE": {}, hexOf("fake-alice"): {}, "local": {},
	} {
		if got, ok := tokens.Authenticate(token); got != want || ok != (want != Principal{}) {
			t.Errorf("%q is %+v, %t", token, got, ok)
		}
	}
}

func TestLocalLetsEverybodyInAsOnePrincipal(t *testing.T) {
	local := Local()
	if got, ok := local.Authenticate("anything"); !ok || got != LocalPrincipal || local.Required() {
		t.Errorf("is %+v, %t", got, ok)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := local.Run(ctx); err != nil {
		t.Error(err)
	}
}

// A bad file is refused, naming the entry and the field, and never showing what may be a token.
func TestI17_BadTokenFilesAreRefused(t *testing.T) {
	good := line("fake-alice", "alice", Operator)
	for name, row := range map[string]struct {
		content string
		want    []string
	}{
		"empty":            {"", []string{"no entry"}},
		"only a comment":   {"# none\n", []string{"no entry"}},
		"empty list":       {"[]", []string{"no entry"}},
		"a bare token":     {"fake-token-of-alice\n", []string{"line 1", "list of entries"}},
		"a mapping":        {"token: fake-token-of-alice\n", []string{"line 1", "list of entries"}},
		"a list of tokens": {good + "- fake-token-of-alice\n", []string{"line 4", "an entry is wanted"}},
		"unknown field":    {good + "- token: fake-token-of-alice\n", []string{"line 4", "token", "sha256, principal and role"}},
		"field twice":      {"- principal: a\n  principal: b\n", []string{"line 2", "principal"}},
		"no hash":          {good + "- {principal: a, role: viewer}", []string{"entry 2", "sha256"}},
		"a token as hash":  {good + "- {sha256: fake-token-of-alice, principal: a, role: viewer}", []string{"entry 2", "sha256"}},
		"short hash":       {"- {sha256: abcd, principal: a, role: viewer}", []string{"entry 1", "sha256"}},
		"no principal":     {"- {sha256: " + hexOf("x") + ", role: viewer}", []string{"entry 1", "principal"}},
		"long principal":   {line("x", strings.Repeat("ü", 257), Viewer), []string{"entry 1", "principal"}},
		"control":          {"- {sha256: " + hexOf("x") + `, principal: "a\nb", role: viewer}`, []string{"entry 1", "principal"}},
		"no role":          {"- {sha256: " + hexOf("x") + ", principal: a}", []string{"entry 1", "role", "viewer operator admin"}},
		"unknown role":     {line("x", "a", "root"), []string{"entry 1", `role "root"`}},
		"one token twice":  {good + line("fake-alice", "mallory", Admin), []string{"entry 2", "sha256", "alice"}},
		"two documents":    {good + "---\n" + good, []string{"one YAML document"}},
		"not YAML":         {"- {sha256: ", []string{"line 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := tokenFile(t, row.content)
			tokens, err := Open(path, slog.New(slog.DiscardHandler))
			if err == nil {
				t.Fatalf("taken as %+v", *tokens.principals.Load())
			}
			for _, part := range append(row.want, path) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "fake-") {
				t.Errorf("%q shows a token", err)
			}
		})
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a missing file is taken")
	}
	if tokens, err := Open(tokenFile(t, line("x", strings.Repeat("ü", 256), Viewer)), slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("256 characters are %v, %v", tokens, err)
	}
}

func TestReload(t *testing.T) {
	path := tokenFile(t, line("fake-alice", "alice", Viewer))
	synctest.Test(t, func(t *testing.T) {
		var log sharedBuffer
		tokens := opened(t, path, &log)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- tokens.Run(ctx) }()
		step := func() { // lets one look at the file happen
			time.Sleep(reloadInterval)
			synctest.Wait()
		}
		expect := func(what, token string, want Principal) {
			t.Helper()
			if got, _ := tokens.Authenticate(token); got != want {
				t.Errorf("%s: %+v", what, got)
			}
		}
		step()
		expect("unchanged", "fake-alice", Principal{"alice", Viewer})

		write(t, path, line("fake-alice", "alice", Admin)) // as long as before
		step()
		expect("changed", "fake-alice", Principal{"alice", Admin})

		for _, bad := range []string{"", "nonsense", line("fake-alice", "alice", "root")} {
			log.Reset()
			write(t, path, bad)
			for range 3 {
				step()
			}
			expect("bad", "fake-alice", Principal{"alice", Admin})
			if complaints := strings.Count(log.String(), "level=ERROR"); complaints != 1 || strings.Contains(log.String(), "fake-") {
				t.Errorf("%d complaints about %q: %s", complaints, bad, &log)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		step()
		expect("gone", "fake-alice", Principal{"alice", Admin})

		write(t, path, line("fake-bob", "bob", Viewer))
		step()
		expect("removed", "fake-alice", Principal{})
		expect("added", "fake-bob", Principal{"bob", Viewer})

		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(line("fake-alice", "alice", Viewer)))
	f.Add([]byte("- &a {sha256: x, principal: *a}"))
	f.Add([]byte("fake: [\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		principals, err := parse(content)
		if (err == nil) != (len(principals) > 0) {
			t.Fatalf("%d principals and %v", len(principals), err)
		}
		for _, principal := range principals {
			if principal.Name == "" || !(Admin.Includes(principal.Role) || rank[principal.Role] == 0) {
				t.Errorf("took %+v", principal)
			}
		}
	})
}

// sharedBuffer is a log that one goroutine writes while another reads.
type sharedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *sharedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *sharedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *sharedBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}

// Agents are let in from anywhere, as nobody but an agent: no policy that names another role lets them further.
func TestInRequestsLetsAgentsInAndNoFurther(t *testing.T) {
	tokens := InRequests()
	principal, ok := tokens.Authenticate("")
	if !ok || principal != AgentPrincipal || tokens.Required() || !tokens.Remote() || Local().Remote() {
		t.Errorf("%+v %v, required %v, remote %v, local remote %v", principal, ok, tokens.Required(), tokens.Remote(), Local().Remote())
	}
	policy := Policy{"ingress": {Agent}, "view": {Viewer}, "admin": {Admin}}
	if !policy.Allows("ingress", Agent) || policy.Allows("view", Agent) || policy.Allows("admin", Agent) || policy.Allows("ingress", Admin) {
		t.Error("the agents' role includes, or is included in, another")
	}
	if _, err := Open(tokenFile(t, line("fake", "an-agent", Agent)), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a token file gave the agents' role away")
	}
}

// A file whose roles none of a service's methods allow shuts everybody out, and is refused before that.
func TestI17_ATokenFileThatLetsNoCallerInIsRefused(t *testing.T) {
	policy := Policy{"/s/Read": {Gateway}, "/s/Write": {Heartbeat}}
	for role, good := range map[Role]bool{Gateway: true, Heartbeat: true, Viewer: false, Admin: false} {
		path := filepath.Join(t.TempDir(), "tokens.yaml")
		text := "- sha256: " + strings.Repeat("ab", 32) + "\n  principal: example\n  role: " + string(role) + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := CheckFile("grpc.tokenFile", path, policy)
		if (err == nil) != good || err != nil && (!strings.HasPrefix(err.Error(), "grpc.tokenFile: ") || !strings.Contains(err.Error(), "[gateway heartbeat]")) {
			t.Errorf("%s: %v", role, err)
		}
	}
	if err := CheckFile("grpc.tokenFile", "", policy); err != nil {
		t.Error(err)
	}
}
