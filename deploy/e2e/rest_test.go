package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/commandcenter/fleet/deploy/local"
	"github.com/commandcenter/fleet/deploy/story"
)

func world(t *testing.T) story.World {
	t.Helper()
	world, stop, err := local.StartStory(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return world
}

// TestI17_BadInputGetsAClearErrorAndChangesNothing asks in every wrong way, and looks at the catalog afterwards.
func TestI17_BadInputGetsAClearErrorAndChangesNothing(t *testing.T) {
	world := world(t)
	for _, test := range []struct {
		what, method, path, body, etag string
		status                         int
		texts                          []string
	}{
		{"unknown route", "GET", "/api/nope", "", "", 404, []string{"ROUTE_NOT_FOUND"}},
		{"wrong method", "PUT", "/api/agents", "", "", 405, []string{"METHOD_NOT_ALLOWED", "GET"}},
		{"unknown field", "POST", "/api/config/servers", `{"name":"X","url":"https://x","foo":1}`, "", 400, []string{`"pointer":"/foo"`}},
		{"unknown field inside", "POST", "/api/config/agents", `{"name":"X","httpBaseUrl":"http://127.0.0.1:1","createServer":{"ulr":""}}`, "", 400, []string{`"pointer":"/createServer/ulr"`}},
		{"wrong type", "POST", "/api/config/servers", `{"name":"X","url":"https://x","active":"maybe"}`, "", 400, []string{`"pointer":"/active"`}},
		{"broken JSON", "POST", "/api/config/servers", `{"name":`, "", 400, []string{"not JSON"}},
		{"two values", "POST", "/api/config/servers", `{"name":"X","url":"https://x"} {}`, "", 400, []string{"not JSON"}},
		{"missing field", "POST", "/api/config/servers", `{"name":"X"}`, "", 400, []string{`"pointer":"/url"`}},
		{"control character", "POST", "/api/config/servers", `{"name":"X\u0007","url":"https://x"}`, "", 400, []string{`"pointer":"/name"`}},
		{"metadata address", "POST", "/api/config/agents", `{"name":"X","httpBaseUrl":"http://169.254.169.254","createServer":{"url":"https://x"}}`, "", 400, []string{`"pointer":"/httpBaseUrl"`}},
		{"unknown query parameter", "GET", "/api/config/agents?stats=x", "", "", 400, []string{"stats"}},
		{"bad enum in the query", "GET", "/api/config/agents?states=ACCEPTD", "", "", 400, []string{"states"}},
		{"bad page token", "GET", "/api/config/agents?pageToken=zzz", "", "", 400, []string{"pageToken"}},
		{"too large", "POST", "/api/config/servers", `{"name":"` + strings.Repeat("x", 1<<20) + `"}`, "", 413, []string{"BODY_TOO_LARGE"}},
		{"unknown agent", "GET", "/api/agents/ghost/services", "", "", 404, []string{"AGENT_NOT_FOUND", "ghost"}},
		{"unknown server", "GET", "/api/config/servers/ghost", "", "", 404, []string{"SERVER_NOT_FOUND"}},
		{"no etag", "POST", "/api/config/agents/" + story.Spare + ":accept", `{}`, "", 428, []string{"ETAG_REQUIRED"}},
		{"stale etag", "POST", "/api/config/agents/" + story.Spare + ":accept", `{}`, "1-99", 412, []string{"STALE_ETAG", "currentEtag"}},
		{"any etag", "POST", "/api/config/agents/" + story.Spare + ":accept", `{}`, "*", 428, []string{"ETAG_REQUIRED"}},
	} {
		t.Run(test.what, func(t *testing.T) {
			if strings.Contains(test.path, story.Spare) {
				heard(t, world, story.Spare)
			}
			status, header, raw := raw(t, world, test.method, test.path, test.body, test.etag)
			if status != test.status || header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("answered %d %s: %.300s", status, header.Get("Content-Type"), raw)
			}
			for _, text := range test.texts {
				if !strings.Contains(raw, text) {
					t.Errorf("the answer lacks %s: %.300s", text, raw)
				}
			}
			if status == 405 && !strings.Contains(header.Get("Allow"), "GET") {
				t.Errorf("Allow is %q", header.Get("Allow"))
			}
		})
	}
	servers, err := world.Client.Do(t.Context(), http.MethodGet, "/api/config/servers", nil, "")
	if err != nil || len(servers.List("servers")) != 0 {
		t.Fatalf("bad input left servers behind: %s %v", servers.Raw, err)
	}
}

