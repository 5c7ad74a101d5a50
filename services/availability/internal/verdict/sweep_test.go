package verdict

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fleet is servers whose Online and state are kept from sweep to sweep, as the store would.
type fleet struct {
	t  rapid.TB
	in Input
}

func newFleet(t rapid.TB, online bool, agents ...Agent) *fleet {
	f := &fleet{t: t, in: Input{Limits: limits, RegistryAnswered: true, Evidence: PerPath[Evidence]{proof(epoch), proof(epoch)}}}
	for i, a := range agents {
		f.in.Servers = append(f.in.Servers, Server{Key: int64(i + 1), BenefitManager: true, Online: online, Agent: a})
	}
	return f
}

func busAgents(n int, at time.Time) []Agent {
	return slices.Repeat([]Agent{heardOn(Bus, at)}, n)
}

// sweep sweeps with proof on both paths.
func (f *fleet) sweep(now time.Time) Outcomes {
	for p := range f.in.Evidence {
		f.in.Evidence[p].ReportedAt, f.in.Evidence[p].HeardAt = now, now
	}
	return f.sweepAsIs(now)
}

// sweepAsIs stores what the sweep decides, and checks that the log agrees with the changes (I-9).
func (f *fleet) sweepAsIs(now time.Time) Outcomes {
	f.t.Helper()
	f.in.Now = now
	out := Sweep(f.in)
	f.in.State = out.State
	var went []int64
	for _, c := range out.Changes {
		s := &f.in.Servers[c.Key-1]
		if s.Online == c.Online {
			f.t.Fatalf("server %d changed to what it was", c.Key)
		}
		s.Online = c.Online
		if !c.Online {
			went = append(went, c.Key)
		}
	}
	if !slices.Equal(went, out.OfflineLog) {
		f.t.Fatalf("went offline %v, logged %v", went, out.OfflineLog)
	}
	for _, st := range out.Statuses {
		if f.in.Servers[st.Key-1].Online != st.Online {
			f.t.Fatalf("status of %d disagrees with what is stored", st.Key)
		}
		f.in.Servers[st.Key-1].Before = st
	}
	return out
}

func (f *fleet) online() (n int) {
	for _, s := range f.in.Servers {
		if s.Online {
			n++
		}
	}
	return n
}

func expectOnline(t rapid.TB, f *fleet, want int, when string) {
	t.Helper()
	if got := f.online(); got != want {
		t.Fatalf("%s: %d online, want %d", when, got, want)
	}
}

func TestI8_AgentNobodyAcceptedChangesNothing(t *testing.T) {
	for _, r := range []Registration{Unregistered, Pending, Rejected} {
		for _, online := range []bool{false, true} {
			a := heardOn(Bus, epoch)
			a.Registration, a.Linked = r, false
			f := newFleet(t, online, a, Agent{Registration: r, BaseURL: "http://x", Probes: probedWith(Succeeded).Probes})
			if out := f.sweep(epoch); len(out.Changes) > 0 {
				t.Errorf("registration %d, online %v: %v", r, online, out.Changes)
			}
		}
	}
}

func TestI12_OnlyBenefitManagersGivenAreDecided(t *testing.T) {
	f := newFleet(t, false, heardOn(Bus, epoch), heardOn(Bus, epoch))
	f.in.Servers[0].BenefitManager = false
	out := f.sweep(epoch)
	if want := []Change{{Key: 2, Online: true, Reason: HeartbeatFresh}}; !slices.Equal(out.Changes, want) || len(out.Statuses) != 1 {
		t.Errorf("changes %v, statuses %v", out.Changes, out.Statuses)
	}
	f.in.Servers[0].Online, f.in.Servers[0].Maintenance = true, true
	if out := f.sweep(epoch); len(out.Changes) > 0 {
		t.Errorf("another type in maintenance: %v", out.Changes)
	}
}

func TestI9_IntoMaintenanceIsOneRow(t *testing.T) {
	f := newFleet(t, true, heardOn(Bus, epoch), Agent{})
	for i := range f.in.Servers {
		f.in.Servers[i].Maintenance = true
	}
	out := f.sweep(epoch)
	if !slices.Equal(out.OfflineLog, []int64{1, 2}) || out.Changes[0].Reason != InMaintenance {
		t.Fatalf("log %v, changes %v", out.OfflineLog, out.Changes)
	}
	if out := f.sweep(epoch.Add(time.Second)); len(out.Changes) > 0 || len(out.OfflineLog) > 0 {
		t.Fatalf("again: %v", out.Changes)
	}
	for i := range f.in.Servers {
		f.in.Servers[i].Maintenance = false
	}
	if out := f.sweep(epoch.Add(2 * time.Second)); len(out.OfflineLog) > 0 || len(out.Changes) != 1 || !out.Changes[0].Online {
		t.Fatalf("after: %v", out.Changes)
	}
}

