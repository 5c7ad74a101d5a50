package failover

import "time"

// home is how an agent that works with another server watches its primary, and when it returns there.
type home struct {
	primary   Server    // zero: it works with it, or with nobody
	probing   Server    // the probe under way, which may be of a primary that was; zero: none
	probeAt   time.Time // of the next probe, while none is under way
	goodSince time.Time // the first of the good probes in a row; zero: the last was none
	returnAt  time.Time // zero: not yet
}

func (h home) away() bool { return h.primary != Server{} }

func (h home) wakeAt() time.Time {
	if !h.away() || h.probing != (Server{}) {
		return time.Time{}
	}
	return h.probeAt
}

func (h home) probeIsDue(now time.Time) bool {
	return h.away() && h.probing == (Server{}) && !now.Before(h.probeAt)
}

func (h home) returnIsDue(now time.Time) bool {
	return !h.returnAt.IsZero() && !now.Before(h.returnAt)
}

// aim begins or ends the watch, as the server worked with and the list now are.
func (t *turn) aim() {
	switch {
	case !t.working || t.present() == t.list.Servers[0]:
		t.home = home{probing: t.home.probing}
	case t.home.primary != t.list.Servers[0]:
		t.home = home{primary: t.list.Servers[0], probing: t.home.probing, probeAt: t.in(t.random.around(t.cfg.ProbeInterval, 0.5))}
	}
}

// probed tells how the primary does. Once it did well for ReturnGrace, the agent returns within one ProbeInterval, at random, since
// all the agents of a server find it well again at about the same time.
func (t *turn) probed(e Probed) {
	h := &t.home
	if h.probing != e.Server {
		return
	}
	h.probing = Server{}
	if !h.away() || h.primary != e.Server {
		return
	}
	h.probeAt = t.in(t.random.around(t.cfg.ProbeInterval, 0.5))
	if !e.Good {
		h.goodSince, h.returnAt = time.Time{}, time.Time{}
		return
	}
	if h.goodSince.IsZero() {
		h.goodSince = t.now
	}
	if h.returnAt.IsZero() && t.now.Sub(h.goodSince) >= t.cfg.ReturnGrace {
		h.returnAt = t.in(t.random.between(0, t.cfg.ProbeInterval))
	}
}

// stay where the agent is, since the primary did not take its heartbeat, which goes to the present server instead.
func (t *turn) stay() {
	t.do(Leave{t.home.primary})
	t.home.goodSince, t.home.returnAt = time.Time{}, time.Time{}
	t.callAt = t.in(t.pace().gap(0, t.random))
}