// TestI13_NamesInPathsAreTakenAsTheyAre adds agents with difficult names by hand and reaches each in other case.
func TestI13_NamesInPathsAreTakenAsTheyAre(t *testing.T) {
	world := world(t)
	for _, name := range []string{"With Space", "a/b", "100%", "dollar$plus+at@", "dots.and..more", "Größe", "colon:accept", "tilde~'quote'"} {
		t.Run(name, func(t *testing.T) {
			body := map[string]any{"name": name, "httpBaseUrl": "http://127.0.0.1:9", "createServer": map[string]any{"url": "https://x.example.test"}}
			added, err := world.Client.Do(t.Context(), http.MethodPost, "/api/config/agents", body, "")
			if err != nil || added.Status != http.StatusOK {
				t.Fatalf("%d %s %v", added.Status, added.Raw, err)
			}
			shown, err := world.Client.Do(t.Context(), http.MethodGet, "/api/config/agents/"+escapeAll(strings.ToUpper(name)), nil, "")
			if err != nil || shown.Status != http.StatusOK || shown.Text("name") != name {
				t.Fatalf("%d %s %v", shown.Status, shown.Raw, err)
			}
			route, err := world.Client.Do(t.Context(), http.MethodGet, "/api/agents/"+escapeAll(name)+"/route", nil, "")
			if err != nil || route.Text("rule") != "7" {
				t.Fatalf("%d %s %v", route.Status, route.Raw, err)
			}
		})
	}
}

// A write that is asked for again under its key runs once, whichever transport it takes.
func TestI3_ARepeatedKeyRunsTheCommandOnce(t *testing.T) {
	world := world(t)
	heard(t, world, story.Bus)
	base, err := world.Fleet.HTTPBaseURL(story.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	accepted := func(answer story.Answer, err error) {
		if err != nil || answer.Status != http.StatusOK {
			t.Fatalf("%d %s %v", answer.Status, answer.Raw, err)
		}
	}
	shown, err := world.Client.Do(t.Context(), http.MethodGet, "/api/config/agents/"+story.Bus, nil, "")
	accepted(shown, err)
	server := map[string]any{"url": "https://x.example.test"}
	accepted(world.Client.Do(t.Context(), http.MethodPost, "/api/config/agents/"+story.Bus+":accept", map[string]any{"createServer": server}, shown.Text("etag")))
	accepted(world.Client.Do(t.Context(), http.MethodPost, "/api/config/agents", map[string]any{"name": story.HTTP, "httpBaseUrl": base, "createServer": server}, ""))
	for _, agent := range []string{story.Bus, story.HTTP} {
		key := uuid.NewString()
		restart := func(service string) (int, map[string]any) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, world.Client.Base+"/api/agents/"+agent+"/services/"+service+"/restart", nil)
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
		status, first := restart("W3SVC")
		again, second := restart("W3SVC")
		if status != 200 || again != 200 || first["commandId"] != key || first["startedAt"] == nil || first["startedAt"] != second["startedAt"] {
			t.Errorf("%s: %d %v, then %d %v", agent, status, first, again, second)
		}
		if status, other := restart("WAS"); status != 409 || other["reason"] != "COMMAND_REFUSED" {
			t.Errorf("%s: another command under the key: %d %v", agent, status, other)
		}
		// What the machine's state does not allow is a conflict, and says what is in the way.
		for path, text := range map[string]string{
			"/services/RemoteRegistry/start": "it is disabled", "/services/RemoteRegistry/restart": "it is disabled", "/iis/app-pools/Legacy.Classic/recycle": "it is stopped",
		} {
			answer, err := world.Client.Do(t.Context(), http.MethodPost, "/api/agents/"+agent+path, nil, "")
			if err != nil || answer.Status != http.StatusConflict || answer.Text("reason") != "HOST_STATE" || !strings.Contains(answer.Raw, text) || !strings.Contains(answer.Raw, "nothing was done") {
				t.Errorf("%s%s: %d %s %v", agent, path, answer.Status, answer.Raw, err)
			}
		}
	}
}

