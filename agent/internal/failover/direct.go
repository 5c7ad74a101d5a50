package failover

import "time"

// Direct is the state of an agent that is heard by control servers. It is a value: On gives a new one, and leaves the old one as
// it was.
type Direct struct {
	cfg  Config
	list List

	search  search
	working bool      // the target of the search answers heartbeats
	call    call      // under way
	callAt  time.Time // when the next is due, while none is under way
	home    home

	enrol    bool   // the target has to be registered with before it takes a heartbeat
	enrolled bool   // registered since a heartbeat was last answered
	refusal  string // what people were told last; empty: nothing is wrong
}

// call is a Register or Heartbeat under way; the zero value is none.
type call struct {
	server    Server
	register  bool
	endpoint  bool      // to a registration endpoint
	returning bool      // to the primary, while another server is worked with
	at        time.Time // when it began
}

func (c call) underWay() bool { return c.server != Server{} }

// NewDirect starts an agent with the list that was found on disk, if any. Its first call comes within FailoverGrace, so that a
// fleet that starts together does not come together.
func NewDirect(cfg Config, list List, now time.Time, random Random) Direct {
	list = list.Clean()
	return Direct{
		cfg: cfg, list: list, search: fromTop(list, cfg, 0, random),
		callAt: now.Add(random.between(0, cfg.under(list.LongestPause).FailoverGrace)),
	}
}

// On takes one event at its instant, and gives the agent's new state and what is to be done now.
func (d Direct) On(e Event, now time.Time, random Random) (Direct, []Action) {
	t := turn{Direct: d, now: now, random: random}
	switch e := e.(type) {
	case Answered:
		t.answered(e)
	case Failed:
		t.failed(e)
	case Probed:
		t.probed(e)
	case Tick:
	}
	t.aim()
	t.due()
	return t.Direct, t.actions
}

// WakeAt is when a Tick is due. Zero: only the outcome of what is under way leads on.
func (d Direct) WakeAt() time.Time {
	var at time.Time
	if !d.call.underWay() {
		at = earliest(d.callAt, d.home.returnAt)
	}
	return earliest(at, d.home.wakeAt())
}

// Status of an agent, for people.
type Status struct {
	// Server that is worked with; zero: none, the agent looks for one.
	Server Server
	// Primary: it is the first of the list.
	Primary bool
	// FailedPasses is how often in a row all servers and endpoints failed.
	FailedPasses int
	// Refusal is why the control plane does not want the agent; empty: it was not refused.
	Refusal string
}

// Status of the agent.
func (d Direct) Status() Status {
	s := Status{FailedPasses: d.search.passes, Refusal: d.refusal}
	if d.working {
		s.Server = d.present()
		s.Primary = s.Server == d.list.Servers[0]
	}
	return s
}

// List that is held.
func (d Direct) List() List { return d.list }

// present is whom the agent works with, or calls to find out.
func (d Direct) present() Server {
	s, _ := d.search.target(d.list)
	return s
}

// earliest of two instants, of which zero ones don't count.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
