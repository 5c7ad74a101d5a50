package storm

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/commandcenter/fleet/agent/internal/failover"
)

const (
	roundTrip   = 10 * time.Millisecond // the longest
	callTimeout = 5 * time.Second
	settling    = 90 * time.Second // three heartbeat intervals, before anything fails
)

// epoch is the instant 0 of virtual time.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// server is a control server.
type server struct {
	connects, attempts, calls, probes meter
	admitted                          meter // from the start on, for the bound
	fails, staysAway                  bool
}

// agent is one agent and what it has open.
type agent struct {
	machine failover.Direct
	list    failover.List
	wakeAt  time.Time
	open    []int // servers that it is connected to
	heardAt time.Duration
	moved   bool
	backAt  time.Duration // when it was first heard since the servers failed
}

type simulation struct {
	Scenario
	random  *rand.Rand
	servers []server
	index   map[string]int // of endpoints
	agents  []agent
	agenda  agenda
	now     time.Duration
	figures Figures
}

// Run a scenario. Errors are those of the scenario, naming the fields.
func Run(scenario Scenario) (Figures, error) {
	scenario = scenario.withDefaults()
	if err := scenario.validate(); err != nil {
		return Figures{}, err
	}
	s := newSimulation(scenario)
	for e, ok := s.agenda.until(s.end()); ok; e, ok = s.agenda.until(s.end()) {
		s.now = e.at
		s.happens(e)
	}
	return s.summary(), nil
}

func newSimulation(scenario Scenario) *simulation {
	s := &simulation{
		Scenario: scenario, random: rand.New(rand.NewPCG(scenario.Seed, 1)), index: map[string]int{},
		servers: make([]server, scenario.Servers), agents: make([]agent, scenario.Agents),
	}
	lists := listMaker{spread: s.Spread, random: s.random, made: map[[2]int]failover.List{}}
	for i := range s.servers {
		s.servers[i].fails, s.servers[i].staysAway = i < s.Failing, i < s.Failing && i >= s.Failing-s.StayAway
		lists.servers = append(lists.servers, serverAt(i))
		s.index[lists.servers[i].Endpoint] = i
	}
	cfg := s.config()
	for i := range s.agents {
		a := &s.agents[i]
		a.list = lists.list(i)
		a.list.LongestPause = s.LongestPause
		a.machine = failover.NewDirect(cfg, a.list, epoch, s.random.Float64)
		s.schedule(i)
		if s.Fault == Killed && s.index[a.list.Servers[0].Endpoint] < s.Failing {
			s.agenda.add(settling, i, failover.Failed{Server: a.list.Servers[0]})
		}
	}
	return s
}

// from is when what is measured begins.
func (s *simulation) from() time.Duration {
	if s.Recovery {
		return settling + s.Outage
	}
	return settling
}

func (s *simulation) end() time.Duration { return s.from() + s.Watch }

func (s *simulation) measured() bool { return s.now >= s.from() }

// out reports whether a server has failed, and is not back.
func (s *simulation) out(of *server) bool {
	return of.fails && s.now >= settling && (of.staysAway || s.Outage == 0 || s.now < settling+s.Outage)
}

func (s *simulation) happens(e entry) {
	a := &s.agents[e.agent]
	if _, tick := e.event.(failover.Tick); tick && epoch.Add(s.now).Before(a.wakeAt) {
		return // it was put off
	} else if tick {
		a.wakeAt = time.Time{}
	}
	s.note(e.agent, e.event)
	var actions []failover.Action
	a.machine, actions = a.machine.On(e.event, epoch.Add(s.now), s.random.Float64)
	for _, action := range actions {
		s.perform(e.agent, action)
	}
	s.schedule(e.agent)
}

// note what an agent learns.
func (s *simulation) note(i int, event failover.Event) {
	a := &s.agents[i]
	answer, ok := event.(failover.Answered)
	if !ok || answer.Server.Endpoint == registration {
		return
	}
	if s.measured() {
		s.figures.LongestSilence = max(s.figures.LongestSilence, s.now-a.heardAt)
		if a.backAt == 0 {
			a.backAt = s.now
		}
	}
	a.heardAt = s.now
	if s.Heard != nil {
		s.Heard(i, s.now)
	}
}

// schedule the next Tick of an agent, if it is not on the agenda.
func (s *simulation) schedule(i int) {
	a := &s.agents[i]
	at := a.machine.WakeAt()
	if at.IsZero() || at.Equal(a.wakeAt) {
		return
	}
	a.wakeAt = at
	s.agenda.add(max(s.now, at.Sub(epoch)), i, failover.Tick{})
}

