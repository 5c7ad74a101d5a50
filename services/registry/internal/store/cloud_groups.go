package store

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// Group is an affinity group: a preference of its agents for its control servers.
type Group struct {
	Key, DecisionVersion int64
	Name                 string
	Agents               int
	ControlServers       []string // names, by name
	nameKey              string
}

// Etag names the present state of what operators decide.
func (g Group) Etag() string { return enrollment.Etag(g.Key, g.DecisionVersion) }

// GroupChange is what an operator changes of a group. An agent or control server that enters it leaves the one it was in; one that quits it
// and was not in it stays where it is.
type GroupChange struct {
	Name                      enrollment.Name // zero: stays
	AddAgents, RemoveAgents   []enrollment.Name
	AddServers, RemoveServers []enrollment.Name
}

// maxRows bounds the rows one statement writes: from 5,000 locks on, SQL Server would take the whole table, and heartbeats would wait.
const maxRows = 2_000

func readGroups(ctx context.Context, tx *sqldb.Tx) ([]Group, error) {
	var groups []Group
	err := tx.Rows(ctx, "affinity_groups", func(scan func(...any) error) error {
		var g Group
		err := scan(&g.Key, &g.Name, &g.nameKey, &g.DecisionVersion, &g.Agents)
		groups = append(groups, g)
		return err
	})
	return groups, err
}

func (o Overview) group(name enrollment.Name) (Group, error) {
	if i := slices.IndexFunc(o.Groups, func(g Group) bool { return g.nameKey == name.Key }); i >= 0 {
		return o.Groups[i], nil
	}
	return Group{}, &GroupNotFoundError{Name: name.Spelling}
}

// CreateGroup makes a group with its members. It is returned beside the cloud it is in.
func (c *Cloud) CreateGroup(ctx context.Context, change GroupChange, actor string) (Group, cloud.Membership, error) {
	return c.changeGroup(ctx, change.Name, func(tx *sqldb.Tx, before Overview) error {
		if taken, err := before.group(change.Name); err == nil {
			return &NameTakenError{Kind: "affinity group", Name: taken.Name}
		}
		if _, err := tx.Exec(ctx, "insert_affinity_group", named("name", change.Name.Spelling), named("nameKey", change.Name.Key)); err != nil {
			return err
		}
		after, err := c.overview(ctx, tx)
		if err != nil {
			return err
		}
		group, err := after.group(change.Name)
		if err != nil {
			return err
		}
		moving, err := after.moving(ctx, tx, group.Key, change)
		if err != nil {
			return err
		}
		return after.moveMembers(ctx, tx, group.Key, change, moving, actor)
	})
}

// UpdateGroup renames a group, or changes its members. Its etag is still the one given.
func (c *Cloud) UpdateGroup(ctx context.Context, name enrollment.Name, etag string, change GroupChange, actor string) (Group, cloud.Membership, error) {
	if change.Name.Key == "" {
		change.Name = name
	}
	return c.changeGroup(ctx, change.Name, func(tx *sqldb.Tx, before Overview) error {
		group, err := before.group(name)
		if err != nil {
			return err
		}
		if err := checkEtag(etag, group.Etag()); err != nil {
			return err
		}
		if taken, err := before.group(change.Name); err == nil && taken.Key != group.Key {
			return &NameTakenError{Kind: "affinity group", Name: taken.Name}
		}
		renamed := change.Name
		if change.Name == name { // not asked: the stored spelling stays
			renamed.Spelling = group.Name
		}
		moving, err := before.moving(ctx, tx, group.Key, change)
		if err != nil {
			return err
		}
		if renamed.Spelling == group.Name && moving == (moves{}) {
			return nil // what changes nothing makes no etag stale
		}
		if err := changed(tx.Exec(ctx, "update_affinity_group", named("key", group.Key), named("decisionVersion", group.DecisionVersion),
			named("name", renamed.Spelling), named("nameKey", renamed.Key))); err != nil {
			return err
		}
		return before.moveMembers(ctx, tx, group.Key, change, moving, actor)
	})
}

// changeGroup lets apply change a group, and reads it again, in one transaction.
func (c *Cloud) changeGroup(ctx context.Context, name enrollment.Name, apply func(*sqldb.Tx, Overview) error) (Group, cloud.Membership, error) {
	var after Group
	var judged cloud.Membership
	err := c.db.Change(ctx, func(tx *sqldb.Tx) error {
		if err := lockCloud(ctx, tx); err != nil {
			return err
		}
		overview, err := c.overview(ctx, tx)
		if err != nil {
			return err
		}
		if err := apply(tx, overview); err != nil {
			return err
		}
		if overview, err = c.overview(ctx, tx); err != nil {
			return err
		}
		judged = overview.Membership
		after, err = overview.group(name)
		return err
	})
	return after, judged, err
}

