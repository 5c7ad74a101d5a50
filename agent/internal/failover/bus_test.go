package failover

import (
	"reflect"
	"testing"
	"time"
)

// busPlay is one bus agent on its way through a story. Every random number is a half.
type busPlay struct {
	testing.TB
	b   Bus
	now time.Time
}

func half() float64 { return 0.5 }

func newBusPlay(t testing.TB, list List) *busPlay {
	return &busPlay{TB: t, now: start, b: NewBus(DefaultConfig(reg.Endpoint), list, start, half)}
}

func (p *busPlay) on(e Event, want ...Action) {
	p.Helper()
	var did []Action
	if p.b, did = p.b.On(e, p.now, half); len(did)+len(want) > 0 && !reflect.DeepEqual(did, want) {
		p.Fatalf("%T %+v\n got %s\nwant %s", e, e, show(did), show(want))
	}
}

func (p *busPlay) wakes(after time.Duration, want ...Action) {
	p.Helper()
	if got := p.b.WakeAt().Sub(p.now); got != after {
		p.Fatalf("wakes after %v, want %v", got, after)
	}
	p.now = p.now.Add(after - 1)
	p.on(Tick{})
	p.now = p.now.Add(1)
	p.on(Tick{}, want...)
}

func TestABusAgentAsksAtStartAndEveryTenMinutes(t *testing.T) {
	p := newBusPlay(t, List{})
	p.wakes(2500*time.Millisecond, Ask{reg, ""})
	if !p.b.WakeAt().IsZero() {
		t.Fatal("only the answer leads on")
	}
	p.on(Answered{Server: reg, List: three}, Leave{reg}, Save{three})
	p.wakes(10*time.Minute, Ask{s1, "e1"})
	p.on(Answered{Server: s1, List: three}, Leave{s1})
	p.wakes(10*time.Minute, Ask{s1, "e1"})
	next := listOf("e2", "s3")
	p.on(Answered{Server: s1, List: next, Draining: true}, Leave{s1}, Save{next}) // a list is a list
	p.wakes(10*time.Minute, Ask{s3, "e2"})
	p.on(Answered{Server: s3, List: List{Etag: "e3"}}, Leave{s3})
	if !p.b.List().Equal(next) {
		t.Fatalf("holds %v", p.b.List())
	}
}

func TestABusAgentGoesThroughItsListThenTheEndpoints(t *testing.T) {
	p := newBusPlay(t, listOf("e1", "s1", "s2"))
	p.wakes(2500*time.Millisecond, Ask{s1, "e1"})
	p.on(Failed{Server: s1}, Leave{s1})
	p.wakes(600*time.Millisecond, Ask{s2, "e1"})
	p.on(Failed{Server: s2, Why: Draining}, Leave{s2})
	p.wakes(600*time.Millisecond, Ask{reg, "e1"})
	p.on(Failed{Server: reg}, Leave{reg})
	p.wakes(2500*time.Millisecond, Ask{s1, "e1"})
	if p.b.Status().FailedPasses != 1 {
		t.Fatalf("status %+v", p.b.Status())
	}
	p.on(Failed{Server: s1}, Leave{s1})
	p.wakes(1200*time.Millisecond, Ask{s2, "e1"})
	p.on(Answered{Server: s2}, Leave{s2})
	p.wakes(10*time.Minute, Ask{s1, "e1"}) // from the top
	p.on(Failed{Server: s1}, Leave{s1})
	p.wakes(2500*time.Millisecond, Ask{s2, "e1"}) // the first pause is longer, since a fleet may be here
	p.on(Failed{Server: s2}, Leave{s2})
	p.wakes(600*time.Millisecond, Ask{reg, "e1"})
}

func TestABusAgentIsPatientWithTheBusy(t *testing.T) {
	p := newBusPlay(t, three)
	p.wakes(2500*time.Millisecond, Ask{s1, "e1"})
	for range 2 {
		p.on(Failed{Server: s1, Why: Busy, RetryAfter: 8 * time.Second})
		p.wakes(9*time.Second, Ask{s1, "e1"})
	}
	p.on(Failed{Server: s1, Why: Unregistered}) // the row is broken
	p.wakes(5*time.Minute, Ask{s1, "e1"})
	for range 2 {
		p.on(Failed{Server: s1, Why: Busy, RetryAfter: 8 * time.Second})
		p.wakes(9*time.Second, Ask{s1, "e1"})
	}
	p.on(Failed{Server: s1, Why: Busy, RetryAfter: 8 * time.Second}, Leave{s1})
	p.wakes(600*time.Millisecond, Ask{s2, "e1"})
}

func TestABusAgentReportsARefusal(t *testing.T) {
	p := newBusPlay(t, three)
	p.wakes(2500*time.Millisecond, Ask{s1, "e1"})
	p.on(Failed{Server: s1, Why: Unregistered}) // its first heartbeat may still be on its way
	p.wakes(5*time.Minute, Ask{s1, "e1"})
	p.on(Failed{Server: s1, Why: Refused, Detail: "wrong token"}, Report{s1, "wrong token"})
	p.wakes(5*time.Minute, Ask{s1, "e1"})
	p.on(Failed{Server: s1, Why: Refused, Detail: "wrong token"})
	if p.b.Status().Refusal != "wrong token" {
		t.Fatalf("status %+v", p.b.Status())
	}
	p.wakes(5*time.Minute, Ask{s1, "e1"})
	p.on(Answered{Server: s1}, Leave{s1})
	if p.b.Status().Refusal != "" {
		t.Fatalf("status %+v", p.b.Status())
	}
}

func TestABusAgentIgnoresWhatItDidNotAskFor(t *testing.T) {
	p := newBusPlay(t, three)
	p.on(Answered{Server: s1, List: listOf("e2", "s2")})
	p.on(Answered{List: listOf("e2", "s2")})
	p.on(Failed{Server: s1})
	p.wakes(2500*time.Millisecond, Ask{s1, "e1"})
	p.on(Answered{Server: s2, List: listOf("e2", "s2")})
	p.on(Probed{Server: s1})
	p.on(Answered{Server: s1}, Leave{s1})
}
