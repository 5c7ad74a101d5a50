package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

func (w *world) group(name string) store.Group {
	w.t.Helper()
	for _, g := range w.overview().Groups {
		if g.Name == name {
			return g
		}
	}
	w.t.Fatalf("no group %s", name)
	return store.Group{}
}

func (w *world) create(name string, change store.GroupChange) store.Group {
	w.t.Helper()
	change.Name = parsed(w.t, name)
	group, _, err := w.one.CreateGroup(w.t.Context(), change, "anna")
	if err != nil {
		w.t.Fatal(err)
	}
	return group
}

func (w *world) regroup(name string, change store.GroupChange) store.Group {
	w.t.Helper()
	group, _, err := w.one.UpdateGroup(w.t.Context(), parsed(w.t, name), w.group(name).Etag(), change, "anna")
	if err != nil {
		w.t.Fatal(err)
	}
	return group
}

func TestGroupsMoveAgentsAndControlServers(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b", "c")
		w.enlist(60)
		w.settle()
		east := w.create("East", store.GroupChange{AddAgents: names(t, "BM-000001", "bm-000002", "BM-000002"), AddServers: names(t, "B", "b")})
		if east.Agents != 2 || fmt.Sprint(east.ControlServers) != "[b]" || east.Name != "East" {
			t.Fatalf("%+v", east)
		}
		if got := w.server("b"); got.GroupName != "East" || got.ChangedBy != "anna" {
			t.Fatalf("%+v", got)
		}
		event := w.settle()
		if got := fmt.Sprint(event.Causes); got != "[{group change 2 b  East anna}]" {
			t.Error(got)
		}
		if got := w.rows(`SELECT DISTINCT PrimaryControlServerKey FROM TblAgent WHERE AgentKey < 3`); got != "2\n" {
			t.Errorf("the group's agents are at %s", got)
		}
		if agent, _, err := w.store.Agent(t.Context(), parsed(t, "bm-000001"), enrollment.Bus); err != nil || agent.AffinityGroup != "East" {
			t.Fatal(agent.AffinityGroup, err)
		}
		agents, _, _, err := w.store.Agents(t.Context(), store.Filter{Transport: -1, Linked: -1, Sort: "name"}, 3, nil)
		if err != nil || agents[1].AffinityGroup != "East" || agents[2].AffinityGroup != "" {
			t.Fatal(agents, err)
		}

		west := w.create("west", store.GroupChange{AddAgents: names(t, "BM-000002", "BM-000003"), AddServers: names(t, "b")})
		if west.Agents != 2 || w.group("East").Agents != 1 || w.server("b").GroupName != "west" {
			t.Fatalf("entering a group leaves the other: %+v, %+v", west, w.group("East"))
		}
		renamed := w.regroup("East", store.GroupChange{
			Name: parsed(t, "EAST"), AddServers: names(t, "a"), AddAgents: names(t, "BM-000004"), RemoveAgents: names(t, "BM-000001", "BM-000002"), RemoveServers: names(t, "b"),
		})
		if renamed.Name != "EAST" || renamed.Agents != 1 || fmt.Sprint(renamed.ControlServers) != "[a]" || w.server("b").GroupName != "west" || w.group("west").Agents != 2 {
			t.Fatalf("what is in another group cannot quit this one: %+v", renamed)
		}
		w.settle()
		if err := w.two.DeleteGroup(t.Context(), parsed(t, "West"), w.group("west").Etag(), "bob"); err != nil {
			t.Fatal(err)
		}
		if b := w.server("b"); b.Group != 0 || b.ChangedBy != "bob" || w.rows(`SELECT COUNT(*) FROM TblAgent WHERE AffinityGroupKey IS NOT NULL`) != "1\n" {
			t.Fatalf("its members belong to none: %+v", b)
		}
		if got := fmt.Sprint(w.settle().Causes); got != "[{group change 2 b a group since deleted  bob}]" {
			t.Error(got)
		}
	})
}

// Agents that change their group alone move alone, and the event says whose act it was.
func TestI16_AGroupOfAgentsIsAskedFor(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		w.enlist(40)
		w.create("east", store.GroupChange{AddServers: names(t, "a")})
		w.settle()
		w.expectUnchanged("settled")
		w.regroup("east", store.GroupChange{AddAgents: names(t, "BM-000001", "BM-000002", "BM-000003")})
		if look, err := w.two.Look(t.Context()); err != nil || !look.Requested {
			t.Fatal("nobody asked for a partition", err)
		}
		event := w.settle()
		if got := fmt.Sprint(event.Causes); got != "[{agent change 0    anna}]" {
			t.Error(got)
		}
		if got := w.rows(`SELECT DISTINCT PrimaryControlServerKey FROM TblAgent WHERE AgentKey <= 3`); got != "1\n" {
			t.Error(got)
		}
		if look, err := w.two.Look(t.Context()); err != nil || look.Requested {
			t.Fatal("it is done, and still asked for", err)
		}
	})
}

