package cloud

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// cloudOf is members as listed in a settled world of 60 agents.
func cloudOf(t *testing.T, n int) (*world, []Member) {
	w := fleetOf(t, 60, n)
	w.settle(t)
	var members []Member
	for i := range n {
		members = append(members, member(int64(i+1)))
	}
	return w, members
}

func TestChangesTellTheCause(t *testing.T) {
	by := func(change func(*Member)) func([]Member) []Member {
		return func(members []Member) []Member {
			members[1].ChangedBy = "anna"
			change(&members[1])
			return members
		}
	}
	for want, change := range map[string]func([]Member) []Member{
		"[]": func(m []Member) []Member { return m },
		"[{join 4 control-4  normal }]": func(m []Member) []Member {
			return append(m, with(member(4), func(m *Member) { m.Listing = Listing{} }))
		},
		"[{join 4 control-4 evicted normal }]": func(m []Member) []Member {
			return append(m, with(member(4), func(m *Member) { m.Listing = Listing{UnlistedAs: Evicted} }))
		},
		"[{mode change 4 control-4 draining normal anna}]": func(m []Member) []Member {
			return append(m, with(member(4), func(m *Member) { m.Listing, m.ChangedBy = Listing{UnlistedAs: Draining}, "anna" }))
		},
		"[{leave 2 control-2   }]":                                func(m []Member) []Member { return slices.Delete(m, 1, 2) },
		"[{eviction 2 control-2   }]":                             by(func(m *Member) { m.RenewedAt = ago(time.Hour) }),
		"[{mode change 2 control-2 normal draining anna}]":        by(func(m *Member) { m.Mode = ModeMaintenance }),
		"[{weight change 2 control-2 1 3 anna}]":                  by(func(m *Member) { m.Weight = 3 }),
		"[{standby change 2 control-2 false true anna}]":          by(func(m *Member) { m.Standby = true }),
		"[{group change 2 control-2 0 7 anna}]":                   by(func(m *Member) { m.Group = 7 }),
		"[{endpoint change 2 control-2 [control-2:8443] [b:1] }]": by(func(m *Member) { m.Endpoints = []string{"b:1"} }),
		"[{leave 1 control-1   } {weight change 2 control-2 1 3 anna} {group change 2 control-2 0 7 anna} {join 4 control-4  normal }]": func(m []Member) []Member {
			m[1].Weight, m[1].Group, m[1].ChangedBy = 3, 7, "anna"
			return append(m[1:], with(member(4), func(m *Member) { m.Listing = Listing{} }))
		},
	} {
		w, members := cloudOf(t, 3)
		judged := Judge(change(members), now, limits)
		if got := fmt.Sprint(w.d.Changes(judged)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		p, err := w.d.Repartition(judged, w.agents)
		if err != nil || (p.Directory.Version == w.d.Version+1) != (want != "[]") || len(p.Directory.Changes(judged)) > 0 {
			t.Errorf("%s: %v, version %d, then %v", want, err, p.Directory.Version, p.Directory.Changes(judged))
		}
	}
}

func TestChangesAreByServer(t *testing.T) {
	d, err := NewDirectory(1, []Server{server(2), server(4)})
	if err != nil {
		t.Fatal(err)
	}
	var order []int64
	for _, c := range d.Changes(Judge([]Member{member(5), member(1), with(member(2), func(m *Member) { m.Weight = 9 }), member(3)}, now, limits)) {
		order = append(order, c.Server)
	}
	if !slices.Equal(order, []int64{1, 2, 3, 4, 5}) {
		t.Error(order)
	}
}

func TestEventTellsWhoAndHowMany(t *testing.T) {
	w, members := cloudOf(t, 3)
	members[2].Mode, members[2].ChangedBy = ModeMaintenance, "anna"
	w.agents = append(w.agents, agent(61))
	p, err := w.d.Repartition(Judge(members, now, limits), w.agents)
	if err != nil {
		t.Fatal(err)
	}
	e := p.Event(8, now, "anna")
	if e.Epoch != 8 || e.At != now || e.Agents != 61 || e.Placed != 1 || e.PrimariesMoved != 20 || e.SecondariesMoved < 20 {
		t.Errorf("%+v", e)
	}
	if fmt.Sprint(e.Causes) != "[{mode change 3 control-3 normal draining anna}]" {
		t.Errorf("%v", e.Causes)
	}
}

func TestEventWithoutAChangeOfServers(t *testing.T) {
	w, members := cloudOf(t, 3)
	w.agents = append(w.agents, agent(61))
	p, _ := w.d.Repartition(Judge(members, now, limits), w.agents)
	if got := fmt.Sprint(p.Event(1, now, "").Causes); got != "[{agent change 0    }]" || p.Unchanged() {
		t.Errorf("agents: %s", got)
	}
	if got := fmt.Sprint(p.Event(1, now, "anna").Causes); got != "[{agent change 0    anna}]" {
		t.Errorf("asked for: %s", got)
	}
}

// What an operator did to agents is told beside what servers did at the same time.
func TestEventTellsWhoAskedBesideAChangeOfServers(t *testing.T) {
	w, members := cloudOf(t, 3)
	joined := append(slices.Clone(members), with(member(4), func(m *Member) { m.Listing = Listing{} }))
	for _, row := range []struct {
		members     []Member
		actor, want string
	}{
		{joined, "", "[{join 4 control-4  normal }]"},
		{joined, "anna", "[{join 4 control-4  normal } {agent change 0    anna}]"},
		{members[:2], "anna", "[{leave 3 control-3   anna}]"},
	} {
		p, err := w.d.Repartition(Judge(row.members, now, limits), w.agents)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p.Event(1, now, row.actor).Causes); got != row.want {
			t.Errorf("asked for by %q: %s", row.actor, got)
		}
	}
}

func TestI16_NobodyEligibleIsSaid(t *testing.T) {
	w, members := cloudOf(t, 1)
	members[0].Mode = ModeMaintenance
	judged := Judge(members, now, limits)
	if _, err := w.d.Repartition(judged, w.agents); !errors.Is(err, ErrNobody) {
		t.Errorf("%v", err)
	}
	if judged.Members[0].State != Draining {
		t.Error("the lists stay, and so the last server must go on serving")
	}
	if _, err := (Directory{}).Repartition(Membership{}, w.agents); !errors.Is(err, ErrNobody) {
		t.Errorf("no servers at all: %v", err)
	}
	if p, err := (Directory{}).Repartition(Judge([]Member{member(1)}, now, limits), w.agents); err != nil || p.Directory.Version != 1 {
		t.Errorf("the first: %v %d", err, p.Directory.Version)
	}
}

func TestI16_EvictionMovesOnlyItsAgents(t *testing.T) {
	w, members := cloudOf(t, 5)
	members[3].RenewedAt = ago(time.Hour)
	p, err := w.d.Repartition(Judge(members, now, limits), w.agents)
	if err != nil || p.PrimariesMoved != 12 || p.Placed != 0 {
		t.Fatalf("%v %+v", err, p.Assignment)
	}
	for _, m := range p.Moves {
		a := w.agents[m.Key-1]
		if a.Primary != 4 && a.Secondary != 4 && m.Primary != a.Primary {
			t.Errorf("%+v becomes %+v", a, m)
		}
	}
	if slices.ContainsFunc(p.Directory.Servers(), func(s Server) bool { return s.ID == 4 }) {
		t.Error("evicted and listed")
	}
}
