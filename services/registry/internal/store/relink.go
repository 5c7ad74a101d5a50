package store

import (
	"context"
	"errors"

	"github.com/commandcenter/fleet/services/internal/spelling"
	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// Another codebase writes TblServer too. A row that it deleted and made again has another key, and after a whole table was imported a key
// may be another server's. An agent whose link is gone, or leads to a server of another name, is astray. It is linked to nothing by itself
// (I-8): an operator relinks it to the server of its name (I-18).

// astray reports whether an agent's link does not lead to the server of its name.
func astray(agent Agent) bool {
	return agent.ServerKey != 0 && (agent.Server == nil || !spelling.Same(agent.Server.Name, agent.Name))
}

// Astray counts the agents that are astray, and those of them for whose name there is one server. An agent that was rejected, and for whose
// name there is no server, is not counted: its server is decommissioned, and there is nothing to mend.
func (s *Store) Astray(ctx context.Context) (agents, relinkable int64, err error) {
	s.names.Look(ctx)
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Row(ctx, "count_astray", []any{&agents, &relinkable})
		return err
	})
	return agents, relinkable, err
}

// Stray is an agent that is astray, as an operator who relinks all of them sees it.
type Stray struct {
	Key  int64
	Name enrollment.Name
}

// Strays reads agents that are astray, as Astray counts them, by key, those after a key.
func (s *Store) Strays(ctx context.Context, limit int, afterKey int64) ([]Stray, error) {
	var strays []Stray
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		strays = nil
		return tx.Rows(ctx, "astray_agents", func(scan func(...any) error) error {
			var one Stray
			err := scan(&one.Key, &one.Name.Spelling, &one.Name.Key)
			strays = append(strays, one)
			return err
		}, named("afterKey", afterKey), named("limit", limit))
	})
	return strays, err
}

// SetAside is the agent whose link was set aside so that another could be relinked, with its etag before and after that.
type SetAside struct {
	Name          enrollment.Name // empty: none
	Before, After string
}

// Relink links an agent that is astray to the server of its name. Its registration state stays.
func (s *Store) Relink(ctx context.Context, name enrollment.Name, etag, actor string) (agent Agent, aside SetAside, err error) {
	s.names.Refresh(ctx)
	agent, err = s.change(ctx, name, etag, func(tx *sqldb.Tx, current Agent) error {
		var err error
		aside, err = s.relink(ctx, tx, current, actor)
		return err
	})
	return agent, aside, err
}

// RelinkStray is Relink for an operator who relinks all agents that are astray, whatever else was decided about each: nothing of that is
// overwritten, and one that is not astray any more is left alone.
func (s *Store) RelinkStray(ctx context.Context, name enrollment.Name, actor string) (agent Agent, aside SetAside, err error) {
	s.names.Refresh(ctx)
	err = s.db.Change(ctx, func(tx *sqldb.Tx) error {
		current, err := readAgent(ctx, tx, name)
		if err != nil {
			return err
		}
		if aside, err = s.relink(ctx, tx, current, actor); err != nil {
			return err
		}
		agent, err = readAgent(ctx, tx, name)
		return err
	})
	return agent, aside, err
}

func (s *Store) relink(ctx context.Context, tx *sqldb.Tx, current Agent, actor string) (aside SetAside, err error) {
	if !astray(current) {
		return aside, &NotAstrayError{Name: current.Name, Server: current.Server}
	}
	if err := lockNames(ctx, tx, current.Name); err != nil {
		return aside, err
	}
	server, err := s.oneServer(ctx, tx, current.Name)
	var none *ServerNotFoundError
	if errors.As(err, &none) {
		return aside, &NoServerToRelinkError{Agent: current.Name}
	}
	if err != nil {
		return aside, err
	}
	if server.Agent != "" {
		if aside, err = setAside(ctx, tx, server); err != nil {
			return aside, err
		}
	}
	from := current
	if from.Server == nil {
		from.ServerKey = 0 // of a row that is gone nothing is remembered
	}
	return aside, decide(ctx, tx, from, current.State, server.Key, actor)
}

// setAside takes the link of an agent of another name from a server, so that the server's own agent can have it. The other agent is then
// linked to a key that no server has, its own: it stays astray until it is relinked, so that it is not taken for one that never was linked.
func setAside(ctx context.Context, tx *sqldb.Tx, server Server) (SetAside, error) {
	other, err := enrollment.ParseName(server.Agent)
	if err != nil {
		return SetAside{}, err
	}
	holder, err := readAgent(ctx, tx, other)
	if err != nil {
		return SetAside{}, err
	}
	aside := SetAside{Name: other, Before: holder.Etag(), After: enrollment.Etag(holder.Key, holder.DecisionVersion+1)}
	return aside, changed(tx.Exec(ctx, "set_link_aside", named("agentKey", holder.Key), named("version", holder.DecisionVersion)))
}
