package failover

import (
	"testing"
	"time"
)

func TestProbesOnlyWhileAway(t *testing.T) {
	p := atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	p.on(Answered{Server: s1})
	if to, _ := p.beats(s1, true, time.Hour); to != (Server{}) {
		t.Fatalf("went to %v", to)
	}
}

func TestReturnsAfterTwoMinutesOfGoodProbes(t *testing.T) {
	for u, want := range map[float64]time.Duration{
		0:    30*time.Second + 2*time.Minute,                    // probes at 30, 60, … 150 s, no jitter
		0.5:  time.Minute + 2*time.Minute + 30*time.Second,      // probes at 60, 120, 180 s, and half a minute
		0.95: 87*time.Second + 174*time.Second + 57*time.Second, // probes at 87, 174, 261 s
		0.25: 45*time.Second + 135*time.Second + 15*time.Second, // probes at 45, 90, 135, 180 s
	} {
		p := atSecondary(t)
		p.u = u
		p.d.home = home{} // drawn anew, with u
		p.on(Tick{})
		to, after := p.beats(s2, true, time.Hour)
		if to != s1 || after != want {
			t.Errorf("%v: went to %v after %v, want %v", u, to, after, want)
		}
		p.u = 0.5
		p.on(Answered{Server: s1}, Leave{s2})
		p.working(s1, true)
	}
}

func TestNeverReturnsWhileProbesFail(t *testing.T) {
	p := atSecondary(t)
	if to, after := p.beats(s2, false, 5*time.Hour); to != (Server{}) {
		t.Fatalf("went to %v after %v", to, after)
	}
}

func TestABadProbeBeginsTheProofAnew(t *testing.T) {
	p := atSecondary(t)
	p.beats(s2, true, 130*time.Second) // two good ones
	p.beats(s2, false, 60*time.Second)
	to, after := p.beats(s2, true, time.Hour)
	if to != s1 || after < 3*time.Minute {
		t.Fatalf("went to %v after %v", to, after)
	}
}

func TestABadProbeCallsTheReturnOff(t *testing.T) {
	p := atSecondary(t)
	p.u = 0.99 // the return is due 59 s after the last good probe, the next probe 89 s; so that one has to be late
	for p.d.home.returnAt.IsZero() {
		p.beats(s2, true, time.Second)
	}
	p.d.home.probeAt = p.now.Add(time.Second)
	p.now = p.now.Add(time.Second)
	p.on(Tick{}, Probe{s1})
	p.on(Probed{Server: s1, Good: false})
	if to, after := p.beats(s2, false, time.Hour); to != (Server{}) {
		t.Fatalf("went to %v after %v", to, after)
	}
}

func TestStaysWhenThePrimaryTakesNoHeartbeat(t *testing.T) {
	for _, outcome := range []Event{
		Failed{Server: s1},
		Failed{Server: s1, Why: Busy, RetryAfter: time.Minute},
		Failed{Server: s1, Why: Draining},
		Failed{Server: s1, Why: Refused},
		Answered{Server: s1, Draining: true},
	} {
		p := atSecondary(t)
		p.beats(s2, true, time.Hour)
		p.working(s2, false)
		p.on(Tick{}) // the return is under way
		p.on(Failed{Server: s2})
		p.on(outcome, Leave{s1})
		p.working(s2, false)
		p.wakes(600*time.Millisecond, Heartbeat{s2, "e1"})
		p.on(Answered{Server: s2})
		if to, after := p.beats(s2, true, time.Hour); to != s1 || after < 2*time.Minute {
			t.Fatalf("%+v: went to %v after %v", outcome, to, after)
		}
	}
}

func TestAReturnWaitsForTheHeartbeatUnderWay(t *testing.T) {
	p := atSecondary(t)
	p.wakes(15*time.Second, Heartbeat{s2, "e1"})
	for p.d.home.returnAt.IsZero() || p.now.Before(p.d.home.returnAt) {
		p.now = p.d.WakeAt()
		if p.now.IsZero() {
			t.Fatal("nothing leads on")
		}
		p.d, p.did = p.d.On(Tick{}, p.now, p.random)
		for _, a := range p.did {
			p.on(Probed{Server: a.(Probe).Server, Good: true})
		}
	}
	p.on(Answered{Server: s2}, Heartbeat{s1, "e1"})
}

