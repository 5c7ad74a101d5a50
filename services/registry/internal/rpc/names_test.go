package rpc

import (
	"strings"
	"testing"

	"github.com/commandcenter/fleet/services/registry/internal/store"
)

func TestANameThatIsNotGivenAnyMoreIsMarked(t *testing.T) {
	marked := agentMessage(store.Agent{Name: "SP\u200b-1", Hostname: "h\uFFFD"}).GetProblems()
	if len(marked) != 2 || !strings.Contains(marked[0], "U+200B") || !strings.HasPrefix(marked[1], "hostname:") {
		t.Errorf("an agent's: %q", marked)
	}
	if marked := serverMessage(store.Server{Name: ".."}).GetProblems(); len(marked) != 1 || !strings.Contains(marked[0], "dots") {
		t.Errorf("a server's: %q", marked)
	}
	if marked := agentMessage(store.Agent{Name: "SP-1", Hostname: "h", AgentVersion: "1"}).GetProblems(); len(marked) != 0 {
		t.Errorf("a good one's: %q", marked)
	}
}
