package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// State is the one row of TblCloudState, and whether agents wait.
type State struct {
	Epoch            int64 // of the last partition; 0: there was none
	DirectoryVersion int64
	Agents           int  // as of the last partition
	Requested        bool // somebody asked for a partition since
	Unassigned       bool // an agent has no primary yet
	readAt           time.Time
	requests         int64
	requestedBy      string
}

func readState(ctx context.Context, tx *sqldb.Tx) (State, error) {
	var s State
	var readAt sqldb.Time
	var served int64
	var by sqldb.String
	var unassigned sqldb.Int
	found, err := tx.Row(ctx, "cloud_state", []any{&readAt, &s.Epoch, &s.DirectoryVersion, &s.Agents, &s.requests, &served, &by, &unassigned})
	if err == nil && !found {
		err = errors.New("the row of TblCloudState is missing; insert it with StateKey 1")
	}
	s.readAt, s.requestedBy, s.Requested, s.Unassigned = readAt.Time, string(by), s.requests > served, unassigned == 1
	return s, err
}

// Look is what tells whether agents are to be spread anew. It is cheap to read.
type Look struct {
	State
	cloud.Membership
}

// Look reads it.
func (c *Cloud) Look(ctx context.Context) (Look, error) {
	var look Look
	err := c.db.View(ctx, func(tx *sqldb.Tx) error {
		var err error
		look, err = c.look(ctx, tx)
		return err
	})
	return look, err
}

func (c *Cloud) look(ctx context.Context, tx *sqldb.Tx) (Look, error) {
	state, err := readState(ctx, tx)
	if err != nil {
		return Look{}, err
	}
	judged, err := c.judged(ctx, tx, state.readAt, nil)
	return Look{state, judged.Membership}, err
}

// Situation is everything that a partition is computed from.
type Situation struct {
	Look
	Directory cloud.Directory // as committed
	Agents    []cloud.Agent
	groups    map[int64]string
}

// Situation reads it. What is asked for comes first: whatever changes while the rest is read is asked for anew, or changes the epoch.
func (c *Cloud) Situation(ctx context.Context) (Situation, error) {
	var s Situation
	err := c.db.View(ctx, func(tx *sqldb.Tx) error {
		s = Situation{groups: map[int64]string{}}
		var err error
		if s.Look, err = c.look(ctx, tx); err != nil {
			return err
		}
		if s.Directory, err = readDirectory(ctx, tx); err != nil {
			return err
		}
		groups, err := readGroups(ctx, tx)
		if err != nil {
			return err
		}
		for _, g := range groups {
			s.groups[g.Key] = g.Name
		}
		s.Agents, err = readAssignments(ctx, tx, s.State.Agents)
		return err
	})
	return s, err
}

func readAssignments(ctx context.Context, tx *sqldb.Tx, about int) ([]cloud.Agent, error) {
	agents := make([]cloud.Agent, 0, about)
	var row assignment
	dest := row.dest()
	err := tx.Rows(ctx, "assignments", func(scan func(...any) error) error {
		err := scan(dest...)
		agents = append(agents, row.agent())
		return err
	})
	return agents, err
}

type assignment struct {
	key                       int64
	nameKey                   string
	group, primary, secondary sqldb.Int
}

func (a *assignment) dest() []any {
	return []any{&a.key, &a.nameKey, &a.group, &a.primary, &a.secondary}
}

func (a *assignment) agent() cloud.Agent {
	return cloud.Agent{Key: a.key, Hash: cloud.Hash(a.nameKey), Group: int64(a.group), Primary: int64(a.primary), Secondary: int64(a.secondary)}
}

// Assignment reads what one agent's failover list is made of.
func (c *Cloud) Assignment(ctx context.Context, name enrollment.Name) (cloud.Agent, error) {
	var row assignment
	found := false
	err := c.db.Rows(ctx, "assignment", func(scan func(...any) error) error {
		found = true
		return scan(row.dest()...)
	}, named("nameKey", name.Key))
	if err == nil && !found {
		err = &AgentNotFoundError{Name: name.Spelling}
	}
	return row.agent(), err
}