func TestI9_LossIsOneRowAndRecoveryTakesOneHeartbeat(t *testing.T) {
	f := newFleet(t, true, heardOn(Bus, epoch), heardOn(Bus, epoch.Add(time.Hour)))
	rows := 0
	for at := epoch; at.Before(epoch.Add(5 * time.Minute)); at = at.Add(15 * time.Second) {
		out := f.sweep(at)
		rows += len(out.OfflineLog)
		if want := at.Sub(epoch) < limits.MaxAge; f.in.Servers[0].Online != want {
			t.Fatalf("%v after its last heartbeat: online %v", at.Sub(epoch), !want)
		}
	}
	if rows != 1 {
		t.Fatalf("%d rows", rows)
	}
	back := epoch.Add(5 * time.Minute)
	f.in.Servers[0].Agent.HeardAt[Direct] = back
	if out := f.sweep(back); len(out.Changes) != 1 || !out.Changes[0].Online || len(out.OfflineLog) > 0 {
		t.Fatalf("%v", out.Changes)
	}
}

func TestI9_RedeliveredAndReorderedHeartbeatsChangeNothing(t *testing.T) {
	f := newFleet(t, true, heardOn(Bus, epoch))
	f.in.Servers[0].Agent.HeardAt[Direct] = epoch.Add(-10 * time.Minute) // older, by the other path, after the newer
	for i := range 3 {
		if out := f.sweep(epoch.Add(time.Duration(i) * time.Second)); len(out.Changes) > 0 || out.Statuses[0].Since != epoch {
			t.Fatalf("sweep %d: %v", i, out)
		}
	}
}

func TestI9_OrderOfOutputsIsThatOfKeys(t *testing.T) {
	f := newFleet(t, true, append(busAgents(4, ago(time.Hour)), busAgents(10, epoch)...)...)
	want := Sweep(withNow(f.in, epoch))
	slices.Reverse(f.in.Servers)
	given := slices.Clone(f.in.Servers)
	got := Sweep(withNow(f.in, epoch))
	if !slices.Equal(want.OfflineLog, []int64{1, 2, 3, 4}) || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got.OfflineLog, want.OfflineLog)
	}
	if !slices.Equal(given, f.in.Servers) {
		t.Error("the input was changed")
	}
}

func withNow(in Input, now time.Time) Input { in.Now = now; return in }

func TestRemovedOrRejectedNeedsNoProof(t *testing.T) {
	removed, rejected := heardOn(Bus, ago(time.Hour)), heardOn(Bus, epoch)
	removed.Registration, rejected.Registration = Removed, Rejected
	f := newFleet(t, true, removed, rejected)
	f.in.Evidence = PerPath[Evidence]{}
	if out := f.sweepAsIs(epoch); !slices.Equal(out.OfflineLog, []int64{1, 2}) {
		t.Errorf("%v", out.Changes)
	}
}

func TestI11_RegistryUnreachable(t *testing.T) {
	f := newFleet(t, true, heardOn(Bus, ago(time.Hour)), heardOn(Bus, epoch), Agent{Registration: Removed, Linked: true})
	f.in.Servers[1].Online, f.in.Servers[2].Maintenance, f.in.RegistryAnswered = false, true, false
	out := f.sweep(epoch)
	if want := []Change{{Key: 3, Reason: InMaintenance}}; !slices.Equal(out.Changes, want) || out.Paths[Bus].Blind != NoRegistry {
		t.Errorf("%v", out)
	}
}

func TestI11_FrozenHoldsSilenceOnly(t *testing.T) {
	f := newFleet(t, true, heardOn(Bus, ago(time.Hour)), heardOn(Bus, epoch), heardOn(Bus, epoch), heardOn(Direct, ago(time.Hour)))
	f.in.Servers[1].Online, f.in.Servers[2].Maintenance = false, true
	f.in.Evidence[Bus].Backlog = time.Minute
	out := f.sweep(epoch)
	want := []Change{{2, true, HeartbeatFresh}, {3, false, InMaintenance}, {4, false, HeartbeatSilent}}
	if !slices.Equal(out.Changes, want) {
		t.Errorf("changes %v", out.Changes)
	}
	if len(out.Held) != 1 || out.Held[0].Key != 1 || out.Held[0].Held != Frozen || out.Held[0].HeldPath != Bus {
		t.Errorf("held %v", out.Held)
	}
	if out = f.sweep(epoch.Add(time.Second)); out.Paths[Bus].Blind != IngestBehind || out.State[Bus].FrozenSince != epoch {
		t.Errorf("status %v, state %v", out.Paths[Bus], out.State[Bus])
	}
	f.in.Evidence[Bus].Backlog = 0
	if out = f.sweep(epoch.Add(2 * time.Second)); !slices.Equal(out.OfflineLog, []int64{1}) || !out.State[Bus].FrozenSince.IsZero() {
		t.Errorf("after: %v", out)
	}
}

