package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/commandcenter/fleet/deploy/story"
)

// enrol waits for the agents' first heartbeats, tells the gateway where the direct ones serve commands, and accepts each with a server of
// its own.
func (r *run) enrol(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	for i := range r.cfg.Working {
		if err := r.accept(ctx, WorkingAgent(i), ""); err != nil {
			return err
		}
	}
	for i, address := range r.world.direct {
		if err := r.accept(ctx, DirectAgent(i), "http://"+address); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) accept(ctx context.Context, name, baseURL string) error {
	path := "/api/config/agents/" + name
	shown, err := r.appeared(ctx, path)
	if err == nil && baseURL != "" {
		shown, err = r.operate(ctx, http.MethodPatch, path, map[string]any{"httpBaseUrl": baseURL}, shown.Text("etag"))
	}
	if err != nil {
		return err
	}
	server := map[string]any{"createServer": map[string]any{"url": "https://" + name + ".example.test"}}
	_, err = r.operate(ctx, http.MethodPost, path+":accept", server, shown.Text("etag"))
	return err
}

// appeared waits until an agent is known, and returns how it is shown.
func (r *run) appeared(ctx context.Context, path string) (story.Answer, error) {
	for {
		shown, err := r.operator(0).Do(ctx, http.MethodGet, path, nil, "")
		if err != nil || shown.Status == http.StatusOK {
			return shown, err
		}
		select {
		case <-ctx.Done():
			return shown, fmt.Errorf("%s did not appear: %s", path, shown.Raw)
		case <-r.world.agents.Ended():
			return shown, fmt.Errorf("the agents ended; see %s", r.world.agents.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// operate does what an operator does.
func (r *run) operate(ctx context.Context, method, path string, body any, etag string) (story.Answer, error) {
	answer, err := r.operator(0).Do(ctx, method, path, body, etag)
	if err == nil && answer.Status != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, path, answer.Raw)
	}
	return answer, err
}

func (r *run) operator(gateway int) story.Client {
	return story.Client{Base: r.world.rest[gateway], HTTP: r.commands.client}
}

// judged reports whether no path is frozen or braked and nothing else is unusual.
func (r *run) judged(ctx context.Context) bool {
	overview, err := r.operator(0).Do(ctx, http.MethodGet, "/api/availability/overview", nil, "")
	if err != nil || overview.Status != http.StatusOK || overview.Text("holder") == "" {
		return false
	}
	return !slices.ContainsFunc(overview.List("paths"), func(path map[string]any) bool {
		return path["blind"] != nil && path["blind"] != "" || path["braked"] == true
	})
}

// holder is the replica that does the availability job.
func (r *run) holder(ctx context.Context) (*service, error) {
	overview, err := r.operate(ctx, http.MethodGet, "/api/availability/overview", nil, "")
	if err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(overview.Text("holder"), "/") // a replica's name, and which of its starts
	for i, replica := range r.world.availability {
		if name == availabilityReplica(i) {
			return replica, nil
		}
	}
	return nil, fmt.Errorf("the availability job is held by %q", overview.Text("holder"))
}

// standings are what the database says of servers.
type standings struct {
	servers, online int
	offlineRows     map[string]int // by server
}

func (w *world) standings(ctx context.Context) (found standings, err error) {
	db, err := sql.Open("sqlite", "file:"+w.database()+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		return found, err
	}
	defer db.Close()
	found.offlineRows = map[string]int{}
	err = db.QueryRowContext(ctx, "SELECT COUNT(*), COALESCE(SUM(Online), 0) FROM TblServer").Scan(&found.servers, &found.online)
	if err != nil {
		return found, err
	}
	rows, err := db.QueryContext(ctx, "SELECT s.Name, COUNT(*) FROM TblServerOfflineLog l JOIN TblServer s ON s.ServerKey = l.ServerKey GROUP BY s.Name")
	if err != nil {
		return found, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var count int
		if err := rows.Scan(&name, &count); err != nil {
			return found, err
		}
		found.offlineRows[name] = count
	}
	return found, rows.Err()
}

// allOnline reports whether each server is online.
func (w *world) allOnline(ctx context.Context) bool {
	found, err := w.standings(ctx)
	return err == nil && found.servers > 0 && found.online == found.servers
}

// silence ends half of the agents, and waits until their servers are offline.
func (r *run) silence(ctx context.Context) (ended []string, err error) {
	bus, direct := r.cfg.Working/2, len(r.world.direct)/2
	for i := bus; i < r.cfg.Working; i++ {
		ended = append(ended, WorkingAgent(i))
	}
	for i := direct; i < len(r.world.direct); i++ {
		ended = append(ended, DirectAgent(i))
	}
	r.world.agents.Stop()
	if err := r.world.startAgents(bus, direct); err != nil {
		return ended, err
	}
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	for {
		found, err := r.world.standings(ctx)
		switch {
		case ctx.Err() != nil:
			return ended, errors.Join(ctx.Err(), err)
		case err == nil && found.online <= found.servers-len(ended):
			return ended, nil
		}
		pass(ctx, 100*time.Millisecond)
	}
}

// servers compares what became of servers with who spoke: no server may have gone offline before half of the agents were ended, and
// then just theirs.
func (v *verdict) servers(ctx context.Context, r *run) error {
	before, err := r.world.standings(ctx)
	if err != nil {
		return err
	}
	v.spared(before)
	ended, err := r.silence(ctx)
	if err != nil {
		return fmt.Errorf("servers of agents that were ended did not go offline: %w", err)
	}
	after, err := r.world.standings(ctx)
	if err != nil {
		return err
	}
	v.silenced(before, after, ended)
	return nil
}

// spared checks that all of them stand as their agents do, which all speak.
func (v *verdict) spared(found standings) {
	v.check(found.online == found.servers, "servers online while their agents speak: %d of %d", found.online, found.servers)
	v.check(len(found.offlineRows) == 0, "servers that went offline though their agents spoke: %d", len(found.offlineRows))
}

// silenced checks that just the servers of the ended agents went offline, with one row each in the offline log.
func (v *verdict) silenced(before, after standings, ended []string) {
	once, others := 0, 0
	for name, rows := range after.offlineRows {
		switch {
		case slices.Contains(ended, name) && rows-before.offlineRows[name] == 1:
			once++
		case rows != before.offlineRows[name]:
			others++
		}
	}
	v.check(once == len(ended), "ended agents whose servers went offline, with one row in the log: %d of %d", once, len(ended))
	v.check(others == 0, "other servers with rows in the log, or with more than one: %d", others)
}
