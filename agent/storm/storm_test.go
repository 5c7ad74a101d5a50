package storm

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/agent/internal/failover"
)

const oneAndAHalfBeats = 45 * time.Second

func run(t testing.TB, s Scenario) Figures {
	t.Helper()
	f, err := Run(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", f)
	return f
}

// back expects that at least so many agents moved, and that all of them were heard again soon.
func back(t testing.TB, f Figures, moved int) {
	t.Helper()
	if f.Moved < moved || f.Lost != 0 || f.AllBack > oneAndAHalfBeats {
		t.Errorf("%d moved, want at least %d; %d were lost; all were back after %v", f.Moved, moved, f.Lost, f.AllBack)
	}
}

func TestOneOfFiftyServersFails(t *testing.T) {
	f := run(t, Scenario{Seed: 1, Agents: 100_000, Servers: 50, Failing: 1, Fault: Killed, Watch: 50 * time.Second})
	back(t, f, 2000)
	if f.PeakConnects > 20 {
		t.Errorf("a survivor took %d connections within a second", f.PeakConnects)
	}
}

func TestOneOfTwentyServersFailsUnseen(t *testing.T) {
	for _, fault := range []Fault{Unnoticed, Unreachable} {
		f := run(t, Scenario{Seed: 1, Agents: 40_000, Servers: 20, Failing: 1, Fault: fault, Watch: 50 * time.Second})
		back(t, f, 2000)
		if f.PeakConnects > 20 {
			t.Errorf("fault %d: a survivor took %d connections within a second", fault, f.PeakConnects)
		}
	}
}

func TestRoundRobinListsLoadOneNeighbour(t *testing.T) {
	even := run(t, Scenario{Seed: 1, Agents: 20_000, Servers: 10, Failing: 1, Watch: time.Minute})
	robin := run(t, Scenario{Seed: 1, Agents: 20_000, Servers: 10, Failing: 1, Spread: RoundRobin, Watch: time.Minute})
	if robin.PeakConnects < 5*even.PeakConnects {
		t.Errorf("%d connections within a second, and %d with even lists", robin.PeakConnects, even.PeakConnects)
	}
}

func TestOneOfThreeServersFails(t *testing.T) {
	for _, limit := range []int{200, 60} { // by the second all are told to wait
		for _, fault := range []Fault{Killed, Unnoticed, Unreachable} {
			f := run(t, Scenario{Seed: 1, Agents: 5000, Servers: 3, Failing: 1, Fault: fault, AdmitPerSecond: limit, Watch: 2 * time.Minute})
			back(t, f, 1667)
			if f.PeakConnects > limit {
				t.Errorf("fault %d: a survivor took %d connections within a second, over its limit", fault, f.PeakConnects)
			}
			if limit == 60 && fault == Killed && f.PeakAttempts <= limit {
				t.Error("nobody was told that a server is busy")
			}
		}
	}
}

func TestAFullOutageEndsWithoutAHerd(t *testing.T) {
	s := Scenario{Seed: 1, Agents: 4000, Servers: 20, Failing: 20, Outage: 10 * time.Minute, Recovery: true, Watch: 6 * time.Minute}
	for _, fault := range []Fault{Killed, Unreachable} {
		s.Fault = fault
		f := run(t, s)
		back(t, f, 4000)
		if f.PeakConnects > 200/4 { // a quarter of a server's agents
			t.Errorf("fault %d: a server took %d connections within a second", fault, f.PeakConnects)
		}
	}
	s.Fault, s.Pace = Killed, Steady
	if f := run(t, s); f.AllBack < oneAndAHalfBeats {
		t.Error("steady pauses do as well, so that there is no reason to double them")
	}
}

func TestServersThatCanNotServeShouldSayThatTheyAreBusy(t *testing.T) {
	s := Scenario{Seed: 1, Agents: 4000, Servers: 20, Failing: 20, Fault: Unable, Outage: 10 * time.Minute, Watch: 10 * time.Minute}
	unable := run(t, s)
	s.Fault = Deferring
	deferring := run(t, s)
	if 5*deferring.PeakCalls > unable.PeakCalls || deferring.CallsPerSecond > unable.CallsPerSecond {
		t.Errorf("%d calls within a second, and %d from servers that defer", unable.PeakCalls, deferring.PeakCalls)
	}
	s.Recovery, s.Watch = true, time.Minute
	back(t, run(t, s), 4000)
}

func TestAgentsReturnSpreadOut(t *testing.T) {
	f := run(t, Scenario{
		Seed: 1, Agents: 20_000, Servers: 10, Failing: 1, Outage: 5 * time.Minute, Recovery: true, Watch: 6 * time.Minute, AdmitPerSecond: 200,
	})
	if f.Home != 20_000 || f.PeakReturns == 0 || f.PeakReturns > 50 || f.LongestSilence > oneAndAHalfBeats {
		t.Errorf("%d are home; %d returned within a second; one was silent for %v", f.Home, f.PeakReturns, f.LongestSilence)
	}
}

func TestTheSameSeedGivesTheSame(t *testing.T) {
	s := Scenario{Seed: 7, Agents: 1000, Servers: 5, Failing: 2, Outage: time.Minute, Watch: 5 * time.Minute, AdmitPerSecond: 10}
	first := run(t, s)
	if again := run(t, s); again != first {
		t.Fatal("it does not")
	}
	s.Seed = 8
	if other := run(t, s); other == first {
		t.Fatal("the seed does not matter")
	}
}

func TestI17_AScenarioIsRefusedByField(t *testing.T) {
	for field, spoil := range map[string]func(*Scenario){
		"Agents":            func(s *Scenario) { s.Agents = 0 },
		"Servers":           func(s *Scenario) { s.Servers = 1001 },
		"Failing":           func(s *Scenario) { s.Failing = 4 },
		"Watch":             func(s *Scenario) { s.Watch = 0 },
		"Outage":            func(s *Scenario) { s.Recovery = true },
		"AdmitPerSecond":    func(s *Scenario) { s.AdmitPerSecond = -1 },
		"HeartbeatInterval": func(s *Scenario) { s.HeartbeatInterval = time.Millisecond },
	} {
		s := Scenario{Agents: 3, Servers: 3, Watch: time.Minute}
		spoil(&s)
		if _, err := Run(s); err == nil || !strings.HasPrefix(err.Error(), "storm: "+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestListsAreIdeal(t *testing.T) {
	m := listMaker{random: rand.New(rand.NewPCG(1, 1)), made: map[[2]int]failover.List{}}
	for i := range 7 {
		m.servers = append(m.servers, serverAt(i))
	}
	primaries, seconds := map[failover.Server]int{}, map[[2]failover.Server]int{}
	for agent := range 1000 {
		servers := m.list(agent).Servers
		primaries[servers[0]]++
		seconds[[2]failover.Server{servers[0], servers[1]}]++
		for _, s := range m.servers {
			if !slices.Contains(servers, s) || len(servers) != 7 {
				t.Fatalf("%v is no permutation", servers)
			}
		}
	}
	if len(seconds) != 7*6 {
		t.Fatalf("%d pairs", len(seconds))
	}
	for pair, n := range seconds {
		if n < 1000/42 || n > 1000/42+1 || primaries[pair[0]] < 142 || primaries[pair[0]] > 143 {
			t.Errorf("%v: %d", pair, n)
		}
	}
}

func TestAMeterCountsAnySecond(t *testing.T) {
	m := meter{}
	for _, ms := range []int{0, 900, 1000, 1800, 1850, 1899, 1900, 5000} {
		m.count(time.Duration(ms) * time.Millisecond)
	}
	// From 900 to 1899 ms there were five; the one at 1900 ms comes as that at 900 ms goes.
	if m.peak != 5 || m.total != 8 || m.within(5999*time.Millisecond) != 1 || m.within(6*time.Second) != 0 {
		t.Errorf("peak %d, total %d", m.peak, m.total)
	}
}
