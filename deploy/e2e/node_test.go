package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/commandcenter/fleet/agent/fleet"
	"github.com/commandcenter/fleet/deploy/local"
	"github.com/commandcenter/fleet/deploy/story"
)

const nodeAgent = "BM-NODE-06"

// TestNodeAgent runs the agent of agent/examples/node: most agents in the field are not written in Go.
func TestNodeAgent(t *testing.T) {
	dir := installNodeAgent(t)
	system, err := local.Start(t.Context(), local.Config{
		Dir: t.TempDir(), REST: "127.0.0.1:0", AnyPorts: true, HeartbeatInterval: time.Second, WriteBudget: 4 * time.Second,
		Agents: []fleet.Agent{{Name: story.Bus, ServiceBus: true}}, // one in Go beside it
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := system.Close(); err != nil {
			t.Error("stopping:", err)
		}
	})
	world := story.World{Client: story.Client{Base: system.REST, HTTP: &http.Client{Timeout: 30 * time.Second}}}
	journal := filepath.Join(t.TempDir(), "journal.jsonl")
	agent := startNodeAgent(t, dir, system.Bus, journal)

	heard(t, world, nodeAgent)
	path := "/api/config/agents/" + nodeAgent
	shown := answered(t, world, http.MethodGet, path, nil, "")
	if shown.Text("agentVersion") != "node-example/1" || shown.Text("registrationState") != "REGISTRATION_STATE_PENDING" {
		t.Fatalf("its heartbeat does not show: %s", shown.Raw)
	}
	server := map[string]any{"createServer": map[string]any{"url": "https://node.example.test"}}
	answered(t, world, http.MethodPost, path+":accept", server, shown.Text("etag"))

	listed := answered(t, world, http.MethodGet, "/api/agents/"+nodeAgent+"/services", nil, "")
	if !strings.Contains(listed.Raw, nodeAgent) || !strings.Contains(listed.Raw, "W3SVC") || !strings.Contains(listed.Raw, "SERVICE_STATUS_RUNNING") {
		t.Errorf("its services: %s", listed.Raw)
	}
	key := uuid.NewString()
	status, first := restartOn(t, world, "w3svc", key)
	if status != 200 || first["commandId"] != key || first["transport"] != "TRANSPORT_SERVICE_BUS" || first["startedAt"] == nil {
		t.Fatalf("a restart: %d %v", status, first)
	}
	again := func(when string) {
		t.Helper()
		if status, second := restartOn(t, world, "w3svc", key); status != 200 || second["startedAt"] != first["startedAt"] {
			t.Errorf("%s, the same command: %d %v, first %v", when, status, second, first)
		}
	}
	again("repeated")
	if status, other := restartOn(t, world, "Spooler", key); status != 409 || other["reason"] != "COMMAND_REFUSED" {
		t.Errorf("another command under the key: %d %v", status, other)
	}
	if status, missing := restartOn(t, world, "Ghost", uuid.NewString()); status != 404 {
		t.Errorf("a service it does not have: %d %v", status, missing)
	}
	refused, err := world.Client.Do(t.Context(), http.MethodGet, "/api/agents/"+nodeAgent+"/certificates", nil, "")
	if err != nil || refused.Status < 400 || refused.Status == 504 {
		t.Errorf("an operation that it does not know: %d %s %v", refused.Status, refused.Raw, err)
	}

	// A new boot takes the session again, and knows from its journal what the one before did.
	agent.stop(t)
	written, err := os.ReadFile(journal)
	if err != nil || !strings.Contains(string(written), key) {
		t.Fatalf("the journal: %q %v", written, err)
	}
	startNodeAgent(t, dir, system.Bus, journal)
	answered(t, world, http.MethodGet, "/api/agents/"+nodeAgent+"/services", nil, "")
	again("after a restart of the agent")
	for id, state := range map[string]string{key: "COMMAND_STATE_FINISHED", uuid.NewString(): "COMMAND_STATE_NEVER_RECEIVED"} {
		if record := answered(t, world, http.MethodGet, "/api/agents/"+nodeAgent+"/commands/"+id, nil, ""); record.Text("record", "state") != state {
			t.Errorf("what became of a command: %s, not %s", record.Raw, state)
		}
	}
}

// answered makes a call that must be answered with 200. One that came too early for the agent is made again.
func answered(t *testing.T, world story.World, method, path string, body any, etag string) story.Answer {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		answer, err := world.Client.Do(t.Context(), method, path, body, etag)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status == http.StatusOK {
			return answer
		}
		if answer.Status != http.StatusServiceUnavailable && answer.Status != http.StatusGatewayTimeout || time.Now().After(deadline) {
			t.Fatalf("%s %s: %d %s", method, path, answer.Status, answer.Raw)
		}
	}
}

func restartOn(t *testing.T, world story.World, service, key string) (int, map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, world.Client.Base+"/api/agents/"+nodeAgent+"/services/"+service+"/restart", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Idempotency-Key", key)
	response, err := world.Client.HTTP.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body map[string]any
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body
}

type nodeProcess struct {
	command *exec.Cmd
	said    bytes.Buffer // to be read once it has ended
	ended   chan struct{}
}

func startNodeAgent(t *testing.T, dir, bus, journal string) *nodeProcess {
	t.Helper()
	p := &nodeProcess{command: exec.Command("node", "agent.mjs"), ended: make(chan struct{})}
	p.command.Dir, p.command.Stderr = dir, &p.said
	p.command.Env = append(os.Environ(),
		"SERVICEBUS_CONNECTION_STRING="+bus, "AGENT_NAME="+nodeAgent, "AGENT_JOURNAL="+journal, "AGENT_HEARTBEAT_SECONDS=1")
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.command.Wait()
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("the agent said:\n%s", p.said.String())
		}
	})
	return p
}

// stop asks the agent to end, and waits for it.
func (p *nodeProcess) stop(t *testing.T) {
	t.Helper()
	if err := p.command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatal("the agent does not end when it is told to")
	}
	if code := p.command.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the agent ended with %d: %s", code, p.said.String())
	}
}

var npmUnreachable = regexp.MustCompile(`ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT`)

// installNodeAgent has npm install what the lock file says, and gives the folder.
func installNodeAgent(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT RUN: the Node agent is left out of -short")
	}
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT RUN: the Node agent is not tested here, for %s is missing", tool)
		}
	}
	dir := filepath.Join(t.TempDir(), "node")
	if err := os.CopyFS(dir, os.DirFS("../../agent/examples/node")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=1")
	npm.Dir = dir
	out, err := npm.CombinedOutput()
	if err == nil {
		return dir
	}
	err = fmt.Errorf("npm ci: %w\n%s", errors.Join(err, ctx.Err()), out)
	if npmUnreachable.MatchString(err.Error()) || errors.Is(err, context.DeadlineExceeded) {
		t.Skipf("NOT RUN: the Node agent is not tested here, for npm can't reach its registry: %v", err)
	}
	t.Fatal(err)
	return ""
}
