package cloud

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	limits = DefaultLimits()
	now    = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// member is listed, and renewed just now.
func member(id int64) Member {
	return Member{Server: server(id), Version: "1.0", Protocols: Protocols{1, 2}, Mode: ModeNormal, RenewedAt: now, Listing: Listing{Listed: true}}
}

func silent(id int64, since time.Duration) Member {
	m := member(id)
	m.RenewedAt = ago(since)
	return m
}

func TestStates(t *testing.T) {
	crowd := []Member{member(101), member(102), member(103)} // so that one alone is no mass
	listed, never := Listing{Listed: true}, Listing{}
	out := func(as State, since time.Duration) Listing { return Listing{UnlistedAt: ago(since), UnlistedAs: as} }
	for _, c := range []struct {
		what     string
		mode     Mode
		silent   time.Duration
		listing  Listing
		want     State
		eligible bool
	}{
		{"renewed", ModeNormal, 14 * time.Second, listed, Normal, true},
		{"lease lapsed", ModeNormal, 15 * time.Second, listed, Suspect, true},
		{"within grace", ModeNormal, 5*time.Minute - 1, listed, Suspect, true},
		{"grace over", ModeNormal, 5 * time.Minute, listed, Evicted, false},
		{"joins", ModeNormal, 0, never, Normal, true},
		{"died before it was listed", ModeNormal, 15 * time.Second, never, Suspect, false},
		{"still evicted", ModeNormal, time.Hour, out(Evicted, time.Minute), Evicted, false},
		{"back from eviction", ModeNormal, 0, out(Evicted, time.Minute), Normal, true},
		{"sent into maintenance", ModeMaintenance, 0, listed, Draining, false},
		{"just out of the lists", ModeMaintenance, 0, out(Draining, 5*time.Minute-1), Draining, false},
		{"drained", ModeMaintenance, 0, out(Draining, 5*time.Minute), Maintenance, false},
		{"drained and shut down", ModeMaintenance, time.Hour, out(Draining, 2*time.Hour), Maintenance, false},
		{"joins in maintenance", ModeMaintenance, 0, never, Maintenance, false},
		{"back in operation", ModeNormal, 0, out(Draining, time.Hour), Normal, true},
	} {
		m := member(1)
		m.Mode, m.RenewedAt, m.Listing = c.mode, ago(c.silent), c.listing
		judged := Judge(append([]Member{m}, crowd...), now, limits)
		if s := judged.Members[0]; s.State != c.want || s.eligible() != c.eligible || s.Present != (c.silent < 5*time.Minute) {
			t.Errorf("%s: %s, eligible %v, present %v", c.what, s.State, s.eligible(), s.Present)
		}
		if got := len(judged.Eligible()) == 4; got != c.eligible {
			t.Errorf("%s: %v", c.what, judged.Eligible())
		}
		if serves := judged.Members[0].State.Serves(); serves != (c.want != Maintenance) {
			t.Errorf("%s: serves %v", c.what, serves)
		}
	}
}

func TestDrainEndsAfterTheListsLeftItOut(t *testing.T) {
	m := member(1)
	if got := m.DrainEndsAt(limits); !got.IsZero() {
		t.Errorf("while listed: %v", got)
	}
	m.Listing = Listing{UnlistedAt: now}
	if got := m.DrainEndsAt(limits); got != now.Add(5*time.Minute) {
		t.Errorf("%v", got)
	}
}

