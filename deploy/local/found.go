package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/commandcenter/fleet/deploy/story"
)

// Found is what an earlier system left in the folder.
type Found struct {
	// Agents counts agents by registration state, such as "accepted".
	Agents map[string]int
	// Servers counts the rows of the server catalog.
	Servers int
}

// Nothing reports whether the folder was empty.
func (f Found) Nothing() bool { return len(f.Agents) == 0 && f.Servers == 0 }

// String says it in words: "7 agents (6 accepted, 1 pending) and 6 servers".
func (f Found) String() string {
	total, states := 0, make([]string, 0, len(f.Agents))
	for state, count := range f.Agents {
		total += count
		states = append(states, fmt.Sprintf("%d %s", count, state))
	}
	slices.SortFunc(states, func(a, b string) int { return strings.Compare(a[strings.Index(a, " "):], b[strings.Index(b, " "):]) })
	agents := counted(total, "agent")
	if total > 0 {
		agents += " (" + strings.Join(states, ", ") + ")"
	}
	return agents + " and " + counted(f.Servers, "server")
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// lookFor counts what an earlier system left. It is asked before agents start.
func (s *System) lookFor(ctx context.Context) (found Found, err error) {
	operator := story.Client{Base: s.REST, HTTP: &http.Client{Timeout: 30 * time.Second}}
	found.Agents = map[string]int{}
	err = each(ctx, operator, "agents", func(agent map[string]any) {
		state, _ := agent["registrationState"].(string)
		found.Agents[strings.ToLower(strings.TrimPrefix(state, "REGISTRATION_STATE_"))]++
	})
	if err != nil {
		return found, err
	}
	return found, each(ctx, operator, "servers", func(map[string]any) { found.Servers++ })
}

// each goes through all pages of a list.
func each(ctx context.Context, operator story.Client, list string, do func(map[string]any)) error {
	for token := ""; ; {
		query := url.Values{"pageSize": {"500"}, "pageToken": {token}}
		page, err := expect(operator.Do(ctx, http.MethodGet, "/api/config/"+list+"?"+query.Encode(), nil, ""))
		if err != nil {
			return fmt.Errorf("what an earlier system left can't be counted: %w", err)
		}
		for _, item := range page.List(list) {
			do(item)
		}
		if token = page.Text("nextPageToken"); token == "" {
			return nil
		}
	}
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