// DeleteGroup removes a group; its members belong to none then.
func (c *Cloud) DeleteGroup(ctx context.Context, name enrollment.Name, etag, actor string) error {
	return c.db.Change(ctx, func(tx *sqldb.Tx) error {
		if err := lockCloud(ctx, tx); err != nil {
			return err
		}
		overview, err := c.overview(ctx, tx)
		if err != nil {
			return err
		}
		group, err := overview.group(name)
		if err != nil {
			return err
		}
		if err := checkEtag(etag, group.Etag()); err != nil {
			return err
		}
		if err := changed(tx.Exec(ctx, "delete_affinity_group", named("key", group.Key), named("decisionVersion", group.DecisionVersion))); err != nil {
			return err
		}
		left, err := emptyGroup(ctx, tx, group.Key)
		if err != nil {
			return err
		}
		for _, s := range overview.Servers {
			if s.Group != group.Key {
				continue
			}
			alone := s
			alone.Group = 0
			if err := writeServer(ctx, tx, s, alone, actor); err != nil {
				return err
			}
		}
		if left == 0 {
			return nil
		}
		return request(ctx, tx, actor)
	})
}

// emptyGroup lets agents belong to no group any more, in parts, and counts them.
func emptyGroup(ctx context.Context, tx *sqldb.Tx, group int64) (left int64, err error) {
	for {
		part, err := tx.Exec(ctx, "empty_affinity_group", named("group", group), named("limit", maxRows))
		left += part
		if err != nil || part == 0 {
			return left, err
		}
	}
}

// moves is which kinds of members a change moves. One that adds those who are in the group, or removes those who are not, moves none.
type moves struct{ agents, servers bool }

// moving reports what a change would move, all of which there must be.
func (o Overview) moving(ctx context.Context, tx *sqldb.Tx, group int64, change GroupChange) (moves, error) {
	var found moves
	for i, name := range slices.Concat(change.AddServers, change.RemoveServers) {
		server, err := o.server(name)
		if err != nil {
			return moves{}, err
		}
		adds := i < len(change.AddServers)
		found.servers = found.servers || adds != (server.Group == group)
	}
	if len(change.AddAgents)+len(change.RemoveAgents) == 0 {
		return found, nil
	}
	if err := checkKnown(ctx, tx, slices.Concat(change.AddAgents, change.RemoveAgents)); err != nil {
		return moves{}, err
	}
	adding, leaving := keysOfNames(change.AddAgents), keysOfNames(change.RemoveAgents)
	there, err := membersAmong(ctx, tx, group, adding)
	if err != nil {
		return moves{}, err
	}
	leave, err := membersAmong(ctx, tx, group, leaving)
	if err != nil {
		return moves{}, err
	}
	found.agents = there < len(adding) || leave > 0
	return found, nil
}

// membersAmong counts the agents of a group among some.
func membersAmong(ctx context.Context, tx *sqldb.Tx, group int64, agents []string) (int, error) {
	if len(agents) == 0 {
		return 0, nil
	}
	keys, err := json.Marshal(agents)
	if err != nil {
		return 0, err
	}
	members := 0
	err = tx.Rows(ctx, "members_among", func(scan func(...any) error) error { return scan(&members) }, named("group", group), sqldb.JSON("names", keys))
	return members, err
}

// moveMembers moves agents and control servers into a group and out of it.
func (o Overview) moveMembers(ctx context.Context, tx *sqldb.Tx, group int64, change GroupChange, moving moves, actor string) error {
	if !moving.agents {
		return o.moveServers(ctx, tx, group, change, actor)
	}
	if err := moveAgents(ctx, tx, "enter_affinity_group", group, change.AddAgents); err != nil {
		return err
	}
	if err := moveAgents(ctx, tx, "quit_affinity_group", group, change.RemoveAgents); err != nil {
		return err
	}
	if err := o.moveServers(ctx, tx, group, change, actor); err != nil {
		return err
	}
	return request(ctx, tx, actor)
}

func (o Overview) moveServers(ctx context.Context, tx *sqldb.Tx, group int64, change GroupChange, actor string) error {
	moved := map[string]bool{} // each once, however often it is named
	for i, name := range slices.Concat(change.AddServers, change.RemoveServers) {
		current, err := o.server(name)
		if err != nil {
			return err
		}
		next := current
		if next.Group = group; i >= len(change.AddServers) {
			next.Group = 0
		}
		if moved[name.Key] || next.Group == 0 && current.Group != group {
			continue
		}
		moved[name.Key] = true
		if err := writeServer(ctx, tx, current, next, actor); err != nil {
			return err
		}
	}
	return nil
}

// checkKnown names the agents there are not.
func checkKnown(ctx context.Context, tx *sqldb.Tx, names []enrollment.Name) error {
	keys, err := json.Marshal(keysOfNames(names))
	if err != nil {
		return err
	}
	unknown := map[string]bool{}
	err = tx.Rows(ctx, "unknown_agents", func(scan func(...any) error) error {
		var key string
		err := scan(&key)
		unknown[key] = true
		return err
	}, sqldb.JSON("names", keys))
	if err != nil || len(unknown) == 0 {
		return err
	}
	refused := &UnknownAgentsError{}
	for _, name := range names {
		if unknown[name.Key] {
			refused.Names = append(refused.Names, name.Spelling)
			delete(unknown, name.Key)
		}
	}
	return refused
}

func moveAgents(ctx context.Context, tx *sqldb.Tx, statement string, group int64, names []enrollment.Name) error {
	for part := range slices.Chunk(keysOfNames(names), maxRows) {
		keys, err := json.Marshal(part)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, statement, named("group", group), sqldb.JSON("names", keys)); err != nil {
			return err
		}
	}
	return nil
}

// keysOfNames are in order, each once.
func keysOfNames(names []enrollment.Name) []string {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = name.Key
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
