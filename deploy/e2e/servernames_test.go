package e2e

import (
	"net/http"
	"net/url"
	"testing"
)

// Names beyond ASCII are one server in every spelling, over every route; and a double that another codebase wrote has a way out.
func TestI13_AServerIsOneInEverySpelling(t *testing.T) {
	world := world(t)
	made := answered(t, world, http.MethodPost, "/api/config/servers", map[string]any{"name": "ÖL-1", "url": "https://x.example.test"}, "")
	second, err := world.Client.Do(t.Context(), http.MethodPost, "/api/config/servers", map[string]any{"name": "öl-1", "url": "https://x.example.test"}, "")
	if err != nil || second.Status != http.StatusConflict || second.Text("reason") != "NAME_TAKEN" {
		t.Errorf("the same name in other case: %d %s %v", second.Status, second.Raw, err)
	}
	for _, path := range []string{"/api/config/servers/" + url.PathEscape("o\u0308l-1"), "/api/config/server-keys/" + made.Text("serverKey")} {
		if shown := answered(t, world, http.MethodGet, path, nil, ""); shown.Text("name") != "ÖL-1" {
			t.Errorf("%s: %s", path, shown.Raw)
		}
	}
	renamed := answered(t, world, http.MethodPatch, "/api/config/server-keys/"+made.Text("serverKey"), map[string]any{"name": "17"}, made.Text("etag"))
	if renamed.Text("name") != "17" {
		t.Errorf("renamed by its key: %s", renamed.Raw)
	}
	// A server may be named as a key is written: the two never meet.
	if shown := answered(t, world, http.MethodGet, "/api/config/servers/17", nil, ""); shown.Text("serverKey") != made.Text("serverKey") {
		t.Errorf("by its name: %s", shown.Raw)
	}
	for path, status := range map[string]int{"/api/config/server-keys/999999": 404, "/api/config/server-keys/0": 400, "/api/config/server-keys/x": 400, "/api/config/servers/17?key=1": 400} {
		if answer, err := world.Client.Do(t.Context(), http.MethodGet, path, nil, ""); err != nil || answer.Status != status {
			t.Errorf("%s: %d %s %v", path, answer.Status, answer.Raw, err)
		}
	}
	added := map[string]any{"name": "öl-2", "httpBaseUrl": "http://127.0.0.1:9", "createServer": map[string]any{"url": "https://x.example.test"}}
	answered(t, world, http.MethodPost, "/api/config/agents", added, "")
}
