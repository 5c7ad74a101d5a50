package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The story of a cloud of control servers, told once from beginning to end: each part begins where the one before left it.
func TestI16_AgentsFindTheirWay(t *testing.T) {
	w := newCloudWorld(t, "control-1", "control-2", "control-3")
	w.enrolAgents("control-1")
	w.spread("settled", 100, "control-1", "control-2", "control-3")

	t.Run("a control server is killed", func(t *testing.T) {
		w.t = t
		w.servers["control-2"].process.Kill()
		w.spread("after the kill", 150, "control-1", "control-3")
		w.nobodyWentOffline()
	})
	t.Run("it is back within the grace", func(t *testing.T) {
		w.t = t
		before, returns := w.epoch(), w.fleet.Stats().Returns
		w.start("control-2")
		w.spread("back to their primaries", 100, "control-1", "control-2", "control-3")
		if w.epoch() != before {
			t.Errorf("lists changed: epoch %s, then %s: %v", before, w.epoch(), w.event())
		}
		if back := w.fleet.Stats().Returns - returns; back < 95 {
			t.Errorf("%d agents returned", back)
		}
		w.nobodyWentOffline()
	})
	t.Run("one goes into maintenance", func(t *testing.T) {
		w.t = t
		failed := w.fleet.Stats().CallsFailed
		w.change(http.MethodPut, "control-1", "/mode", map[string]any{"mode": "CONTROL_SERVER_MODE_MAINTENANCE"})
		w.spread("drained", 150, "control-2", "control-3")
		if after := w.fleet.Stats().CallsFailed; after != failed {
			t.Errorf("%d calls failed", after-failed)
		}
		tells(t, w.event(), "mode change", "control-1", "local")
		w.nobodyWentOffline()
	})
	t.Run("a new one joins", func(t *testing.T) {
		w.t = t
		w.start("control-4")
		w.spread("with the new one", 100, "control-2", "control-3", "control-4")
		event := w.event()
		tells(t, event, "join", "control-4")
		if moved := fmt.Sprint(event["primariesMoved"]); moved != "100" {
			t.Errorf("%s primaries moved: %v", moved, event)
		}
		w.nobodyWentOffline()
	})
	t.Run("one stands by, and a group prefers it", func(t *testing.T) {
		w.t = t
		w.change(http.MethodPatch, "control-4", "", map[string]any{"standby": true})
		w.spread("with one that stands by", 150, "control-2", "control-3")
		group := w.operate(http.MethodPost, "/api/config/affinity-groups", map[string]any{
			"name": "edge", "agents": w.fleet.Names()[:60], "controlServers": []string{"control-4"},
		}, "")
		w.work("with a group", map[string]int{"control-2": 120, "control-3": 120, "control-4": 60})
		until(t, "the group, and nobody else, works with its own", func() bool {
			good := true
			for i, name := range w.fleet.Names() {
				at, err := w.fleet.ControlServer(name)
				good = good && err == nil && (at == "control-4") == (i < 60)
			}
			return good
		})
		w.operate(http.MethodDelete, "/api/config/affinity-groups/edge", nil, group.Text("etag"))
		w.change(http.MethodPatch, "control-4", "", map[string]any{"standby": false})
		w.spread("without both", 100, "control-2", "control-3", "control-4")
		w.nobodyWentOffline()
	})
	t.Run("the database is down for a while", func(t *testing.T) {
		w.t = t
		before := w.epoch()
		w.lockDatabase(30 * time.Second)
		at := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
		until(t, "all are heard again", func() bool {
			return w.count("SELECT COUNT(*) FROM TblAgent WHERE Name LIKE 'BM-D%' AND LastDirectHeartbeatAt > ?", at) == directAgents
		})
		w.nobodyWentOffline()
		w.spread("afterwards", 100, "control-2", "control-3", "control-4")
		if w.epoch() != before {
			t.Errorf("lists changed: epoch %s, then %s: %v", before, w.epoch(), w.event())
		}
	})
	t.Run("all are down, and agents are restarted", func(t *testing.T) {
		w.t = t
		// The only one they could register with does not come back: what helps is the list on disk.
		for _, name := range []string{"control-1", "control-2", "control-3", "control-4"} {
			w.servers[name].process.Kill()
		}
		for _, name := range w.fleet.Names() {
			if err := w.fleet.Restart(name); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"control-2", "control-3", "control-4"} {
			w.start(name)
		}
		w.spread("from the list on disk", 100, "control-2", "control-3", "control-4")
		w.nobodyWentOffline()
	})
}

// tells checks that a partition event tells its story.
func tells(t *testing.T, event map[string]any, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(fmt.Sprint(event["causes"]), text) {
			t.Errorf("the event does not tell %q: %v", text, event)
		}
	}
}

// lockDatabase keeps everybody else from writing for a while.
func (w *cloudWorld) lockDatabase(lasts time.Duration) {
	w.t.Helper()
	conn, err := w.raw.Conn(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(w.t.Context(), "BEGIN IMMEDIATE"); err != nil {
		w.t.Fatal(err)
	}
	outage := time.NewTimer(lasts)
	defer outage.Stop()
	<-outage.C
	if _, err := conn.ExecContext(w.t.Context(), "ROLLBACK"); err != nil {
		w.t.Fatal(err)
	}
}
