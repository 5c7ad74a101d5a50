package store

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/commandcenter/fleet/services/internal/spelling"
	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// Agent is one row of TblAgent with its server, as read at ReadAt of the database's clock.
type Agent struct {
	Key, DecisionVersion             int64
	Name, NameKey, ReportedName      string
	Hostname                         string
	AffinityGroup                    string // empty: none
	State                            enrollment.State
	DecidedBy                        string
	DecidedAt                        time.Time
	OnServiceBus                     bool
	HTTPBaseURL, ReportedHTTPBaseURL string
	VerifiedAt                       time.Time
	Verification                     int // 0 never, 1 succeeded, 2 failed
	VerificationDetail               string
	LastBusAt, LastDirectAt          time.Time
	BootID                           string
	Sequence                         int64
	ReportedAt                       time.Time
	AgentVersion                     string
	Capabilities                     []string
	ConflictAt, CreatedAt            time.Time
	BindingCount                     int
	BindingsReported                 bool
	HasToken                         bool
	Claimable                        bool  // the next machine that enrols may claim the name
	ServerKey                        int64 // 0: not linked
	Server                           *Server
	Receiver                         enrollment.Receiver // of commands over the bus
	ReadAt                           time.Time
}

// Etag names the present state of what operators decide.
func (a Agent) Etag() string { return enrollment.Etag(a.Key, a.DecisionVersion) }

func scanAgent(scan func(...any) error, extra ...any) (Agent, error) {
	var a Agent
	var state, onBus, verification, bindings, count, token, claimable, linked, serverKey, active, online, unanswered sqldb.Int
	var decidedBy, baseURL, reportedURL, detail, capabilities, serverName, serverURL sqldb.String
	var decidedAt, verifiedAt, bus, direct, reported, conflict, created, readAt, answered, unansweredSince sqldb.Time
	dest := append([]any{
		&a.Key, &a.Name, &a.NameKey, &a.ReportedName, &a.Hostname, &state, &decidedBy, &decidedAt, &a.DecisionVersion, (*sqldb.String)(&a.AffinityGroup),
		&onBus, &baseURL, &reportedURL, &verifiedAt, &verification, &detail,
		&bus, &direct, &a.BootID, &a.Sequence, &reported, &a.AgentVersion, &capabilities,
		&conflict, &created, &count, &bindings, &token, &claimable, &linked, &serverKey, &serverName, &serverURL, &active, &online, &readAt,
		&answered, &unanswered, &unansweredSince,
	}, extra...)
	if err := scan(dest...); err != nil {
		return a, err
	}
	a.State, a.OnServiceBus, a.Verification = enrollment.State(state), onBus == 1, int(verification)
	a.DecidedBy, a.HTTPBaseURL, a.ReportedHTTPBaseURL, a.VerificationDetail = string(decidedBy), string(baseURL), string(reportedURL), string(detail)
	a.DecidedAt, a.VerifiedAt, a.LastBusAt, a.LastDirectAt = decidedAt.Time, verifiedAt.Time, bus.Time, direct.Time
	a.ReportedAt, a.ConflictAt, a.CreatedAt, a.ReadAt = reported.Time, conflict.Time, created.Time, readAt.Time
	a.BindingsReported, a.BindingCount, a.ServerKey = bindings == 1, int(count), int64(linked)
	a.HasToken, a.Claimable = token == 1, claimable == 1
	a.Receiver = enrollment.Receiver{AnsweredAt: answered.Time, Unanswered: int(unanswered), UnansweredSince: unansweredSince.Time}
	if serverKey != 0 {
		a.Server = &Server{Key: int64(serverKey), Name: string(serverName), URL: string(serverURL), Active: active == 1, Online: online == 1}
	}
	if capabilities != "" {
		return a, json.Unmarshal([]byte(capabilities), &a.Capabilities)
	}
	return a, nil
}

// Agent reads one agent with its server and the health of a path's ingest, in one statement.
func (s *Store) Agent(ctx context.Context, name enrollment.Name, path enrollment.Path) (Agent, Health, error) {
	return readAgentAndHealth(ctx, s.db, name, path)
}

// readAgent reads one agent with its server, within a transaction.
func readAgent(ctx context.Context, tx *sqldb.Tx, name enrollment.Name) (Agent, error) {
	agent, _, err := readAgentAndHealth(ctx, tx, name, noPath)
	return agent, err
}

// reader runs statements that read: a transaction, or the database by itself.
type reader interface {
	Rows(ctx context.Context, name string, scan func(scan func(dest ...any) error) error, args ...any) error
}

