package verdict

import (
	"testing"
	"time"
)

func TestI11_WholeFleetSilentWhateverThePhase(t *testing.T) {
	for phase := range 15 {
		agents := busAgents(100, epoch)
		for i := range agents { // last heartbeats are spread over one interval
			agents[i].HeardAt[Bus] = epoch.Add(time.Duration(i) * 300 * time.Millisecond)
		}
		f := newFleet(t, true, agents...)
		var tripped time.Time
		for at := epoch.Add(time.Duration(phase) * time.Second); f.online() > 0; at = at.Add(15 * time.Second) {
			if at.After(epoch.Add(10 * time.Minute)) {
				t.Fatal("held for ever")
			}
			out := f.sweep(at)
			if tripped.IsZero() {
				tripped = out.State[Bus].Brake.Since
			}
			if f.online() < 100 && (tripped.IsZero() || at.Sub(tripped) < 45*time.Second) {
				t.Fatalf("phase %d: %d online %v after the brake", phase, f.online(), at.Sub(tripped))
			}
		}
	}
}

// mass is a fleet of 100, of which 60 fell silent 2 minutes ago.
func mass(t testing.TB) *fleet {
	return newFleet(t, true, append(busAgents(60, ago(2*time.Minute)), busAgents(40, epoch.Add(time.Hour))...)...)
}

func step(i int) time.Time { return epoch.Add(time.Duration(i) * 15 * time.Second) }

func TestI11_SixtyPercentAreHeldThenApplied(t *testing.T) {
	f := mass(t)
	for i := range 3 {
		out := f.sweep(step(i))
		expectOnline(t, f, 100, "held")
		if len(out.Held) != 60 || out.Held[0].Held != Braked || !out.Paths[Bus].Braked || out.State[Bus].Brake.Since != epoch {
			t.Fatalf("sweep %d: %v %v", i, out.Paths[Bus], out.State[Bus])
		}
	}
	f.sweep(step(3))
	expectOnline(t, f, 40, "after 3 proven sweeps")
	if out := f.sweep(step(4)); out.State[Bus].Brake != (Brake{}) {
		t.Fatalf("not released: %v", out.State[Bus])
	}
}

func TestI11_BrakeProofStartsAnewAfterAGap(t *testing.T) {
	for name, gap := range map[string]func(*fleet){
		"frozen":               func(f *fleet) { f.in.Evidence[Bus].Backlog = time.Minute },
		"registry unreachable": func(f *fleet) { f.in.RegistryAnswered = false },
		"unseen": func(f *fleet) { // nobody swept for long; the ingest fell and rose meanwhile
			f.in.Evidence[Bus].HealthySince = step(2).Add(-limits.MaxAge)
			f.in.State[Bus].Brake.JudgedAt = step(2).Add(-5 * time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := mass(t)
			f.sweep(step(0))
			f.sweep(step(1))
			gap(f)
			f.sweep(step(2))
			f.in.Evidence[Bus], f.in.RegistryAnswered = proof(epoch), true
			for i := 3; i < 5; i++ {
				f.sweep(step(i))
				expectOnline(t, f, 100, "the proof starts anew")
			}
			f.sweep(step(5))
			expectOnline(t, f, 40, "proven again")
		})
	}
}

func TestI11_HastySweepsProveNothing(t *testing.T) {
	f := mass(t)
	for i := range 7 {
		f.sweep(epoch.Add(time.Duration(i) * time.Second))
	}
	expectOnline(t, f, 100, "7 sweeps in 7 s")
}

// A clock that went back must neither hold for ever nor count as proof.
func TestI11_BrakeSurvivesAClockThatGoesBack(t *testing.T) {
	f := mass(t)
	f.in.State[Bus].Brake = Brake{Since: step(0), Proofs: 2, JudgedAt: step(0).Add(24 * time.Hour)}
	for i := range 3 {
		f.sweep(step(i + 1))
		expectOnline(t, f, 100, "the proof starts anew")
	}
	f.sweep(step(4))
	expectOnline(t, f, 40, "proven by the new clock")
}

func TestI11_OperatorAppliesOrHolds(t *testing.T) {
	f := mass(t)
	f.sweep(step(0))
	f.in.State[Bus].Brake.Order = Hold
	for i := range 20 {
		f.sweep(step(i + 1))
		expectOnline(t, f, 100, "operator holds")
	}
	f.in.State[Bus].Brake.Order = Apply
	f.in.Evidence[Bus].Backlog = time.Minute
	f.sweep(step(21))
	expectOnline(t, f, 100, "applying ends the brake, not the freeze")
	f.in.Evidence[Bus].Backlog = 0
	f.sweep(step(22))
	expectOnline(t, f, 40, "operator applies")
	if out := f.sweep(step(23)); out.State[Bus].Brake.Order != NoOrder {
		t.Fatal("applying outlived the mass")
	}
}

// The mass that an operator saw ended while the order was on its way; the next one is not meant by it.
func TestI11_ApplyIsForAMassThatWasSeen(t *testing.T) {
	f := mass(t)
	f.in.State[Bus].Brake.Order = Apply
	if out := f.sweep(step(0)); out.State[Bus].Brake.Order != NoOrder {
		t.Error("the order waits for a mass nobody has seen")
	}
	expectOnline(t, f, 100, "braked")
}

func TestI11_HoldNeedsNoMass(t *testing.T) {
	f := newFleet(t, true, append(busAgents(1, ago(time.Hour)), busAgents(9, epoch.Add(time.Hour))...)...)
	f.in.State[Bus].Brake.Order = Hold
	for i := range 6 {
		f.sweep(step(i))
		expectOnline(t, f, 10, "held")
	}
	f.in.State[Bus].Brake.Order = NoOrder
	f.sweep(step(6))
	expectOnline(t, f, 9, "taken back")
}

func TestCrowd(t *testing.T) {
	for c, want := range map[Crowd]bool{{4, 4}: false, {5, 5}: true, {9, 5}: true, {10, 5}: false, {11, 6}: true, {200, 100}: false} {
		if c.mass() != want {
			t.Errorf("%+v: %v", c, !want)
		}
	}
	moved := heardOn(Direct, ago(0))
	moved.HeardAt[Bus] = ago(time.Hour)
	rejected := heardOn(Bus, ago(time.Hour))
	rejected.Registration = Rejected
	f := newFleet(t, true, heardOn(Bus, ago(45*time.Second)), heardOn(Bus, ago(44*time.Second)), moved, // 1 silent of 2, and 0 of 1
		heardOn(Bus, ago(time.Hour)), heardOn(Bus, ago(time.Hour)), Agent{}, probedWith(Failed), heardOn(Bus, ago(time.Hour)), rejected)
	f.in.Servers[3].Maintenance, f.in.Servers[4].Online, f.in.Servers[7].BenefitManager = true, false, false
	if got := crowds(f.in.Servers, epoch, limits.MaxAge); got != (PerPath[Crowd]{{2, 1}, {1, 0}}) {
		t.Errorf("%+v", got)
	}
}
