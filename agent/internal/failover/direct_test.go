package failover

import (
	"testing"
	"time"
)

func TestBeginsWithThePrimaryOfItsList(t *testing.T) {
	p := atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"}) // the second comes early, at random
	p.now = p.now.Add(3 * time.Second)
	p.on(Answered{Server: s1})
	p.wakes(27*time.Second, Heartbeat{s1, "e1"}) // an interval after the last was sent
}

func TestHeartbeatsAreJittered(t *testing.T) {
	for u, want := range map[float64]time.Duration{0: 27 * time.Second, 0.5: 30 * time.Second, 0.75: 31500 * time.Millisecond} {
		p := atPrimary(t)
		p.wakes(15*time.Second, Heartbeat{s1, "e1"})
		p.u = u
		p.on(Answered{Server: s1})
		p.wakes(want, Heartbeat{s1, "e1"})
	}
}

func TestALateAnswerIsFollowedByTheNextHeartbeat(t *testing.T) {
	p := atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	p.now = p.now.Add(40 * time.Second)
	p.on(Answered{Server: s1}, Heartbeat{s1, "e1"})
}

func TestRegistersWithoutAList(t *testing.T) {
	p := newPlay(t, List{})
	p.wakes(2500*time.Millisecond, Register{reg})
	p.on(Answered{Server: reg, List: three}, Save{three}, Leave{reg})
	p.wakes(600*time.Millisecond, Heartbeat{s1, "e1"})
	p.on(Answered{Server: s1})
	p.working(s1, true)
}

func TestEndpointsAreTriedInRandomOrderAndOnce(t *testing.T) {
	first := map[string]int{}
	for u := 0.0; u < 1; u += 0.01 {
		p := newPlay(t, List{}, "a", "b", "a", "c")
		p.u = u
		p.d = NewDirect(p.d.cfg, List{}, p.now, p.random)
		p.u = 0.5
		seen := map[string]bool{}
		for range 3 {
			p.now = p.d.WakeAt()
			p.d, p.did = p.d.On(Tick{}, p.now, p.random)
			to := p.did[0].(Register).Server
			if len(seen) == 0 {
				first[to.Endpoint]++
			}
			seen[to.Endpoint] = true
			p.on(Failed{Server: to}, Leave{to})
		}
		if len(seen) != 3 || p.d.Status().FailedPasses != 1 {
			t.Fatalf("tried %v in %d passes", seen, p.d.Status().FailedPasses)
		}
	}
	if len(first) != 3 {
		t.Fatalf("only these came first: %v", first)
	}
}

func TestAnEmptyListIsIgnored(t *testing.T) {
	p := newPlay(t, List{})
	p.wakes(2500*time.Millisecond, Register{reg})
	p.on(Answered{Server: reg, List: List{Etag: "e9"}}, Leave{reg})
	if p.d.Status().FailedPasses != 1 {
		t.Fatal("a registration without a list leads nowhere, and so has failed")
	}
	p = atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	p.on(Answered{Server: s1, List: List{Etag: "e2", Servers: []Server{{Name: "nowhere"}}}})
	if !p.d.List().Equal(three) {
		t.Fatalf("holds %v", p.d.List())
	}
}

func TestAFailedHeartbeatGoesToTheNextServer(t *testing.T) {
	for u, want := range map[float64]time.Duration{0: 0, 0.5: 2500 * time.Millisecond, 0.9: 4500 * time.Millisecond} {
		p := atPrimary(t)
		p.wakes(15*time.Second, Heartbeat{s1, "e1"})
		p.u = u
		if u == 0 {
			p.on(Failed{Server: s1}, Leave{s1}, Heartbeat{s2, "e1"})
			continue
		}
		p.on(Failed{Server: s1}, Leave{s1})
		p.wakes(want, Heartbeat{s2, "e1"})
	}
}

func TestABrokenConnectionIsAFailure(t *testing.T) {
	p := atPrimary(t)
	p.on(Failed{Server: s2}) // not worked with
	p.on(Failed{Server: s1}, Leave{s1})
	p.wakes(2500*time.Millisecond, Heartbeat{s2, "e1"})
	p.on(Failed{Server: s1}) // told twice
	p.on(Answered{Server: s2})
	p.working(s2, false)
}