func (s *simulation) perform(i int, action failover.Action) {
	switch action := action.(type) {
	case failover.Heartbeat:
		s.call(i, failover.Answered{Server: action.Server}, s.index[action.Server.Endpoint])
	case failover.Register:
		s.call(i, failover.Answered{Server: action.Server, List: s.agents[i].list}, s.random.IntN(s.Servers))
	case failover.Probe:
		s.probe(i, action.Server)
	case failover.Leave:
		if left, ok := s.index[action.Server.Endpoint]; ok {
			s.agents[i].disconnect(left)
		}
	}
}

// call server j and put its answer on the agenda, which is that one if all goes well.
func (s *simulation) call(i int, hoped failover.Answered, j int) {
	target, a := &s.servers[j], &s.agents[i]
	failed, register := s.out(target), hoped.Server.Endpoint == registration
	answer := func(after time.Duration, e failover.Event) { s.agenda.add(s.now+after, i, e) }
	if failed && s.Fault <= Unreachable {
		a.disconnect(j)
		answer(s.failsAfter(), failover.Failed{Server: hoped.Server})
		return
	}
	connected := !register && slices.Contains(a.open, j)
	admitted := connected || s.AdmitPerSecond == 0 || target.admitted.within(s.now) < s.AdmitPerSecond
	if s.measured() {
		target.measure(s.now, connected, admitted)
	}
	if !admitted {
		retry := s.between(2*time.Second, 10*time.Second)
		answer(s.travel(), failover.Failed{Server: hoped.Server, Why: failover.Busy, RetryAfter: retry})
		return
	}
	if !connected {
		target.admitted.count(s.now)
	}
	if !connected && !register {
		a.open = append(a.open, j)
	}
	if failed && s.Fault == Deferring {
		retry := s.between(s.HeartbeatInterval/2, s.HeartbeatInterval)
		answer(s.travel(), failover.Failed{Server: hoped.Server, Why: failover.Busy, RetryAfter: retry})
		return
	}
	if failed {
		answer(s.travel(), failover.Failed{Server: hoped.Server})
		return
	}
	if s.now < settling {
		a.moved = target.fails
	}
	answer(s.travel(), hoped)
}

func (a *agent) disconnect(from int) {
	a.open = slices.DeleteFunc(a.open, func(j int) bool { return j == from })
}

func (t *server) measure(now time.Duration, connected, admitted bool) {
	t.calls.count(now)
	if !connected {
		t.attempts.count(now)
	}
	if !connected && admitted {
		t.connects.count(now)
	}
}

func (s *simulation) probe(i int, to failover.Server) {
	target := &s.servers[s.index[to.Endpoint]]
	if s.measured() {
		target.probes.count(s.now)
	}
	after, good := s.travel(), !s.out(target)
	if !good && s.Fault <= Unreachable {
		after = s.failsAfter()
	}
	s.agenda.add(s.now+after, i, failover.Probed{Server: to, Good: good})
}

// travel is the time that a call and its answer take.
func (s *simulation) travel() time.Duration { return s.between(time.Millisecond, roundTrip) }

func (s *simulation) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Float64()*float64(most-least))
}

// failsAfter is the time that it takes to see that nobody is there.
func (s *simulation) failsAfter() time.Duration {
	if s.Fault == Unreachable {
		return callTimeout
	}
	return s.travel()
}

func (s *simulation) summary() Figures {
	f := s.figures
	calls := 0
	for i := range s.servers {
		t := &s.servers[i]
		f.PeakConnects = max(f.PeakConnects, t.connects.peak)
		f.PeakAttempts = max(f.PeakAttempts, t.attempts.peak)
		f.PeakCalls = max(f.PeakCalls, t.calls.peak)
		f.PeakProbes = max(f.PeakProbes, t.probes.peak)
		if t.fails {
			f.PeakReturns = max(f.PeakReturns, t.connects.peak)
		}
		calls += t.calls.total
	}
	f.CallsPerSecond = float64(calls) / float64(s.Servers) / s.Watch.Seconds()
	for i := range s.agents {
		a := &s.agents[i]
		if a.machine.Status().Primary {
			f.Home++
		}
		if !a.moved {
			continue
		}
		f.Moved++
		if a.backAt == 0 {
			f.Lost++
			continue
		}
		f.AllBack = max(f.AllBack, a.backAt-s.from())
	}
	return f
}
