package failover

import "time"

// turn is one event being taken: the state that changes, and what is to be done.
type turn struct {
	Direct
	now     time.Time
	random  Random
	actions []Action
}

func (t *turn) do(a Action) { t.actions = append(t.actions, a) }

// pace is how the agent pauses, by its own configuration and by its list.
func (t *turn) pace() Config { return t.cfg.under(t.list.LongestPause) }

func (t *turn) in(wait time.Duration) time.Time { return t.now.Add(wait) }

// due begins what is due.
func (t *turn) due() {
	if !t.call.underWay() {
		switch {
		case t.home.returnIsDue(t.now):
			t.begin(call{server: t.home.primary, returning: true})
		case !t.now.Before(t.callAt):
			server, endpoint := t.search.target(t.list)
			t.begin(call{server: server, endpoint: endpoint, register: endpoint || t.enrol})
		}
	}
	if t.home.probeIsDue(t.now) {
		t.home.probing = t.home.primary
		t.do(Probe{t.home.probing})
	}
}

func (t *turn) begin(c call) {
	c.at = t.now
	t.call = c
	if c.register {
		t.do(Register{c.server})
	} else {
		t.do(Heartbeat{c.server, t.list.Etag})
	}
}

func (t *turn) answered(e Answered) {
	c := t.call
	if !c.underWay() || c.server != e.Server {
		return
	}
	t.call, t.refusal = call{}, ""
	if c.register {
		t.registered(c, e.List)
		return
	}
	t.enrolled = false
	switch {
	case !e.Draining:
		t.heard(c, e.List)
	case !c.returning:
		t.sentOn(c, e.List)
	default:
		present := t.present()
		t.stay()
		if t.take(e.List) {
			t.keep(present)
		}
	}
}

// heard by a control server: the agent works with it, if it is on the list that came.
func (t *turn) heard(c call, list List) {
	first := !t.working || c.returning
	if c.returning {
		t.do(Leave{t.present()})
	}
	t.take(list)
	if !t.keep(c.server) {
		return
	}
	next := t.random.around(t.cfg.HeartbeatInterval, 0.1)
	if first {
		next = t.random.between(0, t.cfg.HeartbeatInterval)
	}
	t.callAt = c.at.Add(next)
}

// sentOn by a control server that took the heartbeat and drains. That begins no pass anew, since all of them may drain; then the
// agent goes on as if none did.
func (t *turn) sentOn(c call, list List) {
	passes := t.search.passes
	if t.take(list) {
		if !t.keep(c.server) {
			return
		}
		t.search.passes = passes
	}
	t.goOn(Failed{Server: c.server, Why: Draining})
	if t.search.step == 0 {
		t.callAt = c.at.Add(t.random.around(t.cfg.HeartbeatInterval, 0.1))
	}
}

// registered with a control server. Now some server of the list has to take a heartbeat.
func (t *turn) registered(c call, list List) {
	known := !t.list.Empty()
	if !known && list.Clean().Empty() {
		t.goOn(Failed{Server: c.server, Why: Down}) // there is nobody to send heartbeats to
		return
	}
	t.enrol, t.enrolled, t.search.busy = false, true, 0
	changed := t.take(list)
	if c.endpoint || changed {
		passes := t.search.passes
		if c.endpoint && known {
			passes++ // it was asked because the whole list had failed
		}
		t.do(Leave{c.server})
		t.search = fromTop(t.list, t.pace(), passes, t.random)
	}
	t.callAt = t.in(t.pace().gap(t.search.passes, t.random))
}

// take a list that came with an answer, if it is one, and another one. The search has to be made to fit it.
func (t *turn) take(list List) (changed bool) {
	list = list.Clean()
	if list.Empty() || list.Equal(t.list) {
		return false
	}
	t.list = list
	t.do(Save{list})
	return true
}

// keep working with a server that answers, if it is on the list. If it is not, the agent leaves it for its primary.
func (t *turn) keep(s Server) bool {
	if t.working = t.list.index(s) >= 0; t.working {
		t.search = at(t.list, s)
		return true
	}
	t.do(Leave{s})
	t.search = fromTop(t.list, t.pace(), 0, t.random)
	t.callAt = t.in(t.random.between(0, t.pace().FailoverGrace))
	return false
}

func (t *turn) failed(e Failed) {
	c := t.call
	broken := !c.underWay() && t.working && t.present() == e.Server
	if !broken && (!c.underWay() || c.server != e.Server) {
		return
	}
	t.call = call{}
	switch {
	case c.returning:
		t.stay()
	case e.Why == Refused:
		t.refused(e)
	case e.Why == Unregistered && !t.enrolled:
		t.working, t.enrol, t.search.busy = false, true, 0
		t.callAt = t.in(t.pace().gap(t.search.passes, t.random))
	default:
		t.goOn(e)
	}
}

// goOn after a failure: with the next server, or the same one if that was busy.
func (t *turn) goOn(e Failed) {
	target := t.present()
	next, wait, moved := t.search.after(e, t.working, t.list, t.pace(), t.random)
	t.search, t.callAt = next, t.in(wait)
	if moved {
		t.do(Leave{target})
		t.working, t.enrol = false, false
	}
}

func (t *turn) refused(e Failed) {
	t.working, t.search.busy = false, 0
	t.callAt = t.in(t.random.around(t.cfg.RefusedInterval, 0.5))
	if detail := refusalOf(e); t.refusal != detail {
		t.refusal = detail
		t.do(Report{e.Server, detail})
	}
}

// refusalOf is what people are told.
func refusalOf(e Failed) string {
	if e.Detail == "" {
		return "the control server refuses this agent, and does not say why"
	}
	return e.Detail
}