func TestI11_AgentOfTwoPathsNeedsBothProven(t *testing.T) {
	a := heardOn(Bus, ago(2*time.Minute))
	a.HeardAt[Direct] = ago(time.Hour)
	f := newFleet(t, true, a)
	f.in.Evidence[Direct].HealthySince = time.Time{}
	if out := f.sweep(epoch); len(out.Changes) > 0 || out.Held[0].HeldPath != Direct {
		t.Errorf("%v", out)
	}
}

func TestI11_RoundInWhichEveryProbeFailedIsUnknown(t *testing.T) {
	down := probedWith(Failed, Failed, Failed)
	for name, c := range map[string]struct {
		agents  []Agent
		offline []int64
	}{
		"alone":                  {[]Agent{down}, []int64{1}},
		"all of several":         {[]Agent{down, down}, nil},
		"one round of three":     {[]Agent{down, probedWith(Succeeded, Failed, Succeeded)}, nil},
		"the other still probed": {[]Agent{down, probedWith(Unfinished, Succeeded, Succeeded)}, nil},
		"others were reached":    {[]Agent{down, down, probedWith(Succeeded, Succeeded, Succeeded)}, []int64{1, 2}},
		"heard ones don't count": {[]Agent{down, heardOn(Bus, epoch)}, []int64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			if out := newFleet(t, true, c.agents...).sweep(epoch); !slices.Equal(out.OfflineLog, c.offline) {
				t.Errorf("offline %v, want %v", out.OfflineLog, c.offline)
			}
		})
	}
}

func TestI11_IngestDownTenMinutes(t *testing.T) {
	f := newFleet(t, true, busAgents(200, epoch)...)
	back := epoch.Add(10 * time.Minute)
	quiet := 0 // agents that truly died during the outage
	for at := epoch; at.Before(back.Add(3 * time.Minute)); at = at.Add(15 * time.Second) {
		e := Evidence{}
		if !at.Before(back) {
			e = Evidence{ReportedAt: at, HealthySince: back, HeardAt: at, LongestReturn: time.Second}
			for i := 3; i < 200; i++ { // 1 to 3 stay silent
				f.in.Servers[i].Agent.HeardAt[Bus] = at
			}
		}
		f.in.Evidence[Bus] = e
		out := f.sweepAsIs(at)
		quiet += len(out.OfflineLog)
		if at.Before(back.Add(limits.MaxAge)) && quiet > 0 {
			t.Fatalf("%v after the return: offline %v", at.Sub(back), out.OfflineLog)
		}
	}
	if quiet != 3 {
		t.Fatalf("%d offline in the end, want the 3 that died", quiet)
	}
}

// No agent was ever heard on the direct path, and nobody listens there: that is no blindness to tell people about.
func TestAPathNobodyUsesIsNotFrozen(t *testing.T) {
	f := newFleet(t, true, busAgents(3, ago(0))...)
	f.in.Evidence[Direct] = Evidence{}
	if out := f.sweepAsIs(epoch); out.Paths[Direct].Blind != NotBlind || !out.State[Direct].FrozenSince.IsZero() {
		t.Errorf("%+v", out.Paths[Direct])
	}
	f.in.Servers[0].Agent = heardOn(Direct, ago(0))
	if out := f.sweepAsIs(epoch); out.Paths[Direct].Blind != NoEvidence {
		t.Errorf("%+v", out.Paths[Direct])
	}
}

// What is shown of a path is as the sweep leaves it: who went offline is no silent online server any more.
func TestCrowdIsShownAsTheSweepLeavesIt(t *testing.T) {
	f := newFleet(t, true, append(busAgents(2, ago(2*time.Minute)), busAgents(8, ago(0))...)...)
	if out := f.sweep(epoch); out.Paths[Bus].Crowd != (Crowd{Online: 8}) {
		t.Errorf("%+v", out.Paths[Bus].Crowd)
	}
}