// It moves nobody, and whoever did it is not named for what agents do by themselves.
func TestTheDeletionOfAGroupWithoutAgentsIsNoCause(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a")
		w.enlist(5)
		w.settle()
		east := w.create("east", store.GroupChange{})
		if err := w.one.DeleteGroup(t.Context(), parsed(t, "east"), east.Etag(), "bob"); err != nil {
			t.Fatal(err)
		}
		w.enlist(6)
		if got := fmt.Sprint(w.settle().Causes); got != "[{agent change 0    }]" {
			t.Error(got)
		}
	})
}

func TestI17_GroupsRefuseWhatThereIsNot(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a")
		w.enlist(30)
		w.create("east", store.GroupChange{AddAgents: names(t, "BM-000001"), AddServers: names(t, "a")})
		w.create("west", store.GroupChange{})
		etag := w.group("east").Etag()
		create := func(name string, change store.GroupChange) func() error {
			change.Name = parsed(t, name)
			return func() error { _, _, err := w.two.CreateGroup(t.Context(), change, "bob"); return err }
		}
		update := func(name, etag string, change store.GroupChange) func() error {
			return func() error {
				_, _, err := w.two.UpdateGroup(t.Context(), parsed(t, name), etag, change, "bob")
				return err
			}
		}
		var many []string
		for i := range 30 {
			many = append(many, fmt.Sprintf("Gone-%d", i))
		}
		refuses[*store.NameTakenError](w, "name taken", create("EAST", store.GroupChange{}))
		refuses[*store.UnknownAgentsError](w, "unknown agents", create("new", store.GroupChange{AddAgents: names(t, "BM-000002", "Gone")}))
		refuses[*store.ControlServerNotFoundError](w, "unknown control server", create("new", store.GroupChange{AddAgents: names(t, "BM-000002"), AddServers: names(t, "z")}))
		refuses[*store.UnknownAgentsError](w, "unknown agents, after what could be done", update("east", etag, store.GroupChange{
			RemoveServers: names(t, "a"), AddAgents: names(t, "BM-000003"), RemoveAgents: names(t, many...),
		}))
		refuses[*store.ControlServerNotFoundError](w, "unknown control server to quit", update("east", etag, store.GroupChange{RemoveServers: names(t, "z")}))
		refuses[*store.NameTakenError](w, "renamed to another's", update("east", etag, store.GroupChange{Name: parsed(t, "West")}))
		refuses[*store.GroupNotFoundError](w, "unknown group", update("north", etag, store.GroupChange{}))
		refuses[*store.EtagRequiredError](w, "no etag", update("east", "", store.GroupChange{}))
		refuses[*store.StaleEtagError](w, "stale etag", update("east", "1-99", store.GroupChange{}))
		remove := func(name, etag string) func() error {
			return func() error { return w.two.DeleteGroup(t.Context(), parsed(t, name), etag, "bob") }
		}
		refuses[*store.GroupNotFoundError](w, "unknown group to delete", remove("north", etag))
		refuses[*store.EtagRequiredError](w, "delete without etag", remove("east", ""))
		refuses[*store.StaleEtagError](w, "delete with a stale etag", remove("east", "1-99"))

		err := create("new", store.GroupChange{AddAgents: names(t, append(many, "BM-000002")...)})()
		var unknown *store.UnknownAgentsError
		if !errors.As(err, &unknown) || len(unknown.Names) != 30 || !strings.Contains(err.Error(), `"Gone-0", "Gone-1"`) || !strings.Contains(err.Error(), "10 others") || strings.Contains(err.Error(), "BM-") {
			t.Error(err)
		}
	})
}

func TestI14_OfTwoGroupsOfOneNameOneIsMade(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		for round := range 10 {
			name := parsed(t, fmt.Sprintf("group-%d", round))
			create := func(replica *store.Cloud) func() error {
				return func() error {
					_, _, err := replica.CreateGroup(context.Background(), store.GroupChange{Name: name}, "x")
					return err
				}
			}
			ended := race(create(w.one), create(w.two))
			var taken *store.NameTakenError
			if (ended[0] == nil) == (ended[1] == nil) || !errors.As(errors.Join(ended[:]...), &taken) {
				t.Fatal(ended)
			}
		}
	})
}

