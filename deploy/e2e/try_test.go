package e2e

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/commandcenter/fleet/deploy/local"
	"github.com/commandcenter/fleet/deploy/story"
)

const (
	endlessFor  = "3" // seconds for which a call that never ends is watched
	curlTimeout = 28  // curl's exit code when it ends a call
)

// TestThePageOfThingsToTry types what deploy/TRY.md says, into a system as make run starts it. Every call must be answered with success.
func TestThePageOfThingsToTry(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "awk"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT RUN: the page of things to try is not tried here, for %s is missing", tool)
		}
	}
	page, err := os.ReadFile("../TRY.md")
	if err != nil {
		t.Fatal(err)
	}
	system, err := local.Start(t.Context(), local.Config{Dir: t.TempDir(), REST: "127.0.0.1:0", AnyPorts: true, Agents: local.HandfulOfAgents()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := system.Close(); err != nil {
			t.Error("stopping:", err)
		}
	})
	if err := local.Enrol(t.Context(), system); err != nil {
		t.Fatal(err)
	}
	// Lists are made some seconds after the control servers joined; a reader comes to that block later than a test does.
	operator := story.Client{Base: system.REST, HTTP: &http.Client{Timeout: 30 * time.Second}}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		list, err := operator.Do(t.Context(), http.MethodGet, "/api/config/agents/BM-EDGE-06/failover-list", nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if list.Status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no failover list: %s", list.Raw)
		}
	}
	blocks := regexp.MustCompile("(?s)```sh( endless)?\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 9 {
		t.Fatalf("the page has %d blocks only", len(blocks))
	}
	for _, block := range blocks {
		typed(t, system.REST, block[2], block[1] != "")
	}
}

// typed runs lines in a shell in which a call that is answered with an error ends everything.
func typed(t *testing.T, rest, lines string, endless bool) {
	t.Helper()
	limit := "120"
	if endless {
		limit = endlessFor
	}
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c",
		"curl() { command curl --fail-with-body --max-time "+limit+" \"$@\"; }\n"+lines)
	shell.Env = append(os.Environ(), "REST="+rest)
	out, err := shell.CombinedOutput()
	var exit *exec.ExitError
	if endless && errors.As(err, &exit) && exit.ExitCode() == curlTimeout {
		return
	}
	if err != nil || endless {
		t.Errorf("%v\n%s\n%s", err, lines, out)
	}
}
