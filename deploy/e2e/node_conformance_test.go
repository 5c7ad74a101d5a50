package e2e

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/deploy/conformance"
	"github.com/commandcenter/fleet/deploy/entities"
	servicebusemulator "github.com/commandcenter/fleet/servicebus-emulator"
)

// untried are what the example leaves out, as its README says, and what can't be brought about from outside.
var untried = map[string]bool{"7.4": true, "8.1": true, "6.7": true, "6.8": true, "4.9": runtime.GOOS != "linux" && runtime.GOOS != "darwin"}

// TestTheNodeAgentKeepsTheContract drives every rule that an agent on the bus alone can be asked against the example in Node.
func TestTheNodeAgentKeepsTheContract(t *testing.T) {
	dir := installNodeAgent(t)
	topics, err := entities.Config()
	if err != nil {
		t.Fatal(err)
	}
	emulator, err := servicebusemulator.Start(topics, servicebusemulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = emulator.Close() })
	log, err := os.Create(filepath.Join(t.TempDir(), "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	program, err := conformance.NewProgram("node agent.mjs", dir, []string{
		"SERVICEBUS_CONNECTION_STRING=" + emulator.ConnectionString(), "AGENT_NAME=" + nodeAgent,
		"AGENT_HEARTBEAT_SECONDS=4", "AGENT_WORK_SECONDS=8", "AGENT_JOURNAL=" + filepath.Join(t.TempDir(), "journal.jsonl"),
	}, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(program.Kill)
	report, err := conformance.Run(t.Context(), conformance.Options{
		Name: nodeAgent, ConnectionString: emulator.ConnectionString(), Emulator: emulator, Interval: 4 * time.Second,
		Patience:  patience,
		SlowWrite: `{"restartService":{"service":"W3SVC"}}`, Process: program,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range report {
		left := strings.HasPrefix(result.Rule, "H.") || untried[result.Rule]
		if result.Status == conformance.Failed || (result.Status == conformance.NotTried && !left) {
			t.Errorf("%s %s: %s: %s", result.Status, result.Rule, result.Title, result.Seen)
		}
	}
	if t.Failed() {
		said, _ := os.ReadFile(log.Name())
		t.Logf("the agent said:\n%s", said)
	}
}
