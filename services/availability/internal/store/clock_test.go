package store_test

import (
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

const leaseDuration = time.Minute

func look(t *testing.T, s *store.Store) time.Duration {
	t.Helper()
	step, err := s.LookAtClock(t.Context(), leaseDuration)
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// A holder that dies after the clock went back by an hour must not keep the lease for that hour.
func TestI15_ALeaseLastsNoLongerThanItsDurationAfterAStepBack(t *testing.T) {
	d := open(t)
	other := d.replica(t)
	d.StepClock(time.Hour)
	dead := take(t, d.Store, "dead")
	look(t, d.Store)
	for _, s := range []*store.Store{d.Store, other} {
		s.StepClock(0)
	}
	if _, taken, err := other.TakeLease(t.Context(), "next", leaseDuration); err != nil || taken {
		t.Fatal("taken from a holder that may live", taken, err)
	}
	if step := look(t, other); step > -59*time.Minute {
		t.Fatal("the step seen is", step)
	}
	lease, held, err := other.Lease(t.Context())
	overview := overviewOf(t, other)
	if err != nil || !held || lease.Token != dead.Token || lease.ExpiresAt.Sub(overview.ReadAt) > leaseDuration {
		t.Fatalf("%+v %v at %s: %v", lease, held, overview.ReadAt, err)
	}
	if overview.Clock.Step > -59*time.Minute || overview.Clock.Banner(overview.ReadAt) == "" {
		t.Errorf("%+v", overview.Clock)
	}
	if step := look(t, d.Store); step != 0 {
		t.Error("the other replica sees it again:", step)
	}
	other.StepClock(leaseDuration + time.Second)
	next, taken, err := other.TakeLease(t.Context(), "next", leaseDuration)
	if err != nil || !taken || next.Token <= dead.Token {
		t.Errorf("%+v %v %v", next, taken, err)
	}
}

// A live holder goes on over a step back, and after one ahead it is fenced once and takes the lease again.
func TestALiveHolderGoesOnOverAStep(t *testing.T) {
	d := open(t)
	look(t, d.Store)
	lease := take(t, d.Store, "a")
	d.StepClock(time.Hour)
	look(t, d.Store)
	if _, err := d.RenewLease(t.Context(), lease.Token, leaseDuration); err == nil {
		t.Error("a lease that ran out by the clock is renewed")
	}
	lease = take(t, d.Store, "a")
	d.StepClock(0)
	if _, err := d.RenewLease(t.Context(), lease.Token, leaseDuration); err != nil {
		t.Error(err)
	}
	look(t, d.Store)
	if _, err := d.RenewLease(t.Context(), lease.Token, leaseDuration); err != nil {
		t.Error("after the look:", err)
	}
}

func TestNothingOfASweepStaysInTheFutureOfTheClock(t *testing.T) {
	d := open(t)
	keys := d.servers(t, 1)
	d.StepClock(time.Hour)
	lease := take(t, d.Store, "a")
	ahead := overviewOf(t, d.Store).ReadAt
	status := silent(keys[0])
	status.Since, status.Verdict.HeardAt = ahead, ahead
	var paths verdict.PerPath[store.Path]
	paths[verdict.Bus].State = verdict.PathState{FrozenSince: ahead, Brake: verdict.Brake{Since: ahead, Proofs: 2, JudgedAt: ahead}}
	record(t, d.Store, store.Sweep{Token: lease.Token, Statuses: []store.Status{status}, SecondWriters: keys, Paths: paths})
	d.StepClock(0)
	if step := look(t, d.Store); step > -59*time.Minute { // the first look ever
		t.Fatal("the step seen is", step)
	}
	read := fleet(t, d.Store)
	bus, server := read.Paths[verdict.Bus].State, read.Servers[0]
	for what, at := range map[string]time.Time{
		"frozen since": bus.FrozenSince, "braked since": bus.Brake.Since, "judged at": bus.Brake.JudgedAt, "status since": server.Status.Since,
		"heard at": server.Status.Verdict.HeardAt, "second writer of the server": server.SecondWriterAt, "second writer": overviewOf(t, d.Store).SecondWriterAt,
	} {
		if at.IsZero() || at.After(read.ReadAt) {
			t.Errorf("%s %s, read at %s", what, at, read.ReadAt)
		}
	}
	if bus.Brake.Proofs != 0 {
		t.Error("proofs from before the step count:", bus.Brake.Proofs)
	}
}

func TestTheBrokersSkewIsStored(t *testing.T) {
	d := open(t)
	lease := take(t, d.Store, "a")
	paths := fleet(t, d.Store).Paths
	paths[verdict.Bus].Broker = verdict.Skew{Ahead: -time.Minute, Within: 250 * time.Millisecond}
	record(t, d.Store, store.Sweep{Token: lease.Token, Paths: paths})
	if got := fleet(t, d.Store).Paths; got != paths {
		t.Errorf("%+v\nwas written as\n%+v", got, paths)
	}
	paths[verdict.Bus].Broker = verdict.Skew{}
	record(t, d.Store, store.Sweep{Token: lease.Token, Paths: paths})
	if got := fleet(t, d.Store).Paths; got != paths {
		t.Errorf("%+v\nwas written as\n%+v", got, paths)
	}
}

func overviewOf(t *testing.T, s *store.Store) store.Overview {
	t.Helper()
	overview, err := s.Overview(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return overview
}