// escapeAll escapes every byte that is not a letter or digit, as a careful client does.
func escapeAll(name string) string {
	const digits = "0123456789ABCDEF"
	var escaped strings.Builder
	for _, b := range []byte(name) {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' {
			escaped.WriteByte(b)
			continue
		}
		escaped.WriteString("%" + string(digits[b>>4]) + string(digits[b&15]))
	}
	return escaped.String()
}

// heard waits until an agent's first heartbeat was stored.
func heard(t *testing.T, world story.World, agent string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		shown, err := world.Client.Do(ctx, http.MethodGet, "/api/config/agents/"+agent, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if shown.Status == http.StatusOK {
			return
		}
	}
}

func raw(t *testing.T, world story.World, method, path, body, etag string) (int, http.Header, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, world.Client.Base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if etag != "" {
		request.Header.Set("If-Match", etag)
	}
	response, err := world.Client.HTTP.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder
	buffer := make([]byte, 4096)
	for {
		n, err := response.Body.Read(buffer)
		text.Write(buffer[:n])
		if err != nil {
			return response.StatusCode, response.Header, text.String()
		}
	}
}

// storyAt starts a system for a test or for a fuzzer.
func storyAt(t testing.TB) (story.World, func(), error) {
	t.Helper()
	return local.StartStory(t.Context(), t.TempDir())
}

// TestListsAreSortedFilteredAndCounted asks for agents as operators do, over the whole way, page by page.
func TestListsAreSortedFilteredAndCounted(t *testing.T) {
	world := world(t)
	names := []string{story.Bus, story.Both, story.HTTP, story.Pending, story.Spare}
	for _, name := range names {
		if name != story.HTTP { // which sends no heartbeats
			heard(t, world, name)
		}
	}
	list := func(query string) (found []string, total string) {
		t.Helper()
		for token := ""; ; {
			answer, err := world.Client.Do(t.Context(), http.MethodGet, "/api/config/agents?pageSize=2&"+query+"&pageToken="+token, nil, "")
			if err != nil || answer.Status != http.StatusOK {
				t.Fatal(query, answer.Raw, err)
			}
			for _, agent := range answer.List("agents") {
				found = append(found, fmt.Sprint(agent["name"]))
			}
			total = fmt.Sprint(answer.Body["total"])
			if token, _ = answer.Body["nextPageToken"].(string); token == "" {
				return found, total
			}
		}
	}
	all, total := list("orderBy=name")
	down, _ := list("order_by=name%20desc")
	slices.Reverse(down)
	if len(all) < 4 || total != fmt.Sprint(len(all)) || !slices.IsSorted(all) || !slices.Equal(all, down) {
		t.Errorf("%v of %s, and %v", all, total, down)
	}
	if found, total := list("unseenFor=7d"); len(found) != 0 || total != "0" {
		t.Errorf("unseen for a week: %v of %s", found, total)
	}
	if found, total := list("unseenFor=0.001s&states=pending&orderBy=lastHeartbeat"); len(found) != len(all) || total != fmt.Sprint(len(all)) {
		t.Errorf("unseen for a millisecond: %v of %s", found, total)
	}
	if found, _ := list("agentVersion=none"); len(found) != 0 {
		t.Errorf("of no version: %v", found)
	}
	for _, query := range []string{
		"/api/config/agents?orderBy=colour", "/api/config/servers?orderBy=colour", "/api/agents?orderBy=colour", "/api/availability/servers?orderBy=colour",
		"/api/config/control-servers?orderBy=colour", "/api/config/affinity-groups?orderBy=colour", "/api/config/partition-events?orderBy=colour",
	} {
		if status, _, raw := raw(t, world, http.MethodGet, query, "", ""); status != http.StatusBadRequest || !strings.Contains(raw, `"#/orderBy"`) || !strings.Contains(raw, "must be one of ") {
			t.Errorf("%s: %d %s", query, status, raw)
		}
	}
}
