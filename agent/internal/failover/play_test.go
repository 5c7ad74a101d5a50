package failover

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func named(name string) Server { return Server{Name: name, Endpoint: name + ":443"} }

func listOf(etag string, names ...string) List {
	l := List{Etag: etag}
	for _, n := range names {
		l.Servers = append(l.Servers, named(n))
	}
	return l
}

// reg is the registration endpoint that most tests configure.
var reg = Server{Endpoint: "register:443"}

// play is one agent on its way through a story. Every random number is u.
type play struct {
	testing.TB
	d   Direct
	now time.Time
	u   float64
	did []Action
}

func newPlay(t testing.TB, list List, registration ...string) *play {
	t.Helper()
	if registration == nil {
		registration = []string{reg.Endpoint}
	}
	p := &play{TB: t, now: start, u: 0.5}
	cfg := DefaultConfig(registration...)
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	p.d = NewDirect(cfg, list, p.now, p.random)
	return p
}

func (p *play) random() float64 { return p.u }

// on takes an event and expects these actions.
func (p *play) on(e Event, want ...Action) {
	p.Helper()
	p.d, p.did = p.d.On(e, p.now, p.random)
	if len(want) == 0 && len(p.did) == 0 {
		return
	}
	if !reflect.DeepEqual(p.did, want) {
		p.Fatalf("%T %+v\n got %s\nwant %s", e, e, show(p.did), show(want))
	}
}

func show(actions []Action) (s string) {
	for _, a := range actions {
		s += fmt.Sprintf("%T%+v ", a, a)
	}
	return s
}

// wakes after that long, not before, and then does what is wanted.
func (p *play) wakes(after time.Duration, want ...Action) {
	p.Helper()
	if got := p.d.WakeAt().Sub(p.now); got != after {
		p.Fatalf("wakes after %v, want %v", got, after)
	}
	p.now = p.now.Add(after - 1)
	p.on(Tick{})
	p.now = p.now.Add(1)
	p.on(Tick{}, want...)
}

func (p *play) working(s Server, primary bool) {
	p.Helper()
	if got := p.d.Status(); got.Server != s || got.Primary != primary {
		p.Fatalf("works with %+v, want %+v, primary %v", got, s, primary)
	}
}

var (
	s1, s2, s3 = named("s1"), named("s2"), named("s3")
	three      = listOf("e1", "s1", "s2", "s3")
)

// atPrimary is an agent whose first heartbeat its primary has answered; the next is due in 15 s.
func atPrimary(t testing.TB) *play {
	t.Helper()
	p := newPlay(t, three)
	p.wakes(2500*time.Millisecond, Heartbeat{s1, "e1"})
	p.on(Answered{Server: s1})
	p.working(s1, true)
	return p
}

// atSecondary is an agent whose primary failed; it probes that in 60 s, and its next heartbeat is due in 15 s.
func atSecondary(t testing.TB) *play {
	t.Helper()
	p := atPrimary(t)
	p.wakes(15*time.Second, Heartbeat{s1, "e1"})
	p.on(Failed{Server: s1}, Leave{s1})
	p.wakes(2500*time.Millisecond, Heartbeat{s2, "e1"})
	p.on(Answered{Server: s2})
	p.working(s2, false)
	return p
}

// beats lets time go on with answered heartbeats and probes of that outcome, and says after how long a heartbeat went to another server.
func (p *play) beats(s Server, good bool, atMost time.Duration) (to Server, after time.Duration) {
	p.Helper()
	for began := p.now; p.now.Sub(began) < atMost; {
		p.now = p.d.WakeAt()
		p.d, p.did = p.d.On(Tick{}, p.now, p.random)
		for len(p.did) > 0 {
			a := p.did[0]
			var outcome Event
			switch a := a.(type) {
			case Heartbeat:
				if a.Server != s {
					return a.Server, p.now.Sub(began)
				}
				outcome = Answered{Server: s}
			case Probe:
				outcome = Probed{Server: a.Server, Good: good}
			default:
				p.Fatalf("unexpected %s", show(p.did))
			}
			did := p.did[1:]
			p.d, p.did = p.d.On(outcome, p.now, p.random)
			p.did = append(did, p.did...)
		}
	}
	return Server{}, 0
}
