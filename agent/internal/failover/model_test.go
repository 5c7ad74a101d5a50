package failover

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is one direct agent among control servers that do anything they like. It keeps what happened, and knows the rules in
// their plainest form.
type world struct {
	d    Direct
	cfg  Config
	now  time.Time
	seed uint64

	list      List
	call      Action // under way
	probing   Server // under way
	open      map[Server]bool
	working   Server
	sentAt    time.Time // of the call under way
	goodSince time.Time // of the present primary's probes
	unknown   bool      // the server last called does not know the agent
	since     bool      // registered since a heartbeat was answered
	given     map[Server]bool
	busy      int
	least     time.Time // the next call comes no earlier, unless it is a return,
	most      time.Time // and no later
}

var names = []string{"s1", "s2", "s3", "s4", "s5"}

func drawList(t *rapid.T) List {
	n := rapid.IntRange(0, len(names)).Draw(t, "servers")
	if n == 0 {
		return List{}
	}
	return listOf(fmt.Sprint("e", rapid.IntRange(1, 4).Draw(t, "etag")), rapid.Permutation(names).Draw(t, "order")[:n]...)
}

func newWorld(t *rapid.T) *world {
	endpoints := []string{"r1:443", "r2:443", "s1:443"}
	w := &world{
		cfg: DefaultConfig(endpoints[:rapid.IntRange(1, 3).Draw(t, "endpoints")]...), now: start, list: drawList(t),
		seed: rapid.Uint64().Draw(t, "seed"), open: map[Server]bool{}, given: map[Server]bool{},
	}
	if rapid.Bool().Draw(t, "only listed") {
		w.cfg.Registration = endpoints[2:]
	}
	w.d = NewDirect(w.cfg, w.list, w.now, rand.New(rand.NewPCG(w.seed, 0)).Float64)
	w.between(0, w.cfg.FailoverGrace)
	return w
}

func (w *world) between(least, most time.Duration) {
	w.least, w.most = w.now.Add(least), w.now.Add(most)
}

// on takes an event, twice, to see that it does the same and leaves the old state alone.
func (w *world) on(t *rapid.T, e Event) {
	w.seed++
	before := w.d
	before.list.Servers, before.search.order = slices.Clone(w.d.list.Servers), slices.Clone(w.d.search.order)
	next, did := w.d.On(e, w.now, rand.New(rand.NewPCG(w.seed, 0)).Float64)
	again, same := w.d.On(e, w.now, rand.New(rand.NewPCG(w.seed, 0)).Float64)
	if !reflect.DeepEqual(did, same) || !reflect.DeepEqual(next, again) || !reflect.DeepEqual(before, w.d) {
		t.Fatalf("%T is not pure", e)
	}
	w.d = next
	if next.Status().FailedPasses > before.Status().FailedPasses {
		w.passed(t)
	}
	for _, a := range did {
		w.does(t, a)
	}
}

// does checks one action.
func (w *world) does(t *rapid.T, a Action) {
	switch a := a.(type) {
	case Heartbeat:
		if a.Etag != w.list.Etag || w.list.index(a.Server) < 0 {
			t.Fatalf("%+v, with the list %+v", a, w.list)
		}
		w.calls(t, a, a.Server)
	case Register:
		endpoint := a.Server.Name == "" && slices.Contains(w.cfg.Registration, a.Server.Endpoint)
		if !w.unknown && (!endpoint || w.list.hasEndpoint(a.Server.Endpoint)) {
			t.Fatalf("%+v, with the list %+v", a, w.list)
		}
		w.calls(t, a, a.Server)
	case Probe:
		if w.probing != (Server{}) || w.working == (Server{}) || w.working == w.list.Servers[0] || a.Server != w.list.Servers[0] {
			t.Fatalf("%+v, while working with %v, probing %v, list %v", a, w.working, w.probing, w.list)
		}
		w.probing = a.Server
	case Leave:
		delete(w.open, a.Server)
	case Save:
		if a.List.Empty() || !a.List.Equal(w.list) {
			t.Fatalf("saved %v, holds %v", a.List, w.list)
		}
	}
}

