package sweep

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/commandcenter/fleet/services/availability/internal/probe"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

// model is the reference: what happened as it happened, and the rules in their plainest form. It knows neither leases nor
// transactions; the real thing is two replicas on a real database, with failures.
type model struct {
	w       *world
	jobs    [2]*Job
	holder  int
	holds   bool // the holder has taken the lease, and not lost it since
	servers []*modelServer
	deaf    bool
	healthy time.Time // since when the ingest has been
	mass    int       // sweeps in a row that saw a mass and were proven, the first not counted; -1: no mass
	rows    int
}

type modelServer struct {
	key                 int64
	online, maintenance bool
	heardAt             time.Time // zero: only probed
	rounds              [verdict.ProbeRounds]verdict.Outcome
}

func newModel(t *rapid.T, tb testing.TB) *model {
	heard, probed := rapid.IntRange(1, 12).Draw(t, "heard"), rapid.IntRange(0, 3).Draw(t, "probed")
	m := &model{w: newWorld(tb, heard+probed), healthy: epoch.Add(-time.Hour), mass: -1}
	for key := int64(1); key <= int64(heard+probed); key++ {
		s := &modelServer{key: key, online: true, heardAt: epoch}
		if key > int64(heard) {
			s.heardAt = time.Time{}
			row := m.w.registry.servers[key]
			row.LastBusHeartbeatAt, row.HttpBaseUrl = nil, "http://bm.example.test"
		}
		m.servers = append(m.servers, s)
	}
	for i := range m.jobs {
		m.jobs[i] = m.w.replica(string(rune('a' + i)))
	}
	return m
}

func (m *model) some(t *rapid.T) []*modelServer {
	from := rapid.IntRange(0, len(m.servers)-1).Draw(t, "from")
	return m.servers[from : rapid.IntRange(from, len(m.servers)-1).Draw(t, "to")+1]
}

// heartbeats come from some agents, late and in any order: the registry keeps the newest. What comes while the ingest is down waits for it, and is
// not modelled.
func (m *model) heartbeats(t *rapid.T) {
	at := m.w.registry.now.Add(-time.Duration(rapid.IntRange(0, 40).Draw(t, "late")) * time.Second)
	for _, s := range m.some(t) {
		if !m.deaf && !s.heardAt.IsZero() && at.After(s.heardAt) {
			s.heardAt = at
			m.w.registry.servers[s.key].LastBusHeartbeatAt = timestamppb.New(at)
		}
	}
}

// probes are one round of the holder; who does not hold the lease probes nobody, or in vain.
func (m *model) probes(t *rapid.T) {
	if !m.holds {
		return
	}
	term := m.jobs[m.holder].term
	round := probe.Round{}
	for _, s := range m.servers {
		if !s.heardAt.IsZero() {
			continue
		}
		outcome := rapid.SampledFrom([]verdict.Outcome{verdict.Unfinished, verdict.Succeeded, verdict.Failed}).Draw(t, "probe")
		copy(s.rounds[1:], s.rounds[:])
		s.rounds[0] = outcome
		round[probe.Target{ServerKey: s.key, Agent: nameOf(s.key - 1), BaseURL: "http://bm.example.test"}.Subject()] = verdict.Probe{Outcome: outcome}
	}
	term.rounds.Add(round)
}

func (m *model) maintenance(t *rapid.T) {
	s := m.servers[rapid.IntRange(0, len(m.servers)-1).Draw(t, "server")]
	s.maintenance = !s.maintenance
	m.w.exec(`INSERT INTO TblMaintenanceSwitch (ServerKey, IsOn, Reason, ChangedBy, ChangedAt, Version) VALUES (?, ?, 'x', 'x', '2026-01-01T00:00:00.000Z', 1)
		ON CONFLICT (ServerKey) DO UPDATE SET IsOn = excluded.IsOn`, s.key, s.maintenance)
}

func (m *model) ingest(*rapid.T) {
	m.deaf = !m.deaf
	m.healthy = m.w.registry.now
}

func (m *model) registry(*rapid.T) {
	if m.w.registry.err == nil {
		m.w.registry.err = errors.New("unreachable")
	} else {
		m.w.registry.err = nil
	}
}

// leaseLost lets the other replica take over, which has seen no probe.
func (m *model) leaseLost(*rapid.T) {
	m.w.expire()
	m.holder, m.holds = 1-m.holder, false
	m.forgetProbes()
}

// restart is a new process in the place of the holder, whose lease has to run out first.
func (m *model) restart(*rapid.T) {
	m.w.expire()
	m.jobs[m.holder], m.holds = m.w.replica("restarted"), false
	m.forgetProbes()
}

