package store

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/commandcenter/fleet/services/internal/spelling"
	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// Acceptance is what an operator asks when accepting an agent.
type Acceptance struct {
	Name       enrollment.Name
	Etag       string
	ServerName string  // empty: the agent's name
	Create     *Server // create the server; its name is the agent's
	Actor      string
}

// Accept accepts an agent and links it to the server of its name, or creates that server, in one transaction.
func (s *Store) Accept(ctx context.Context, ask Acceptance) (agent Agent, created bool, err error) {
	s.names.Refresh(ctx)
	agent, err = s.change(ctx, ask.Name, ask.Etag, func(tx *sqldb.Tx, current Agent) error {
		if err := allow(current, enrollment.Accept); err != nil {
			return err
		}
		if ask.ServerName != "" && !spelling.Same(ask.ServerName, current.Name) {
			return &NameMismatchError{Agent: current.Name, Server: ask.ServerName}
		}
		var server Server
		var err error
		server, created, err = s.serverFor(ctx, tx, current, ask.Create)
		if err != nil {
			return err
		}
		return decide(ctx, tx, current, enrollment.Accepted, server.Key, ask.Actor)
	})
	return agent, created, err
}

// serverFor finds the server an agent is linked to, or creates it if that is asked.
func (s *Store) serverFor(ctx context.Context, tx *sqldb.Tx, agent Agent, create *Server) (Server, bool, error) {
	if err := lockNames(ctx, tx, agent.Name); err != nil {
		return Server{}, false, err
	}
	if create != nil {
		fresh := *create
		fresh.Name, fresh.Type = agent.Name, ServerType
		server, err := s.createServer(ctx, tx, fresh)
		return server, err == nil, err
	}
	server, err := s.oneServer(ctx, tx, agent.Name)
	if err != nil {
		return server, false, err
	}
	if !spelling.Same(server.Name, agent.Name) {
		return server, false, &NameMismatchError{Agent: agent.Name, Server: server.Name}
	}
	if server.Agent != "" && !spelling.Same(server.Agent, agent.Name) {
		return server, false, &LinkedError{Server: server.Name, Agent: server.Agent}
	}
	return server, false, nil
}

// Reject rejects an agent; its link is kept, so that a later accept restores it.
func (s *Store) Reject(ctx context.Context, name enrollment.Name, etag, actor string) (Agent, error) {
	return s.change(ctx, name, etag, func(tx *sqldb.Tx, current Agent) error {
		if err := allow(current, enrollment.Reject); err != nil {
			return err
		}
		return decide(ctx, tx, current, enrollment.Rejected, current.ServerKey, actor)
	})
}

// Add adds an HTTP agent by hand: accepted by whoever added it, linked or its server created in the same act.
func (s *Store) Add(ctx context.Context, name enrollment.Name, baseURL string, create *Server, actor string) (agent Agent, created bool, err error) {
	s.names.Refresh(ctx)
	err = s.db.Change(ctx, func(tx *sqldb.Tx) error {
		created = false
		existing, err := readAgent(ctx, tx, name)
		if err == nil {
			return &NameTakenError{Kind: "agent", Name: existing.Name, Detail: " and is " + existing.State.String() + ": accept it, or change its base URL"}
		}
		if !isNotFound(err) {
			return err
		}
		var server Server
		if server, created, err = s.serverFor(ctx, tx, Agent{Name: name.Spelling}, create); err != nil {
			return err
		}
		at, err := now(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "insert_agent", named("name", name.Spelling), named("nameKey", name.Key), named("httpBaseUrl", baseURL),
			named("serverKey", server.Key), named("actor", actor), named("now", sqldb.Text(at))); err != nil {
			return err
		}
		if err := moveLink(ctx, tx, name.Spelling, 0, server.Key); err != nil {
			return err
		}
		agent, err = readAgent(ctx, tx, name)
		return err
	})
	return agent, created, err
}

// Reach is how an agent is reached; nil stays.
type Reach struct {
	HTTPBaseURL  *string // empty removes it
	OnServiceBus *bool
}

// UpdateReach changes how an agent is reached. Another base URL clears its verification.
func (s *Store) UpdateReach(ctx context.Context, name enrollment.Name, etag string, reach Reach) (Agent, error) {
	return s.change(ctx, name, etag, func(tx *sqldb.Tx, current Agent) error {
		baseURL, onBus := current.HTTPBaseURL, current.OnServiceBus
		if reach.HTTPBaseURL != nil {
			baseURL = *reach.HTTPBaseURL
		}
		if reach.OnServiceBus != nil {
			onBus = *reach.OnServiceBus
		}
		if baseURL == current.HTTPBaseURL && onBus == current.OnServiceBus {
			return nil // what changes nothing makes no etag stale
		}
		if err := changed(tx.Exec(ctx, "update_reach", named("agentKey", current.Key), named("version", current.DecisionVersion),
			named("httpBaseUrl", sqldb.Null(baseURL)), named("onServiceBus", flagOf(onBus)))); err != nil || onBus || !current.OnServiceBus {
			return err
		}
		_, err := tx.Exec(ctx, "forget_receiver", named("agentKey", current.Key)) // it takes no commands there any more
		return err
	})
}