func TestAPassTriesAllInOrderThenBacksOff(t *testing.T) {
	p := atSecondary(t)
	p.wakes(15*time.Second, Heartbeat{s2, "e1"})
	p.on(Failed{Server: s2}, Leave{s2})
	p.wakes(2500*time.Millisecond, Heartbeat{s3, "e1"}) // on from where it was
	p.on(Failed{Server: s3}, Leave{s3})
	p.wakes(600*time.Millisecond, Heartbeat{s1, "e1"}) // and round
	p.on(Failed{Server: s1}, Leave{s1})
	p.wakes(600*time.Millisecond, Register{reg})
	p.on(Failed{Server: reg}, Leave{reg})
	for pass := 1; pass <= 8; pass++ {
		limit := min(5*time.Second<<(pass-1), time.Minute)
		p.wakes(limit/2, Heartbeat{s1, "e1"}) // from the top
		gap := min(time.Second<<pass, 30*time.Second) * 6 / 10
		for _, s := range []Server{s1, s2, s3} {
			p.on(Failed{Server: s}, Leave{s})
			if s != s3 {
				p.wakes(gap, Heartbeat{map[Server]Server{s1: s2, s2: s3}[s], "e1"})
			}
		}
		p.wakes(gap, Register{reg})
		p.on(Failed{Server: reg}, Leave{reg})
		if got := p.d.Status().FailedPasses; got != pass+1 {
			t.Fatalf("%d passes failed, want %d", got, pass+1)
		}
	}
	p.wakes(30*time.Second, Heartbeat{s1, "e1"})
	p.on(Answered{Server: s1})
	if p.d.Status().FailedPasses != 0 {
		t.Fatal("an answered heartbeat ends the outage")
	}
}

func TestRegisteringEndsNoOutage(t *testing.T) {
	p := newPlay(t, listOf("e1", "s1"))
	p.wakes(2500*time.Millisecond, Heartbeat{s1, "e1"})
	for pass := 1; pass <= 3; pass++ {
		p.on(Failed{Server: s1}, Leave{s1})
		p.wakes(600*time.Millisecond<<(pass-1), Register{reg})
		p.on(Answered{Server: reg, List: listOf("e1", "s1")}, Leave{reg})
		p.wakes(600*time.Millisecond<<pass, Heartbeat{s1, "e1"})
	}
}

func TestAnEndpointOfTheListIsNotTriedTwice(t *testing.T) {
	p := newPlay(t, listOf("e1", "s1"), s1.Endpoint)
	p.wakes(2500*time.Millisecond, Heartbeat{s1, "e1"})
	p.on(Failed{Server: s1}, Leave{s1})
	p.wakes(2500*time.Millisecond, Heartbeat{s1, "e1"}) // half of the backoff
}

func TestBusyIsNotDown(t *testing.T) {
	p := atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	p.on(Failed{Server: s1, Why: Busy, RetryAfter: 8 * time.Second})
	p.working(s1, true)
	p.wakes(9*time.Second, Heartbeat{s1, "e1"})
	p.on(Failed{Server: s1, Why: Busy})
	p.wakes(5625*time.Millisecond, Heartbeat{s1, "e1"}) // it named no delay
	p.on(Failed{Server: s1, Why: Busy, RetryAfter: 8 * time.Second}, Leave{s1})
	p.wakes(600*time.Millisecond, Heartbeat{s2, "e1"})
	p.on(Failed{Server: s2, Why: Busy, RetryAfter: time.Hour})
	p.wakes(67500*time.Millisecond, Heartbeat{s2, "e1"}) // no delay counts for longer than the backoff
	p.on(Answered{Server: s2})
	p.working(s2, false)
}

func TestOnlyBusyAnswersInARowCount(t *testing.T) {
	p := atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	for range 3 {
		p.on(Failed{Server: s1, Why: Busy, RetryAfter: 8 * time.Second})
		p.wakes(9*time.Second, Heartbeat{s1, "e1"})
		p.on(Failed{Server: s1, Why: Busy, RetryAfter: 8 * time.Second})
		p.wakes(9*time.Second, Heartbeat{s1, "e1"})
		p.on(Answered{Server: s1})
		p.wakes(30*time.Second, Heartbeat{s1, "e1"})
	}
}

func TestAnotherAnswerBetweenBusyOnesBeginsTheRowAnew(t *testing.T) {
	for _, other := range []Event{Failed{Server: s1, Why: Refused, Detail: "no"}, Failed{Server: s1, Why: Unregistered}} {
		p := atPrimary(t)
		call := func() {
			p.now = p.d.WakeAt()
			p.d, p.did = p.d.On(Tick{}, p.now, p.random)
		}
		twiceBusy := func(next Event) {
			t.Helper()
			for range 2 {
				call()
				p.on(Failed{Server: s1, Why: Busy, RetryAfter: 8 * time.Second}) // and nothing is done
			}
			call()
			p.d, p.did = p.d.On(next, p.now, p.random)
		}
		twiceBusy(other)
		twiceBusy(Answered{Server: s1, List: three}) // to a registration, in the second story
		twiceBusy(Answered{Server: s1})
	}
}

func TestDrainingSendsOnAtOnce(t *testing.T) {
	p := atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	p.on(Failed{Server: s1, Why: Draining}, Leave{s1})
	p.wakes(600*time.Millisecond, Heartbeat{s2, "e1"})
	p.on(Answered{Server: s2, Draining: true}, Leave{s2}) // took it, though
	p.wakes(600*time.Millisecond, Heartbeat{s3, "e1"})
	p.on(Answered{Server: s3})
	p.working(s3, false)
}