func (m *model) forgetProbes() {
	for _, s := range m.servers {
		s.rounds = [verdict.ProbeRounds]verdict.Outcome{}
	}
}

func (m *model) advance() {
	r := m.w.registry
	r.now = r.now.Add(limits.SweepInterval)
	if m.deaf {
		r.healthySince = time.Time{}
	} else {
		r.reportedAt, r.heardAt, r.healthySince = r.now, r.now, m.healthy // agents without a server are heard too
	}
}

func (m *model) sweep(t *rapid.T) {
	m.advance()
	if err := m.jobs[m.holder].Step(context.Background()); err != nil {
		t.Fatal(err)
	}
	m.holds = true
	m.decide()
	m.agree(t)
}

// failingSweep is one whose write fails, or whose write succeeds and fails to say so.
func (m *model) failingSweep(t *rapid.T) {
	written := rapid.Bool().Draw(t, "written")
	fault, called := m.jobs[m.holder].Store.(*database), false
	fail := func() error { called = true; return errDatabase }
	if fault.before = fail; written {
		fault.before, fault.after = nil, fail
	}
	m.advance()
	err := m.jobs[m.holder].Step(context.Background())
	m.holds = true
	fault.before, fault.after = nil, nil
	if called != (err != nil) {
		t.Fatalf("called %v, %v", called, err)
	}
	if written || !called {
		m.decide()
	}
	m.agree(t)
}

// decide is the sweep as the rules have it.
func (m *model) decide() {
	held := m.held()
	for _, s := range m.servers {
		next := m.expect(s, held)
		if s.online && !next {
			m.rows++
		}
		s.online = next
	}
}

func (m *model) held() bool {
	blind := m.deaf || m.w.registry.now.Sub(m.healthy) < limits.MaxAge
	online, silent := 0, 0
	for _, s := range m.servers {
		if s.online && !s.maintenance && !s.heardAt.IsZero() {
			online++
			if m.w.registry.now.Sub(s.heardAt) >= limits.MaxAge/2 {
				silent++
			}
		}
	}
	mass := silent >= 5 && silent > online/2
	switch {
	case m.w.registry.err != nil:
		m.mass = min(m.mass, 0) // the crowd is unknown; a mass seen before begins its proof anew
	case !mass:
		m.mass = -1
	case blind || m.mass < 0:
		m.mass = 0
	default:
		m.mass++
	}
	return blind || (m.mass >= 0 && m.mass < 3)
}

func (m *model) expect(s *modelServer, held bool) bool {
	switch {
	case s.maintenance:
		return false
	case m.w.registry.err != nil:
		return s.online
	case s.heardAt.IsZero():
		return m.expectProbed(s)
	case m.w.registry.now.Sub(s.heardAt) < limits.MaxAge:
		return true
	}
	return s.online && held
}

func (m *model) expectProbed(s *modelServer) bool {
	if s.rounds[0] == verdict.Succeeded {
		return true
	}
	for round, outcome := range s.rounds {
		probed, reached := 0, false
		for _, other := range m.servers {
			if other.heardAt.IsZero() {
				probed++
				reached = reached || other.rounds[round] == verdict.Succeeded
			}
		}
		if outcome != verdict.Failed || (probed > 1 && !reached) {
			return s.online
		}
	}
	return false
}

func (m *model) agree(t *rapid.T) {
	for _, s := range m.servers {
		if got := m.w.isOnline(s.key); got != s.online {
			t.Fatalf("server %d: online %v, expected %v", s.key, got, s.online)
		}
	}
	if got := m.w.logRows(); got != m.rows {
		t.Fatalf("%d rows in the offline log, expected %d", got, m.rows)
	}
}

func TestI9_I11_I15_TheModelAgrees(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt, t)
		rt.Repeat(map[string]func(*rapid.T){
			"heartbeats":    m.heartbeats,
			"probes":        m.probes,
			"maintenance":   m.maintenance,
			"ingest":        m.ingest,
			"registry":      m.registry,
			"lease lost":    m.leaseLost,
			"restart":       m.restart,
			"sweep":         m.sweep,
			"failing sweep": m.failingSweep,
			"heard and swept": func(t *rapid.T) {
				m.heartbeats(t)
				m.sweep(t)
			},
			"silence": func(t *rapid.T) {
				for range rapid.IntRange(3, 9).Draw(t, "sweeps") {
					m.sweep(t)
				}
			},
		})
	})
}