func (w *world) calls(t *rapid.T, a Action, to Server) {
	if w.call != nil {
		t.Fatalf("%+v while %+v is under way", a, w.call)
	}
	returns := w.working != (Server{}) && to != w.working
	switch {
	case returns && to != w.list.Servers[0]:
		t.Fatalf("left %v for %v, which is not its primary", w.working, to)
	case returns && (w.goodSince.IsZero() || w.now.Sub(w.goodSince) < w.cfg.ReturnGrace):
		t.Fatalf("returned to %v, good since %v, now %v", to, w.goodSince, w.now)
	case !returns && w.now.Before(w.least):
		t.Fatalf("%+v comes %v too early", a, w.least.Sub(w.now))
	case w.given[to]:
		t.Fatalf("%v was tried in this pass", to)
	}
	w.call, w.sentAt = a, w.now
	w.open[to] = true
}

// settled is what holds after every event.
func (w *world) settled(t *rapid.T) {
	if w.call == nil && (w.d.WakeAt().IsZero() || w.d.WakeAt().After(w.most)) {
		t.Fatalf("wakes at %v, and a call is due at %v", w.d.WakeAt(), w.most)
	}
	if got := w.d.Status(); got.Server != w.working || !w.d.List().Equal(w.list) {
		t.Fatalf("works with %v, want %v; holds %v, want %v", got.Server, w.working, w.d.List(), w.list)
	}
	if len(w.open) > 2 || w.call == nil && w.working != (Server{}) && (len(w.open) > 1 || !w.open[w.working]) {
		t.Fatalf("connected to %v, works with %v", w.open, w.working)
	}
}

func (w *world) target() Server {
	switch a := w.call.(type) {
	case Heartbeat:
		return a.Server
	case Register:
		return a.Server
	}
	return Server{}
}

func (w *world) gap() {
	longest := min(time.Second<<min(w.d.Status().FailedPasses, 10), w.cfg.ServerIntervalMax)
	w.between(longest/5, longest)
}

// gives up on a server: a pass may end by that, but not before all were tried.
func (w *world) gives(t *rapid.T, s Server, e Event, worked, down bool) {
	passes := w.d.Status().FailedPasses
	w.given[s], w.working, w.busy, w.unknown = true, Server{}, 0, false
	w.most = w.now.Add(24 * time.Hour) // until it is known what follows
	w.least = w.now
	w.on(t, e)
	if w.call != nil { // after no pause at all
		return
	}
	switch {
	case w.d.Status().FailedPasses > passes:
		limit := min(5*time.Second<<min(passes, 10), time.Minute)
		w.between(0, limit)
	case worked && down:
		w.between(0, w.cfg.FailoverGrace)
	default:
		w.gap()
	}
}

// triedList tells that all of the list was tried.
func (w *world) triedList(t *rapid.T) {
	for _, s := range w.list.Servers {
		if !w.given[s] {
			t.Fatalf("a pass ended without %v", s)
		}
	}
}

func (w *world) passed(t *rapid.T) {
	w.triedList(t)
	for _, e := range w.cfg.Registration {
		if !w.list.hasEndpoint(e) && !w.given[Server{Endpoint: e}] {
			t.Fatalf("a pass ended without %v", e)
		}
	}
	w.given = map[Server]bool{}
}

// takes a list into account, if it is one.
func (w *world) takes(list List) (changed bool) {
	if list.Empty() || list.Equal(w.list) {
		return false
	}
	if w.list.Empty() || w.list.Servers[0] != list.Servers[0] {
		w.goodSince = time.Time{}
	}
	w.list, w.given = list, map[Server]bool{}
	return true
}

