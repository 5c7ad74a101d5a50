package e2e

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/deploy/story"
	contracts "github.com/commandcenter/fleet/proto"
)

// The document passes its linter without a warning, and a client in TypeScript that is made of it compiles and works.
func TestTheOpenAPIDocumentForCallersInTypeScript(t *testing.T) {
	dir := installCaller(t)
	said := node(t, dir, "node_modules/.bin/redocly", "lint", "--config", "redocly.yaml", "openapi.json")
	if !strings.Contains(said, "is valid") { // a warning is an error to it
		t.Errorf("the linter says:\n%s", said)
	}
	node(t, dir, "node_modules/.bin/openapi-typescript", "openapi.json", "-o", "schema.ts")
	node(t, dir, "node_modules/.bin/tsc")

	world := world(t)
	heard(t, world, story.Bus)
	shown := answered(t, world, http.MethodGet, "/api/config/agents/"+story.Bus, nil, "")
	server := map[string]any{"createServer": map[string]any{"url": "https://bm-ams-01.example.test"}}
	answered(t, world, http.MethodPost, "/api/config/agents/"+story.Bus+"/accept", server, shown.Text("etag"))
	answered(t, world, http.MethodGet, "/api/agents/"+story.Bus+"/services", nil, "")
	said = node(t, dir, "node", "out/caller.js", world.Client.Base, story.Bus)
	for _, want := range []string{
		"agents true 0", "services true TRANSPORT_SERVICE_BUS", "restarted TRANSPORT_SERVICE_BUS", "rejected REGISTRATION_STATE_REJECTED",
		"refused 409 true", "item BATCH_OUTCOME_NOT_SENT", "summary 1",
	} {
		if !strings.Contains(said, want+"\n") {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
}

// node runs a program of the caller's folder, and gives what it says.
func node(t *testing.T, dir, program string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if strings.Contains(program, "/") {
		program = filepath.Join(dir, program)
	}
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir = dir
	command.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "NO_COLOR=1")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, arguments, err, out)
	}
	return string(out)
}

const callerDir = "../callers/node"

// installCaller gives a folder with the caller, the document, and the packages of its lock file. They are installed once into the source
// folder, where git ignores them, and again when the lock file changes.
func installCaller(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT RUN: the caller in TypeScript is left out of -short")
	}
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT RUN: redocly and the caller in TypeScript are not tested here, for %s is missing", tool)
		}
	}
	source, err := filepath.Abs(callerDir)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	installed := filepath.Join(source, "node_modules", "installed-lock.json")
	if have, err := os.ReadFile(installed); err != nil || !bytes.Equal(have, lock) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=1")
		npm.Dir = source
		if out, err := npm.CombinedOutput(); err != nil {
			if npmUnreachable.Match(out) {
				t.Skipf("NOT RUN: redocly and the caller in TypeScript are not tested here, for npm reaches no registry: %s", out)
			}
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
		if err := os.WriteFile(installed, lock, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"caller.ts", "tsconfig.json", "redocly.yaml", "package.json"} {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "openapi.json"), contracts.OpenAPI, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(source, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}