func readAgentAndHealth(ctx context.Context, from reader, name enrollment.Name, path enrollment.Path) (Agent, Health, error) {
	var agent Agent
	var proofs []proof
	found := false
	err := from.Rows(ctx, "agent", func(scan func(...any) error) error {
		var proof proof
		var err error
		found = true
		if agent, err = scanAgent(scan, proof.dest()...); err == nil {
			proofs = append(proofs, proof)
		}
		return err
	}, named("nameKey", name.Key), named("path", int(path)))
	if err == nil && !found {
		err = &AgentNotFoundError{Name: name.Spelling}
	}
	return agent, healthOf(proofs, agent.ReadAt), err
}

// Filter chooses agents.
type Filter struct {
	States     []enrollment.State // empty: all
	Transport  int                // -1 any, 0 none, 1 bus, 2 HTTP
	Freshness  int                // 0 any, 1 fresh, 2 stale, 3 never heard
	MaxAge     time.Duration      // what fresh means
	Linked     int                // -1 any, 0 no, 1 yes
	Query      string
	UnseenFor  time.Duration // at least as long ago was the newest heartbeat; 0: any
	Version    string        // empty: any
	Astray     int           // 1 and 2: whether its link has to be mended (see astray), no and yes; 0: any
	Primary    string        // key of the primary control server's name; empty: any
	Sort       string        // name, state, last_heartbeat, created, hostname, version or control_server
	Descending bool
}

// Agents reads a page, where the next one begins (nil on the last), and how many there are on all pages.
func (s *Store) Agents(ctx context.Context, filter Filter, limit int, after *Cursor) (agents []Agent, next *Cursor, total int, err error) {
	var states strings.Builder
	for _, state := range filter.States {
		states.WriteByte(byte('0' + state))
	}
	if after == nil {
		after = &Cursor{}
		if filter.Astray != 0 {
			s.names.Look(ctx)
		}
	}
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		agents, next, total = nil, nil, 0
		at, err := now(ctx, tx)
		if err != nil {
			return err
		}
		chosen := []any{
			named("states", states.String()), named("transport", filter.Transport), named("linked", filter.Linked),
			named("query", spelling.Fold(filter.Query)), named("freshness", filter.Freshness), named("freshAfter", sqldb.Text(at.Add(-filter.MaxAge))),
			named("unseenSince", unseenSince(at, filter.UnseenFor)), named("version", filter.Version), named("primary", filter.Primary),
			named("astray", filter.Astray-1),
		}
		if _, err := tx.Row(ctx, "count_agents", []any{&total}, chosen...); err != nil {
			return err
		}
		var last Cursor
		return tx.Rows(ctx, "agents", func(scan func(...any) error) error {
			var sort string
			agent, err := scanAgent(scan, &sort)
			if len(agents) == limit {
				next = &Cursor{Sort: last.Sort, Key: last.Key}
				return err
			}
			agents, last = append(agents, agent), Cursor{Sort: sort, Key: agent.Key}
			return err
		}, append(chosen, named("sort", filter.Sort), named("descending", flagOf(filter.Descending)),
			named("afterSort", after.Sort), named("afterKey", after.Key), named("limit", limit+1))...)
	})
	return agents, next, total, err
}

// unseenSince is after when nothing was heard of an agent that is unseen for so long; NULL for no such filter.
func unseenSince(now time.Time, unseenFor time.Duration) any {
	if unseenFor == 0 {
		return sqldb.NullText(time.Time{})
	}
	return sqldb.NullText(now.Add(-unseenFor))
}

// CountStates counts agents by registration state.
func (s *Store) CountStates(ctx context.Context) (map[enrollment.State]int64, error) {
	counts := map[enrollment.State]int64{}
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		return tx.Rows(ctx, "count_states", func(scan func(...any) error) error {
			var state, count int64
			if err := scan(&state, &count); err != nil {
				return err
			}
			counts[enrollment.State(state)] = count
			return nil
		})
	})
	return counts, err
}

// Bindings reads an agent's bindings as last reported, and its host name. Nil: never reported.
func (s *Store) Bindings(ctx context.Context, name enrollment.Name) (reported []enrollment.Binding, hostname string, err error) {
	var raw sqldb.String
	found := false
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		var err error
		found, err = tx.Row(ctx, "bindings", []any{&hostname, &raw}, named("nameKey", name.Key))
		return err
	})
	if err != nil || !found {
		if err == nil {
			err = &AgentNotFoundError{Name: name.Spelling}
		}
		return nil, "", err
	}
	if raw == "" {
		return nil, hostname, nil
	}
	reported = []enrollment.Binding{}
	return reported, hostname, json.Unmarshal([]byte(raw), &reported)
}