func (w *world) answer(t *rapid.T) {
	if w.call == nil {
		t.Skip("nothing is under way")
	}
	list := List{}
	if rapid.Bool().Draw(t, "news") {
		list = drawList(t)
	}
	w.answered(t, list, rapid.IntRange(0, 4).Draw(t, "draining") == 4)
}

func (w *world) answered(t *rapid.T, list List, draining bool) {
	to := w.target()
	w.now = w.now.Add(time.Duration(rapid.IntRange(0, 6000).Draw(t, "ms")) * time.Millisecond)
	e := Answered{Server: to, List: list}
	_, register := w.call.(Register)
	returned := w.working != (Server{}) && to != w.working
	first := returned || w.working == (Server{})
	w.call = nil
	if register {
		w.registers(t, to, e)
		return
	}
	w.since = false
	if !returned && draining {
		e.Draining = true
		w.drains(t, to, e)
		return
	}
	w.takes(e.List)
	w.given, w.busy, w.working = map[Server]bool{}, 0, to
	if first {
		w.goodSince = time.Time{}
	}
	w.least, w.most = w.sentAt.Add(27*time.Second), latest(w.sentAt.Add(33*time.Second), w.now)
	if first {
		w.least, w.most = w.now, latest(w.sentAt.Add(30*time.Second), w.now)
	}
	if w.list.index(to) < 0 {
		w.working = Server{}
		w.between(0, w.cfg.FailoverGrace)
	}
	w.on(t, e)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *world) registers(t *rapid.T, to Server, e Answered) {
	if w.list.Empty() && e.List.Empty() {
		w.gives(t, to, e, false, true)
		return
	}
	listed, known := w.list.index(to) >= 0, !w.list.Empty()
	w.since, w.unknown, w.busy = true, false, 0
	passes := w.d.Status().FailedPasses
	if !listed {
		w.triedList(t)
	}
	w.takes(e.List)
	if !listed { // the rest of the endpoints need not be asked
		for _, e := range w.cfg.Registration {
			w.given[Server{Endpoint: e}] = true
		}
		for _, s := range w.list.Servers {
			w.given[s] = true
		}
	}
	w.least, w.most = w.now.Add(200*time.Millisecond), w.now.Add(w.cfg.ServerIntervalMax)
	w.on(t, e)
	if got := w.d.Status().FailedPasses; (got > passes) != (known && !listed) {
		t.Fatalf("%d passes failed before registering, %d after", passes, got)
	}
	if !listed {
		w.given = map[Server]bool{}
	}
	w.gap()
}

func (w *world) drains(t *rapid.T, to Server, e Answered) {
	if w.takes(e.List) && w.list.index(to) < 0 {
		w.working, w.busy = Server{}, 0
		w.between(0, w.cfg.FailoverGrace)
		w.on(t, e)
		return
	}
	passes := w.d.Status().FailedPasses
	w.given[to], w.working, w.busy = true, Server{}, 0
	w.between(0, w.cfg.HeartbeatInterval*11/10)
	w.on(t, e)
	if w.call == nil && w.d.Status().FailedPasses == passes {
		w.gap()
	}
}

func (w *world) fail(t *rapid.T) {
	if w.call == nil {
		t.Skip("nothing is under way")
	}
	w.failed(t, rapid.SampledFrom([]Reason{Down, Down, Down, Busy, Busy, Draining, Unregistered, Refused}).Draw(t, "why"))
}

