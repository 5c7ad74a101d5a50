package cloud

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestQuotas(t *testing.T) {
	for _, c := range []struct {
		what          string
		n             int
		weights, held []int
		want          []int
	}{
		{"even", 9, []int{1, 1, 1}, []int{0, 0, 0}, []int{3, 3, 3}},
		{"left over to the lowest id", 8, []int{1, 1, 1}, []int{0, 0, 0}, []int{3, 3, 2}},
		{"left over to holders", 8, []int{1, 1, 1}, []int{2, 3, 3}, []int{2, 3, 3}},
		{"left over to holders by lowest id", 7, []int{1, 1, 1}, []int{0, 4, 3}, []int{2, 3, 2}},
		{"by weight", 60, []int{1, 2, 3}, []int{0, 0, 0}, []int{10, 20, 30}},
		{"largest fraction first", 10, []int{1, 2, 4}, []int{0, 0, 0}, []int{1, 3, 6}},   // 1.43, 2.86, 5.71
		{"holders before fractions", 10, []int{1, 2, 4}, []int{2, 0, 8}, []int{2, 2, 6}}, // so that one agent less moves
		{"a whole share is exact", 4, []int{2, 1, 1}, []int{3, 0, 0}, []int{2, 1, 1}},
		{"a whole share is no fraction", 6, []int{3, 1, 1, 1}, []int{4, 1, 1, 0}, []int{3, 1, 1, 1}},
		{"whole share beside fractions", 3, []int{2, 1, 1, 2}, []int{2, 0, 0, 1}, []int{1, 1, 0, 1}},
		{"nobody", 0, []int{1, 5}, []int{0, 0}, []int{0, 0}},
		{"one", 1, []int{1, 1000}, []int{0, 0}, []int{0, 1}},
	} {
		if got := quotas(c.n, c.weights, c.held); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// counts tells how many agents of a group have each server, by id, as primary.
func counts(w *world, group int64, of func(Agent) int64) string {
	counted := map[int64]int{}
	for _, a := range w.agents {
		if a.Group == group {
			counted[of(a)]++
		}
	}
	return fmt.Sprint(counted)
}

func primaryOf(a Agent) int64   { return a.Primary }
func secondaryOf(a Agent) int64 { return a.Secondary }

func TestI16_TiersDecideWhoIsPrimary(t *testing.T) {
	active, standby := server(1), server(2)
	standby.Standby = true
	inGroup := func(s Server) Server { s.Group = 7; return s }
	for what, c := range map[string]struct {
		servers                                   []Server
		ungrouped, grouped, secondaries, inGroup7 string // 60 agents each: primaries; then secondaries
	}{
		"no standby while one is active":     {[]Server{active, standby}, "map[1:60]", "map[1:60]", "map[2:60]", "map[2:60]"},
		"standby where nobody is active":     {[]Server{standby}, "map[2:60]", "map[2:60]", "map[0:60]", "map[0:60]"},
		"group first, and open to all":       {[]Server{active, inGroup(server(3))}, "map[1:30 3:30]", "map[3:60]", "map[1:30 3:30]", "map[1:60]"},
		"standby of the own group":           {[]Server{active, inGroup(standby)}, "map[1:60]", "map[2:60]", "map[2:60]", "map[1:60]"},
		"after the group, active before any": {[]Server{active, standby, inGroup(server(3))}, "map[1:30 3:30]", "map[3:60]", "map[1:30 3:30]", "map[1:60]"},
		"group of two":                       {[]Server{active, inGroup(server(3)), inGroup(server(4))}, "map[1:20 3:20 4:20]", "map[3:30 4:30]", "map[1:20 3:20 4:20]", "map[3:30 4:30]"},
	} {
		w := &world{}
		for i := range 120 {
			a := agent(int64(i + 1))
			a.Group = int64(i%2) * 7
			w.agents = append(w.agents, a)
		}
		w.list(t, c.servers)
		w.settle(t)
		got := []string{counts(w, 0, primaryOf), counts(w, 7, primaryOf), counts(w, 0, secondaryOf), counts(w, 7, secondaryOf)}
		if !slices.Equal(got, []string{c.ungrouped, c.grouped, c.secondaries, c.inGroup7}) {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestI16_GroupWithoutServersIsOnePoolWithTheUngrouped(t *testing.T) {
	w := fleetOf(t, 100, 3)
	for i := range w.agents {
		w.agents[i].Group = int64(i % 10) // one agent over in most groups, were each a pool
	}
	out := w.settle(t)
	if len(out.Pools) != 1 || out.Pools[0].Group != 0 || out.Pools[0].Shares[0].Quota != 34 {
		t.Errorf("%+v", out.Pools)
	}
}

func TestI16_ChangeInOneGroupMovesNobodyOfAnother(t *testing.T) {
	w := fleetOf(t, 300, 6)
	servers := w.d.Servers()
	servers[0].Group, servers[1].Group, servers[2].Group = 1, 1, 2
	for i := range w.agents {
		w.agents[i].Group = int64(i % 3)
	}
	w.list(t, servers)
	w.settle(t)
	w.agents = slices.DeleteFunc(w.agents, func(a Agent) bool { return a.Group == 1 && a.Primary == 1 })
	before := slices.Clone(w.agents)
	out := w.settle(t)
	if len(out.Moves) == 0 {
		t.Fatal("a pool that lost half its agents on one side was not balanced")
	}
	for i, a := range w.agents {
		if a != before[i] && a.Group != 1 {
			t.Fatalf("%+v became %+v", before[i], a)
		}
	}
}

func TestI16_JoinMovesTheMinimum(t *testing.T) {
	w := fleetOf(t, 10_000, 50)
	w.settle(t)
	w.list(t, append(w.d.Servers(), server(51)))
	before := w.agents
	out := w.settle(t)
	if out.PrimariesMoved != 196 || len(out.Moves) > 600 {
		t.Errorf("%d primaries moved, the minimum is 196; %d rows", out.PrimariesMoved, len(out.Moves))
	}
	for i, a := range w.agents {
		if a.Primary != before[i].Primary && a.Primary != 51 {
			t.Fatalf("moved between servers that both were there: %+v to %+v", before[i], a)
		}
	}
}

// Round robin, as in the source this is modelled on, puts all agents of a failed server on its neighbour.
func TestI16_FailedServersAgentsSpreadEvenly(t *testing.T) {
	w := fleetOf(t, 10_000, 50)
	w.settle(t)
	if worst := worstAfterFailure(w.lists(), 50); worst > 1.05 {
		t.Errorf("worst survivor has %.3f of the mean", worst)
	}
	if worst := worstAfterFailure(roundRobin(10_000, 50), 50); worst < 1.9 {
		t.Errorf("round robin %.3f", worst)
	}
	w.list(t, append(w.d.Servers(), server(51)))
	w.settle(t)
	if worst := worstAfterFailure(w.lists(), 51); worst > 1.05 {
		t.Errorf("after a join the worst survivor has %.3f of the mean", worst)
	}
}

// Its agents failed over to their secondaries meanwhile: most need not move again.
func TestI16_AgentsOfAnEvictedServerStayAtTheirSecondary(t *testing.T) {
	w := fleetOf(t, 10_000, 50)
	w.settle(t)
	before := w.agents
	w.list(t, slices.Delete(w.d.Servers(), 24, 25))
	out := w.settle(t)
	stayed := 0
	for i, a := range w.agents {
		if before[i].Primary == 25 && a.Primary == before[i].Secondary {
			stayed++
		}
	}
	if out.PrimariesMoved != 200 || stayed < 190 {
		t.Errorf("%d moved, of which %d to their secondary", out.PrimariesMoved, stayed)
	}
}

// Weights decide also where the agents of several failed servers go: down the tail.
func TestI16_TailsWeigh(t *testing.T) {
	w := fleetOf(t, 20_000, 6)
	servers := w.d.Servers()
	servers[5].Weight = 4
	w.list(t, servers)
	w.settle(t)
	third := map[int64]int{}
	n := 0
	for _, a := range w.agents {
		if a.Primary != 6 && a.Secondary != 6 {
			third[w.d.List(a)[2]]++
			n++
		}
	}
	if share := float64(third[6]) / float64(n); share < 0.55 || share > 0.60 { // 4 of the 4 + 3 that are left
		t.Errorf("server 6 is the third of %.3f, its weight is 4 of 7: %v", share, third)
	}
}

func TestAssignRefuses(t *testing.T) {
	if _, err := (Directory{}).Assign([]Agent{agent(1)}); !errors.Is(err, ErrNobody) {
		t.Errorf("nobody: %v", err)
	}
	w := fleetOf(t, 3, 2)
	if _, err := w.d.Assign(append(w.agents, agent(2))); err == nil || !strings.Contains(err.Error(), "agent key 2") {
		t.Errorf("twice: %v", err)
	}
	if out, err := w.d.Assign(nil); err != nil || len(out.Moves)+len(out.Pools) > 0 {
		t.Errorf("no agents: %v %v", out, err)
	}
}

func TestNewDirectoryRefuses(t *testing.T) {
	with := func(change func(*Server)) Server { s := server(2); change(&s); return s }
	for want, servers := range map[string][]Server{
		"id must be positive":       {server(1), with(func(s *Server) { s.ID = 0 })},
		"id 2 is used twice":        {server(2), server(1), server(2)},
		"weight must be 1 to 1000":  {with(func(s *Server) { s.Weight = 0 })},
		"1000, is 1001":             {with(func(s *Server) { s.Weight = 1001 })},
		"no control server is elig": nil,
	} {
		if _, err := NewDirectory(1, servers); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestDirectoryIsByIdAndKeepsTheInput(t *testing.T) {
	given := []Server{server(3), server(1)}
	d, err := NewDirectory(1, given)
	if got := d.Servers(); err != nil || got[0].ID != 1 || got[1].ID != 3 || given[0].ID != 3 {
		t.Errorf("%v %v %v", err, got, given)
	}
	if _, found := d.Server(2); found {
		t.Error("there is no server 2")
	}
}

func TestEtagTellsEqualLists(t *testing.T) {
	w := fleetOf(t, 1, 5)
	a := Agent{Key: 1, Hash: 1, Primary: 3, Secondary: 4, Group: 2}
	if got := w.d.Etag(a); got != "1-1-3-4-2" {
		t.Errorf("etag %q", got)
	}
	seen := map[string]bool{w.d.Etag(a): true}
	next, _ := NewDirectory(2, w.d.Servers())
	for what, etag := range map[string]string{
		"version": next.Etag(a), "primary": w.d.Etag(Agent{Primary: 5, Secondary: 4, Group: 2}), "secondary": w.d.Etag(Agent{Primary: 3, Secondary: 5, Group: 2}),
		"group": w.d.Etag(Agent{Primary: 3, Secondary: 4}),
	} {
		if seen[etag] {
			t.Errorf("%s changes no etag", what)
		}
		seen[etag] = true
	}
}

// If this fails, lists of a running cloud change under an unchanged etag: raise AlgorithmVersion.
func TestI16_ListsAreThoseOfTheAlgorithmVersion(t *testing.T) {
	w := fleetOf(t, 4, 5)
	servers := w.d.Servers()
	servers[1].Standby, servers[2].Group, servers[4].Weight = true, 7, 3
	w.agents[0].Group = 7
	w.list(t, servers)
	w.settle(t)
	if got := fmt.Sprint(AlgorithmVersion, w.lists()); got != "1 [[3 5 1 4 2] [3 5 4 1 2] [1 5 4 3 2] [5 1 4 3 2]]" {
		t.Error(got)
	}
}

// These decide who goes where.
func TestHashIsStable(t *testing.T) {
	for name, want := range map[string]uint64{"": 0xf52a15e9a9b5e89b, "bm-1": 0xe12fbfbd92314b39, "Control-1": 0x850bd6c19dcaf559} {
		if got := Hash(name); got != want {
			t.Errorf("Hash(%q) = %#x", name, got)
		}
	}
}

func TestI13_SpellingsHaveOneHash(t *testing.T) {
	if Hash("BM-É") != Hash("bm-e\u0301") || Hash("a") == Hash("b") {
		t.Error("spellings of one name differ")
	}
}