// A batch of 10,000 agents, the most a request names, moves in parts.
func TestManyAgentsMoveTogether(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a")
		w.enlist(10_000)
		var all []string
		for i := range 10_000 {
			all = append(all, fmt.Sprintf("BM-%06d", i+1))
		}
		if group := w.create("east", store.GroupChange{AddAgents: names(t, all...)}); group.Agents != 10_000 {
			t.Fatal(group.Agents)
		}
		if group := w.regroup("east", store.GroupChange{RemoveAgents: names(t, all[:9_999]...)}); group.Agents != 1 {
			t.Fatal(group.Agents)
		}
		if group := w.regroup("east", store.GroupChange{AddAgents: names(t, all[:5_000]...)}); group.Agents != 5_001 {
			t.Fatal(group.Agents)
		}
		w.raw.Note(t, "TblAgent", "AgentKey")
		if err := w.one.DeleteGroup(t.Context(), parsed(t, "east"), w.group("east").Etag(), "anna"); err != nil {
			t.Fatal(err)
		}
		if written, left := w.written(), w.raw.Number(t, `SELECT COUNT(*) FROM TblAgent WHERE AffinityGroupKey IS NOT NULL`); written != 5_001 || left != 0 {
			t.Fatalf("%d agents left the group, %d are in it", written, left)
		}
		if mode := w.server("a").Mode; mode != cloud.ModeNormal {
			t.Fatal(mode)
		}
	})
}

func TestAGroupThatIsNotChangedKeepsItsEtag(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		made, _, err := w.one.CreateGroup(t.Context(), store.GroupChange{Name: name(t, "West")}, "ada")
		if err != nil {
			t.Fatal(err)
		}
		for what, change := range map[string]store.GroupChange{"nothing": {}, "its name": {Name: name(t, "West")}} {
			if after, _, err := w.one.UpdateGroup(t.Context(), name(t, "west"), made.Etag(), change, "ada"); err != nil || after.Etag() != made.Etag() {
				t.Errorf("%s: the etag becomes %s, %v", what, after.Etag(), err)
			}
		}
		if after, _, err := w.one.UpdateGroup(t.Context(), name(t, "west"), made.Etag(), store.GroupChange{Name: name(t, "WEST")}, "ada"); err != nil || after.Etag() == made.Etag() || after.Name != "WEST" {
			t.Errorf("another spelling: %+v, %v", after, err)
		}
	})
}

// A request that is sent twice changes nothing the second time: neither the etag, nor where agents are.
func TestMembersThatStayMakeNoEtagStaleAndMoveNothing(t *testing.T) {
	sqldbtest.Run(t, func(t *testing.T, engine sqldbtest.Engine) {
		w := newWorld(t, engine)
		w.join("a", "b")
		w.enlist(40)
		made := w.create("east", store.GroupChange{AddServers: names(t, "a"), AddAgents: names(t, "BM-000001", "BM-000002")})
		w.create("west", store.GroupChange{AddAgents: names(t, "BM-000004")})
		w.settle()
		for what, change := range map[string]store.GroupChange{
			"an agent that is in it": {AddAgents: names(t, "bm-000001", "BM-000001")}, "an agent of no group": {RemoveAgents: names(t, "BM-000003")},
			"an agent of another group": {RemoveAgents: names(t, "BM-000004")},
			"a server that is in it":    {AddServers: names(t, "a")}, "a server that is not": {RemoveServers: names(t, "b")},
		} {
			after := w.regroup("east", change)
			if look, err := w.two.Look(t.Context()); err != nil || look.Requested || after.Etag() != made.Etag() {
				t.Errorf("%s: the etag becomes %s, a partition is asked for: %t, %v", what, after.Etag(), look.Requested, err)
			}
		}
		if after := w.regroup("east", store.GroupChange{Name: name(t, "East"), AddAgents: names(t, "BM-000001")}); after.Etag() == made.Etag() {
			t.Error("a new name leaves the etag as it is")
		}
		if look, err := w.two.Look(t.Context()); err != nil || look.Requested {
			t.Errorf("a new name asks for a partition: %t, %v", look.Requested, err)
		}
		var unknown *store.UnknownAgentsError
		if _, _, err := w.one.UpdateGroup(t.Context(), name(t, "East"), w.group("East").Etag(), store.GroupChange{RemoveAgents: names(t, "BM-9")}, "anna"); !errors.As(err, &unknown) {
			t.Errorf("an agent that is not there: %v", err)
		}
		before := w.group("East").Etag()
		if after := w.regroup("East", store.GroupChange{AddAgents: names(t, "BM-000001", "BM-000003")}); after.Etag() == before || after.Agents != 3 {
			t.Errorf("a new member: %+v", after)
		}
	})
}
