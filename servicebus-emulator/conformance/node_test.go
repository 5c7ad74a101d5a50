package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

// The limits of an installation and of one script. They end what hangs; nothing waits for them to pass.
const (
	installTime = 3 * time.Minute
	scriptTime  = 4 * time.Minute
)

// TestNode runs what is sent and received over AMQP.
func TestNode(t *testing.T) {
	e := start(t, namespace(), emu.Options{})
	run(t, "messaging.mjs", e.ConnectionString())
}

// TestNodeDeferred runs deferred and scheduled messages and the state of sessions.
func TestNodeDeferred(t *testing.T) {
	e := start(t, namespace(), emu.Options{})
	run(t, "deferred.mjs", e.ConnectionString())
}

// TestNodeAdministration makes entities and uses them.
func TestNodeAdministration(t *testing.T) {
	install(t) // or skip
	e := start(t, namespace(), emu.Options{AdminListen: "127.0.0.1:0"})
	run(t, "administration.mjs", e.ConnectionString(), e.AdminAddr())
}

// run runs a script of the folder node. Each step that it reports is a subtest.
func run(t *testing.T, script string, args ...string) {
	t.Helper()
	dir := install(t)
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	defer cancel()
	node := exec.CommandContext(ctx, "node", append([]string{script}, args...)...)
	node.Dir = dir
	var complaints strings.Builder
	node.Stderr = &complaints
	out, err := node.StdoutPipe()
	check(t, err)
	check(t, node.Start())
	steps, done := 0, false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var line struct {
			Step, Error string
			OK, Done    bool
			Ms, Steps   int
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("%s printed %q", script, lines.Text())
			continue
		}
		if line.Done {
			done = line.Steps == steps
			continue
		}
		steps++
		t.Run(line.Step, func(t *testing.T) {
			t.Logf("%d ms", line.Ms)
			if !line.OK {
				t.Error(line.Error)
			}
		})
	}
	if err := node.Wait(); err != nil || !done || steps == 0 {
		t.Errorf("%s did not come to its end, after %d steps: %v\n%s", script, steps, err, complaints.String())
	}
}

// install has npm install what the lock file says, once for all tests, and gives the folder.
func install(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT RUN: the Node SDK is left out of -short")
	}
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT RUN: the emulator is not held to the Node SDK here, for %s is missing", tool)
		}
	}
	dir, err := installed()
	if unreachable.MatchString(fmt.Sprint(err)) || errors.Is(err, context.DeadlineExceeded) {
		t.Skipf("NOT RUN: the emulator is not held to the Node SDK here, for npm can't reach its registry: %v", err)
	}
	check(t, err)
	return dir
}

var unreachable = regexp.MustCompile(`ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT`)

// scratch is removed at the end of the process.
var scratch string

func TestMain(m *testing.M) {
	code := m.Run()
	if scratch != "" {
		_ = os.RemoveAll(scratch)
	}
	os.Exit(code)
}

var installed = sync.OnceValues(func() (string, error) {
	var err error
	if scratch, err = os.MkdirTemp("", "conformance"); err != nil {
		return "", err
	}
	dir := filepath.Join(scratch, "node")
	if err := os.CopyFS(dir, os.DirFS("node")); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTime)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=1")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", errors.Join(err, ctx.Err()), out)
	}
	return dir, nil
})