// Remove removes an agent nobody addresses any more. A later heartbeat makes a new Pending row.
func (s *Store) Remove(ctx context.Context, name enrollment.Name, etag string) error {
	return s.db.Change(ctx, func(tx *sqldb.Tx) error {
		current, err := readAgent(ctx, tx, name)
		if err != nil {
			return err
		}
		if err := checkEtag(etag, current.Etag()); err != nil {
			return err
		}
		if err := allow(current, enrollment.Remove); err != nil {
			return err
		}
		if err := changed(tx.Exec(ctx, "remove_agent", named("agentKey", current.Key), named("version", current.DecisionVersion))); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "forget_receiver", named("agentKey", current.Key)); err != nil {
			return err
		}
		return moveLink(ctx, tx, current.Name, current.ServerKey, 0)
	})
}

// ResolveConflict clears the mark that two machines use one name.
func (s *Store) ResolveConflict(ctx context.Context, name enrollment.Name, etag string) (Agent, error) {
	return s.change(ctx, name, etag, func(tx *sqldb.Tx, current Agent) error {
		return changed(tx.Exec(ctx, "resolve_conflict", named("agentKey", current.Key), named("version", current.DecisionVersion)))
	})
}

// ResetToken forgets which machine has a name, and lets the next one that enrols under it claim it. So it also answers a conflict.
func (s *Store) ResetToken(ctx context.Context, name enrollment.Name, etag string) (Agent, error) {
	return s.change(ctx, name, etag, func(tx *sqldb.Tx, current Agent) error {
		return changed(tx.Exec(ctx, "reset_token", named("agentKey", current.Key), named("version", current.DecisionVersion)))
	})
}

// change reads an agent, checks the etag, lets apply change it, and reads it again, in one transaction (I-14).
func (s *Store) change(ctx context.Context, name enrollment.Name, etag string, apply func(*sqldb.Tx, Agent) error) (Agent, error) {
	var after Agent
	err := s.db.Change(ctx, func(tx *sqldb.Tx) error {
		current, err := readAgent(ctx, tx, name)
		if err != nil {
			return err
		}
		if err := checkEtag(etag, current.Etag()); err != nil {
			return err
		}
		if err := apply(tx, current); err != nil {
			return err
		}
		after, err = readAgent(ctx, tx, name)
		return err
	})
	return after, err
}

func allow(agent Agent, verb enrollment.Verb) error {
	if refusal := enrollment.Allow(agent.State, verb); refusal != enrollment.None {
		return &StateError{Name: agent.Name, State: agent.State, Refusal: refusal, By: agent.DecidedBy, Astray: astray(agent)}
	}
	return nil
}

func decide(ctx context.Context, tx *sqldb.Tx, agent Agent, state enrollment.State, serverKey int64, actor string) error {
	err := changed(tx.Exec(ctx, "decide", named("agentKey", agent.Key), named("version", agent.DecisionVersion),
		named("state", int(state)), named("serverKey", sqldb.Null(serverKey)), named("actor", actor)))
	if err != nil {
		return err
	}
	return moveLink(ctx, tx, agent.Name, agent.ServerKey, serverKey)
}

// changed makes a conflict of an update that found its row changed meanwhile: the whole is run again, and the etag tells. More
// rows than the one meant are those of a trigger.
func changed(rows int64, err error) error {
	if err == nil && rows == 0 {
		return sqldb.ErrConflict
	}
	return err
}

// maxDetail is the length of a verification's detail, in characters.
const maxDetail = 1024

// Verification is what an HTTP ping showed.
type Verification struct {
	BaseURL string
	Outcome int // 1 succeeded, 2 failed
	Detail  string
	Age     time.Duration // since the ping began
}

// RecordVerification stores what an HTTP ping showed, unless the base URL is another by now or a ping that began later has told
// more. Of two that began at once the failure stays (I-2).
func (s *Store) RecordVerification(ctx context.Context, name enrollment.Name, shown Verification) (agent Agent, recorded bool, err error) {
	if utf8.RuneCountInString(shown.Detail) > maxDetail {
		shown.Detail = string([]rune(shown.Detail)[:maxDetail])
	}
	err = s.db.Change(ctx, func(tx *sqldb.Tx) error {
		at, err := now(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := tx.Exec(ctx, "record_verification", named("nameKey", name.Key), named("httpBaseUrl", shown.BaseURL),
			named("outcome", shown.Outcome), named("detail", shown.Detail), named("verifiedAt", sqldb.Text(at.Add(-shown.Age))), named("now", sqldb.Text(at)))
		if err != nil {
			return err
		}
		recorded = rows > 0
		agent, err = readAgent(ctx, tx, name)
		return err
	})
	return agent, recorded, err
}