func TestAllDrainingIsNoStorm(t *testing.T) {
	p := newPlay(t, listOf("e1", "s1", "s2"), s1.Endpoint)
	p.wakes(2500*time.Millisecond, Heartbeat{s1, "e1"})
	for range 5 {
		p.on(Answered{Server: s1, Draining: true}, Leave{s1})
		p.now = p.d.WakeAt()
		p.on(Tick{}, Heartbeat{s2, "e1"})
		p.on(Answered{Server: s2, Draining: true}, Leave{s2})
		p.wakes(30*time.Second, Heartbeat{s1, "e1"})
	}
}

func TestADrainingServerMaySendANewList(t *testing.T) {
	p := atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	next := listOf("e2", "s3", "s2")
	p.on(Answered{Server: s1, List: next, Draining: true}, Save{next}, Leave{s1})
	p.wakes(2500*time.Millisecond, Heartbeat{s3, "e2"})

	p = atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	next = listOf("e2", "s3", "s1", "s2")
	p.on(Answered{Server: s1, List: next, Draining: true}, Save{next}, Leave{s1})
	p.wakes(600*time.Millisecond, Heartbeat{s2, "e2"})
}

func TestRefusalIsShownAndNotRepeatedQuickly(t *testing.T) {
	p := atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	p.on(Failed{Server: s1, Why: Refused, Detail: "another machine has this name"}, Report{s1, "another machine has this name"})
	if got := p.d.Status(); got.Refusal == "" || got.Server != (Server{}) {
		t.Fatalf("status %+v", got)
	}
	p.wakes(5*time.Minute, Heartbeat{s1, "e1"})
	p.on(Failed{Server: s1, Why: Refused, Detail: "another machine has this name"})
	p.wakes(5*time.Minute, Heartbeat{s1, "e1"})
	p.on(Failed{Server: s1, Why: Refused}, Report{s1, refusalOf(Failed{})})
	p.wakes(5*time.Minute, Heartbeat{s1, "e1"})
	p.on(Answered{Server: s1})
	p.working(s1, true)
	if p.d.Status().Refusal != "" {
		t.Fatal("nothing is refused any more")
	}
}

func TestRefusedRegistration(t *testing.T) {
	p := newPlay(t, List{}, "a", "b")
	p.now = p.d.WakeAt()
	p.d, p.did = p.d.On(Tick{}, p.now, p.random)
	to := p.did[0].(Register).Server
	p.on(Failed{Server: to, Why: Refused, Detail: "wrong enrolment key"}, Report{to, "wrong enrolment key"})
	p.wakes(5*time.Minute, Register{to})
}

func TestAnUnknownAgentRegistersWhereItIs(t *testing.T) {
	p := atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	p.on(Failed{Server: s1, Why: Unregistered})
	p.wakes(600*time.Millisecond, Register{s1})
	p.on(Answered{Server: s1, List: three})
	p.wakes(600*time.Millisecond, Heartbeat{s1, "e1"})
	p.on(Failed{Server: s1, Why: Unregistered}, Leave{s1}) // it contradicts itself
	p.wakes(600*time.Millisecond, Heartbeat{s2, "e1"})
	p.on(Answered{Server: s2})
	p.wakes(15*time.Second, Heartbeat{s2, "e1"})
	p.on(Failed{Server: s2, Why: Unregistered})
	p.wakes(600*time.Millisecond, Register{s2})
	next := listOf("e2", "s3", "s2")
	p.on(Answered{Server: s2, List: next}, Save{next}, Leave{s2})
	p.wakes(600*time.Millisecond, Heartbeat{s3, "e2"})
}

func TestWhatNobodyAskedForChangesNothing(t *testing.T) {
	p := atPrimary(t)
	p.on(Answered{Server: s1, List: listOf("e2", "s2")})
	p.on(Answered{Server: s2})
	p.on(Probed{Server: s1, Good: true})
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	p.on(Answered{Server: s2, List: listOf("e2", "s2")})
	p.on(Failed{Server: s2})
	if !p.d.WakeAt().IsZero() {
		t.Fatal("only the outcome of the heartbeat leads on")
	}
	p.on(Answered{Server: s1})
	p.working(s1, true)
}

func TestANewEtagAloneIsANewList(t *testing.T) {
	p := atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	next := listOf("e2", "s1", "s2", "s3")
	p.on(Answered{Server: s1, List: next}, Save{next})
	p.wakes(30*time.Second, Heartbeat{s1, "e2"})
}

func TestADrainingServerEndsNoOutage(t *testing.T) {
	p := newPlay(t, listOf("e1", "s1"))
	p.wakes(2500*time.Millisecond, Heartbeat{s1, "e1"})
	p.on(Failed{Server: s1}, Leave{s1})
	p.wakes(600*time.Millisecond, Register{reg})
	p.on(Failed{Server: reg}, Leave{reg})
	p.wakes(2500*time.Millisecond, Heartbeat{s1, "e1"})
	p.on(Answered{Server: s1, List: listOf("e2", "s1", "s2"), Draining: true}, Save{listOf("e2", "s1", "s2")}, Leave{s1})
	p.wakes(1200*time.Millisecond, Heartbeat{s2, "e2"})
}