func TestI16_FreezeHoldsEvictions(t *testing.T) {
	hour := time.Hour
	unlisted, drained, sent := silent(9, hour), silent(9, hour), silent(9, hour)
	sent.Mode = ModeMaintenance
	unlisted.Listing = Listing{UnlistedAt: ago(hour), UnlistedAs: Evicted}
	drained.Mode, drained.Listing = ModeMaintenance, unlisted.Listing
	for _, c := range []struct {
		what    string
		members []Member
		frozen  bool
		listed  []int64
	}{
		{"half is not more than half", []Member{member(1), silent(2, hour)}, false, []int64{1}},
		{"two of three at once", []Member{member(1), silent(2, hour), silent(3, hour+time.Minute)}, true, []int64{1, 2, 3}},
		{"two of three, one after the other", []Member{member(1), silent(2, hour), silent(3, hour+time.Minute+1)}, false, []int64{1}},
		{"the only one", []Member{silent(1, hour)}, true, []int64{1}},
		{"all", []Member{silent(1, hour), silent(2, hour), silent(3, hour)}, true, []int64{1, 2, 3}},
		{"those that are suspect count", []Member{member(1), silent(2, 5*time.Minute), silent(3, 4*time.Minute)}, true, []int64{1, 2, 3}},
		{"those out of the lists don't", []Member{member(1), silent(2, hour), unlisted}, false, []int64{1}},
		{"those in maintenance neither", []Member{member(1), silent(2, hour), drained}, false, []int64{1}},
		{"nor those on their way out", []Member{member(1), silent(2, hour), sent}, false, []int64{1}},
		{"and stay out", []Member{silent(1, hour), unlisted, drained}, true, []int64{1}},
		{"a mass among stragglers", []Member{member(1), silent(2, 2*hour), silent(3, hour), silent(4, hour), silent(5, hour)}, true, []int64{1, 2, 3, 4, 5}},
	} {
		judged := Judge(c.members, now, limits)
		var listed []int64
		for _, s := range judged.Eligible() {
			listed = append(listed, s.ID)
		}
		if judged.Frozen() != c.frozen || !slices.Equal(listed, c.listed) {
			t.Errorf("%s: frozen %v, %v", c.what, judged.FrozenSince, listed)
		}
	}
}

func TestFreezeStopsNoJoinAndNoOperator(t *testing.T) {
	joining, sent := member(4), silent(3, time.Hour)
	joining.Listing, sent.Mode = Listing{}, ModeMaintenance
	judged := Judge([]Member{silent(1, time.Hour), silent(2, time.Hour), sent, joining}, now, limits)
	if !judged.Frozen() || len(judged.Eligible()) != 3 || judged.Members[2].State != Draining {
		t.Errorf("%+v", judged)
	}
}

func TestFreezeIsSinceTheMassWasSuspect(t *testing.T) {
	members := []Member{member(1), silent(2, time.Hour), silent(3, time.Hour-time.Minute), silent(4, 2*time.Hour)}
	members[0].RenewedAt = ago(15 * time.Second)
	if got := Judge(members, now, limits).FrozenSince; !got.IsZero() {
		t.Errorf("3 of 4 in a minute are needed: %v", got)
	}
	members[3].RenewedAt = ago(time.Hour - 30*time.Second)
	if got := Judge(members, now, limits).FrozenSince; got != ago(59*time.Minute-15*time.Second) {
		t.Errorf("%v", got)
	}
	unlisted := silent(5, time.Hour)
	unlisted.Listing = Listing{UnlistedAs: Evicted}
	if s := Judge(append(members, unlisted), now, limits).Members; s[1].State != Suspect || s[4].State != Evicted {
		t.Errorf("listed %s, not listed %s", s[1].State, s[4].State)
	}
}

// Some of a cloud falls silent and comes back, with or without a restart: the lists never change.
func TestI16_SuspectAndBackWithinGraceMovesNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.settle(t)
		var members []Member
		for _, s := range w.d.Servers() {
			m := member(s.ID)
			m.Server = s
			members = append(members, m)
		}
		expectUnchanged := func(when string) {
			p, err := w.d.Repartition(Judge(members, now, limits), w.agents)
			if err != nil || !p.Unchanged() || p.Directory.Version != w.d.Version {
				t.Fatalf("%s: %v %+v %+v", when, err, p.Changes, p.Moves)
			}
		}
		expectUnchanged("at first")
		for i := range members {
			if rapid.Bool().Draw(t, "silent") {
				members[i].RenewedAt = ago(time.Duration(rapid.Int64Range(0, int64(limits.EvictionGrace)-1).Draw(t, "silence")))
			}
		}
		expectUnchanged("silent")
		for i, m := range members {
			admitted, err := Judge(members, now, limits).Join(Candidate{m.Name, m.Endpoints, "1.1", Protocols{2, 3}})
			if err != nil || admitted.ID != m.ID || admitted.Replaces != nil {
				t.Fatalf("restarted: %v %+v", err, admitted)
			}
			members[i].RenewedAt = now
		}
		expectUnchanged("back")
	})
}

func TestVersions(t *testing.T) {
	gone, other := silent(1, time.Hour), member(3)
	gone.Version, other.Version = "0.9", "1.1"
	got := fmt.Sprint(Judge([]Member{member(4), other, gone, member(2)}, now, limits).Versions())
	if got != "[{1.0 [control-2 control-4]} {1.1 [control-3]}]" {
		t.Error(got)
	}
}
