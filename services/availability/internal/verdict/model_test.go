package verdict

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is the reference: it keeps what happened as it happened, and knows the rules in their plainest form.
type world struct {
	*fleet
	now       time.Time
	deafUntil time.Time // the bus was not listened to before; in the future while the ingest is down
	massSince int       // sweeps in a row that saw a mass and were proven, the first not counted; -1: no mass
	rows      map[int64]int
	falls     map[int64]int
}

const forever = 1000 * time.Hour

func newWorld(t *rapid.T) *world {
	agents := busAgents(rapid.IntRange(1, 14).Draw(t, "heard"), epoch)
	for range rapid.IntRange(0, 3).Draw(t, "probed") {
		agents = append(agents, probedWith(Succeeded, Succeeded, Succeeded))
	}
	return &world{
		fleet: newFleet(t, true, agents...), now: epoch, deafUntil: epoch.Add(-time.Hour), massSince: -1,
		rows: map[int64]int{}, falls: map[int64]int{},
	}
}

func (w *world) deaf() bool { return w.deafUntil.After(w.now) }

// heartbeats come from some of the agents, in any order: the registry keeps the newest.
func (w *world) heartbeats(t *rapid.T) {
	late := time.Duration(rapid.IntRange(0, 40).Draw(t, "late")) * time.Second
	from := rapid.IntRange(0, len(w.in.Servers)-1).Draw(t, "from")
	to := rapid.IntRange(from, len(w.in.Servers)-1).Draw(t, "to")
	for i := from; i <= to && !w.deaf(); i++ {
		a := &w.in.Servers[i].Agent
		if at := w.now.Add(-late); a.BaseURL == "" && at.After(a.HeardAt[Bus]) {
			a.HeardAt[Bus] = at
		}
	}
}

func (w *world) probes(t *rapid.T) {
	for i := range w.in.Servers {
		if a := &w.in.Servers[i].Agent; a.BaseURL != "" {
			copy(a.Probes[1:], a.Probes[:])
			a.Probes[0] = Probe{Outcome: rapid.SampledFrom([]Outcome{Unfinished, Succeeded, Failed}).Draw(t, "probe")}
		}
	}
}

func (w *world) maintenance(t *rapid.T) {
	s := &w.in.Servers[rapid.IntRange(0, len(w.in.Servers)-1).Draw(t, "server")]
	s.Maintenance = !s.Maintenance
}

func (w *world) ingest(*rapid.T) {
	if w.deaf() {
		w.deafUntil = w.now
	} else {
		w.deafUntil = w.now.Add(forever)
	}
}

// sweep compares what is decided with what the reference expects of each server.
func (w *world) sweep(t *rapid.T) {
	w.now = w.now.Add(15 * time.Second)
	e := Evidence{ReportedAt: w.now, HealthySince: w.deafUntil, HeardAt: w.now, LongestReturn: time.Second} // agents without a server are heard too
	if w.deaf() {
		e.HealthySince = time.Time{}
	}
	w.in.Evidence = PerPath[Evidence]{e, proof(w.now)}
	held := w.held()
	before := append([]Server(nil), w.in.Servers...)
	out := w.sweepAsIs(w.now)
	for _, key := range out.OfflineLog {
		w.rows[key]++
	}
	for i, was := range before {
		is := w.in.Servers[i].Online
		if was.Online && !is {
			w.falls[was.Key]++
		}
		age := w.now.Sub(was.Agent.HeardAt[Bus])
		if was.Agent.BaseURL == "" && was.Online && !is && !was.Maintenance && age < 90*time.Second {
			t.Fatalf("server %d fell silent for only %v", was.Key, age)
		}
		if want := w.expect(was, age, held); is != want {
			t.Fatalf("server %d: online %v, want %v (age %v, held %v)", was.Key, is, want, age, held)
		}
	}
}

// held tells whether silence proves nothing in this sweep.
func (w *world) held() bool {
	blind := w.deaf() || w.now.Sub(w.deafUntil) < 90*time.Second
	online, silent := 0, 0
	for _, s := range w.in.Servers {
		if s.Online && !s.Maintenance && s.Agent.BaseURL == "" {
			online++
			if w.now.Sub(s.Agent.HeardAt[Bus]) >= 45*time.Second {
				silent++
			}
		}
	}
	switch {
	case silent < 5 || silent <= online/2:
		w.massSince = -1
	case blind || w.massSince < 0:
		w.massSince = 0
	default:
		w.massSince++
	}
	return blind || (w.massSince >= 0 && w.massSince < 3)
}

func (w *world) expect(s Server, age time.Duration, held bool) bool {
	switch {
	case s.Maintenance:
		return false
	case s.Agent.BaseURL != "":
		return w.expectProbed(s)
	case age < 90*time.Second:
		return true
	}
	return s.Online && held
}

func (w *world) expectProbed(s Server) bool {
	if s.Agent.Probes[0].Outcome == Succeeded {
		return true
	}
	for round, p := range s.Agent.Probes {
		several, reached := 0, false
		for _, other := range w.in.Servers {
			if other.Agent.BaseURL != "" {
				several++
				reached = reached || other.Agent.Probes[round].Outcome == Succeeded
			}
		}
		if p.Outcome != Failed || (several > 1 && !reached) {
			return s.Online
		}
	}
	return false
}

func (w *world) agree(t *rapid.T) {
	for _, s := range w.in.Servers {
		if w.rows[s.Key] != w.falls[s.Key] {
			t.Fatalf("server %d fell %d times, logged %d", s.Key, w.falls[s.Key], w.rows[s.Key])
		}
	}
}

func TestI9_I11_ModelAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"":            w.agree,
			"heartbeats":  w.heartbeats,
			"probes":      w.probes,
			"maintenance": w.maintenance,
			"ingest":      w.ingest,
			"sweep":       w.sweep,
			"sweep again": func(t *rapid.T) { w.sweep(t); w.sweep(t) },
			"silence": func(t *rapid.T) {
				for range rapid.IntRange(3, 9).Draw(t, "sweeps") {
					w.sweep(t)
				}
			},
		})
	})
}