func (w *world) failed(t *rapid.T, why Reason) {
	to := w.target()
	w.now = w.now.Add(time.Duration(rapid.IntRange(0, 6000).Draw(t, "ms")) * time.Millisecond)
	e := Failed{Server: to, Why: why}
	if e.Why == Busy {
		e.RetryAfter = time.Duration(rapid.IntRange(1, 100).Draw(t, "retry")) * time.Second
	}
	worked := w.working != (Server{})
	w.call = nil
	switch {
	case worked && to != w.working: // it stays
		w.goodSince = time.Time{}
		w.between(200*time.Millisecond, time.Second)
		w.on(t, e)
	case e.Why == Refused:
		w.working, w.busy = Server{}, 0
		w.between(150*time.Second, 450*time.Second)
		w.on(t, e)
	case e.Why == Unregistered && !w.since:
		w.working, w.unknown, w.busy = Server{}, true, 0
		w.gap()
		w.on(t, e)
	case e.Why == Busy && w.busy < 2:
		w.busy++
		asked := min(e.RetryAfter, time.Minute)
		w.between(asked, asked*5/4)
		w.on(t, e)
	default:
		w.gives(t, to, e, worked, e.Why == Down)
	}
}

// breaks the connection to some server, perhaps that worked with.
func (w *world) breaks(t *rapid.T) {
	s := named(rapid.SampledFrom(names).Draw(t, "server"))
	if w.call != nil {
		if s != w.target() {
			w.on(t, Failed{Server: s})
		}
		return
	}
	if s == w.working {
		w.goodSince = time.Time{}
		w.gives(t, s, Failed{Server: s}, true, true)
		return
	}
	w.on(t, Failed{Server: s})
}

func (w *world) stray(t *rapid.T) {
	s := named(rapid.SampledFrom(names).Draw(t, "server"))
	if s != w.target() {
		w.on(t, Answered{Server: s, List: drawList(t)})
	}
	if s != w.probing {
		w.on(t, Probed{Server: s, Good: true})
	}
}

func (w *world) probe(t *rapid.T) {
	if w.probing == (Server{}) {
		t.Skip("no probe is under way")
	}
	e := Probed{Server: w.probing, Good: rapid.IntRange(0, 9).Draw(t, "good") > 0}
	w.probing = Server{}
	if w.working != (Server{}) && e.Server == w.list.Servers[0] {
		if !e.Good {
			w.goodSince = time.Time{}
		} else if w.goodSince.IsZero() {
			w.goodSince = w.now
		}
	}
	w.on(t, e)
}

// tick when it is due; everything under way takes its time.
func (w *world) tick(t *rapid.T) {
	at := w.d.WakeAt()
	if at.IsZero() {
		t.Skip("nothing is due")
	}
	if at.After(w.now) {
		w.now = at
	}
	call, probing := w.call, w.probing
	w.on(t, Tick{})
	if w.call == call && w.probing == probing {
		t.Fatal("woke for nothing, and would again at once")
	}
}

// early ticks do nothing.
func (w *world) early(t *rapid.T) {
	at := w.d.WakeAt()
	if at.IsZero() {
		at = w.now.Add(time.Minute)
	}
	if !at.After(w.now) {
		return
	}
	w.now = w.now.Add(time.Duration(rapid.Float64Range(0, 0.99).Draw(t, "share") * float64(at.Sub(w.now))))
	call, probing := w.call, w.probing
	w.on(t, Tick{})
	if w.call != call || w.probing != probing {
		t.Fatal("acted before it was time")
	}
}

// outage is the next event while nobody answers.
func (w *world) outage(t *rapid.T) {
	switch {
	case w.probing != (Server{}):
		w.probe(t)
	case w.call != nil:
		w.failed(t, Down)
	default:
		w.tick(t)
	}
}

// calm is the next event while all goes well.
func (w *world) calm(t *rapid.T) {
	switch {
	case w.probing != (Server{}):
		w.probe(t)
	case w.call != nil:
		w.answered(t, List{}, false)
	default:
		w.tick(t)
	}
}

func (w *world) events(next func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) {
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			next(t)
			w.settled(t)
		}
	}
}

func TestModelAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"": w.settled, "tick": w.tick, "early": w.early, "answer": w.answer, "fail": w.fail, "probe": w.probe, "breaks": w.breaks, "stray": w.stray,
			"calm": w.events(w.calm), "outage": w.events(w.outage),
		})
	})
}