// Commit stores a partition of a situation, and returns its event: the rows of those that move, the directory, and who is listed. It is
// ErrOvertaken, and nothing is written, if the epoch is another by now. After an error of the commit itself the epoch tells.
func (c *Cloud) Commit(ctx context.Context, s Situation, p cloud.Partition) (cloud.Event, error) {
	directory, err := encodeDirectory(p.Directory)
	if err != nil {
		return cloud.Event{}, err
	}
	var event cloud.Event
	err = c.db.Change(ctx, func(tx *sqldb.Tx) error {
		at, err := now(ctx, tx)
		if err != nil {
			return err
		}
		if err := s.write(ctx, tx, s.Epoch+1, p.Directory.Version, directory); err != nil {
			return err
		}
		if err := writeMoves(ctx, tx, p.Moves); err != nil {
			return err
		}
		if err := s.markListings(ctx, tx, p, at); err != nil {
			return err
		}
		event = s.event(p, at)
		return writeEvent(ctx, tx, event)
	})
	return event, err
}

// Settle notes that there was nothing to commit.
func (c *Cloud) Settle(ctx context.Context, s Situation) error {
	directory, err := encodeDirectory(s.Directory)
	if err != nil {
		return err
	}
	return c.db.Change(ctx, func(tx *sqldb.Tx) error {
		return s.write(ctx, tx, s.Epoch, s.Directory.Version, directory)
	})
}

// write moves the state on, if it is still the one that was read. It is the first to write, so that of two replicas the second waits here.
func (s Situation) write(ctx context.Context, tx *sqldb.Tx, epoch, version int64, directory string) error {
	rows, err := tx.Exec(ctx, "write_cloud_state", named("seen", s.Epoch), named("epoch", epoch), named("directoryVersion", version),
		named("directory", directory), named("agents", len(s.Agents)), named("requests", s.requests))
	if err == nil && rows == 0 {
		err = ErrOvertaken
	}
	return err
}

// writeMoves writes the rows of those that move, in the order of their keys, as heartbeats are written.
func writeMoves(ctx context.Context, tx *sqldb.Tx, moves []cloud.Move) error {
	for part := range slices.Chunk(moves, maxRows) {
		rows := make([][3]any, len(part))
		for i, m := range part {
			rows[i] = [3]any{m.Key, m.Primary, sqldb.Null(m.Secondary)}
		}
		batch, err := json.Marshal(rows)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "assign_agents", sqldb.JSON("batch", batch)); err != nil {
			return err
		}
	}
	return nil
}

// markListings notes who came onto the lists and who left them, and as what.
func (s Situation) markListings(ctx context.Context, tx *sqldb.Tx, p cloud.Partition, at time.Time) error {
	var marks [][3]any
	for _, m := range s.Members {
		if _, in := p.Directory.Server(m.ID); in != m.Listing.Listed {
			marks = append(marks, [3]any{m.ID, flagOf(in), string(m.State)})
		}
	}
	if len(marks) == 0 {
		return nil
	}
	batch, err := json.Marshal(marks)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "mark_listings", sqldb.JSON("batch", batch), named("now", sqldb.Text(at)))
	return err
}

// event tells of a partition. Groups are named, since they may be gone when it is read.
func (s Situation) event(p cloud.Partition, at time.Time) cloud.Event {
	event := p.Event(s.Epoch+1, at, s.requestedBy)
	for i := range event.Causes {
		if cause := &event.Causes[i]; cause.Cause == cloud.GroupChange {
			cause.From, cause.To = s.groupName(cause.From), s.groupName(cause.To)
		}
	}
	return event
}

func (s Situation) groupName(id string) string {
	key, err := strconv.ParseInt(id, 10, 64)
	if err != nil || key == 0 {
		return ""
	}
	if name, found := s.groups[key]; found {
		return name
	}
	return "a group since deleted"
}