func TestANewListKeepsTheServerAndAimsForTheNewPrimary(t *testing.T) {
	p := atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	next := listOf("e2", "s3", "s1", "s2")
	p.on(Answered{Server: s1, List: next}, Save{next})
	p.working(s1, false)
	p.wakes(30*time.Second, Heartbeat{s1, "e2"})
	p.on(Answered{Server: s1})
	if to, _ := p.beats(s1, true, time.Hour); to != s3 {
		t.Fatalf("went to %v", to)
	}
	p.on(Answered{Server: s3}, Leave{s1})
	p.working(s3, true)
}

func TestANewListWithoutTheServerIsFollowedAtOnce(t *testing.T) {
	p := atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	next := listOf("e2", "s3", "s2")
	p.on(Answered{Server: s1, List: next}, Save{next}, Leave{s1})
	p.wakes(2500*time.Millisecond, Heartbeat{s3, "e2"})
	p.on(Failed{Server: s3}, Leave{s3})
	p.wakes(600*time.Millisecond, Heartbeat{s2, "e2"})
}

func TestANewListWithTheSamePrimaryIsOnlySaved(t *testing.T) {
	p := atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	next := listOf("e2", "s1", "s3")
	p.on(Answered{Server: s1, List: next}, Save{next})
	p.working(s1, true)
	p.wakes(30*time.Second, Heartbeat{s1, "e2"})
	p.on(Answered{Server: s1, List: next})
	p.wakes(30*time.Second, Heartbeat{s1, "e2"})
	p.on(Failed{Server: s1}, Leave{s1})
	p.wakes(2500*time.Millisecond, Heartbeat{s3, "e2"})
}

func TestANewPrimaryNeedsProbesOfItsOwn(t *testing.T) {
	p := atSecondary(t)
	p.beats(s2, true, 170*time.Second) // s1 is all but proven
	p.now = p.d.callAt
	p.on(Tick{}, Heartbeat{s2, "e1"})
	next := listOf("e2", "s3", "s2", "s1")
	p.on(Answered{Server: s2, List: next}, Save{next})
	p.on(Probed{Server: s1, Good: true}) // of nobody's interest any more
	to, after := p.beats(s2, true, time.Hour)
	if to != s3 || after < 3*time.Minute {
		t.Fatalf("went to %v after %v", to, after)
	}
}

func TestAProbeUnderWayOutlivesItsPrimary(t *testing.T) {
	p := atSecondary(t)
	p.wakes(15*time.Second, Heartbeat{s2, "e1"})
	p.now = p.d.WakeAt()
	p.on(Tick{}, Probe{s1})
	next := listOf("e2", "s3", "s2", "s1")
	p.on(Answered{Server: s2, List: next}, Save{next}, Heartbeat{s2, "e2"})
	p.now = p.now.Add(5 * time.Minute)
	p.on(Tick{}) // one probe at a time
	p.on(Probed{Server: s1, Good: true}, Probe{s3})
	if !p.d.home.goodSince.IsZero() {
		t.Fatal("a probe of the old primary proved the new one")
	}
}

func TestAProbeUnderWayOutlivesTheServer(t *testing.T) {
	p := atSecondary(t)
	p.wakes(15*time.Second, Heartbeat{s2, "e1"})
	p.now = p.d.WakeAt()
	p.on(Tick{}, Probe{s1})
	p.on(Failed{Server: s2}, Leave{s2})
	p.wakes(2500*time.Millisecond, Heartbeat{s3, "e1"})
	p.on(Answered{Server: s3})
	p.wakes(15*time.Second, Heartbeat{s3, "e1"})
	p.now = p.now.Add(10 * time.Minute)
	p.on(Tick{}) // one probe at a time
	p.on(Probed{Server: s1, Good: true})
	p.on(Answered{Server: s3}, Heartbeat{s3, "e1"})
}
