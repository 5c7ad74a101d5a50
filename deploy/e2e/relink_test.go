package e2e

import (
	"database/sql"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/agent/fleet"
	"github.com/commandcenter/fleet/deploy/local"
	"github.com/commandcenter/fleet/deploy/story"
)

// Another codebase imports the whole of TblServer again, under other keys: it is seen and said, no server changes meanwhile, and one act
// relinks every agent to the server of its name.
func TestI18_AnImportedTableIsRelinkedByOneAct(t *testing.T) {
	dir := t.TempDir()
	names := []string{"BM-ONE", "bm-two", "bm-ü3"}
	var members []fleet.Agent
	for _, name := range names {
		members = append(members, fleet.Agent{Name: name, ServiceBus: true})
	}
	system, err := local.Start(t.Context(), local.Config{
		Dir: dir, REST: "127.0.0.1:0", AnyPorts: true, HeartbeatInterval: time.Second, SweepInterval: 300 * time.Millisecond, AvailabilityReplicas: 2, Agents: members,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := system.Close(); err != nil {
			t.Error(err)
		}
	})
	client := story.Client{Base: system.REST, HTTP: &http.Client{Timeout: 20 * time.Second}}
	world := story.World{Client: client}
	for _, name := range names {
		accept(t, client, name)
	}
	for _, name := range names {
		until(t, name+" is online", func() bool { return online(t, client, name) })
	}

	raw, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "fleet.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	connection, err := raw.Conn(t.Context()) // one, which keeps its temporary table
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	for _, statement := range []string{
		`CREATE TEMP TABLE Kept AS SELECT * FROM TblServer`, `DELETE FROM TblServer`,
		`INSERT INTO TblServer (Name, Url, Type, Active, Online) SELECT upper(Name), Url, Type, Active, Online FROM Kept ORDER BY ServerKey DESC`,
	} {
		if _, err := connection.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(statement, err)
		}
	}

	says := func(path string, texts ...string) func() bool {
		return func() bool {
			answer := get(t, client, path)
			for _, text := range texts {
				if !strings.Contains(answer.Raw, text) {
					return false
				}
			}
			return true
		}
	}
	until(t, "the overview says it", says("/api/availability/overview", "3 agents are linked to a row of TblServer that is gone"))
	until(t, "the list says it", says("/api/config/agents?pageSize=1", `"astrayAgents":3`, "agents:relink"))
	until(t, "the server says it", says("/api/availability/servers/bm-two", "agent astray", "relink the agent"))
	if !online(t, client, "BM-ONE") {
		t.Error("a server went offline for it")
	}
	shown := get(t, client, "/api/config/agents/BM-ONE")
	again, err := client.Do(t.Context(), http.MethodPost, "/api/config/agents/BM-ONE:accept", map[string]any{}, shown.Text("etag"))
	if err != nil || again.Status != http.StatusConflict || !strings.Contains(again.Raw, "relink") {
		t.Errorf("accepting it again: %d %s %v", again.Status, again.Raw, err)
	}
	if refused, err := client.Do(t.Context(), http.MethodPost, "/api/config/agents/BM-ONE:relink", map[string]any{}, ""); err != nil || refused.Status != http.StatusPreconditionRequired {
		t.Errorf("without its etag: %d %s %v", refused.Status, refused.Raw, err)
	}
	one := answered(t, world, http.MethodPost, "/api/config/agents/BM-ONE:relink", map[string]any{}, shown.Text("etag"))
	if one.Text("server", "name") != "BM-ONE" || one.Text("registrationState") != "REGISTRATION_STATE_ACCEPTED" {
		t.Errorf("relinked: %s", one.Raw)
	}
	if refused, err := client.Do(t.Context(), http.MethodPost, "/api/config/agents:relink", map[string]any{}, ""); err != nil || refused.Status != http.StatusBadRequest {
		t.Errorf("neither items nor all: %d %s %v", refused.Status, refused.Raw, err)
	}
	all := answered(t, world, http.MethodPost, "/api/config/agents:relink", map[string]any{"all": true}, "")
	if len(all.List("results")) != 2 || strings.Contains(all.Raw, `"reason":"S`) {
		t.Errorf("all: %s", all.Raw)
	}
	until(t, "nothing is astray", says("/api/config/agents", `"astrayAgents":0`))
	for _, name := range names {
		until(t, name+" is judged again", says("/api/availability/servers/"+name, "heartbeat fresh"))
	}
}
