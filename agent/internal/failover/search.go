package failover

import (
	"slices"
	"time"
)

// busyLimit is the busy answer, in a row, after which the next server is called.
const busyLimit = 3

// search is where an agent is in its list: whom it calls, and whom next when that fails. A pass goes once round the list, from
// the server that answered last or from the top, and then over the registration endpoints. Slices in it are never written to.
type search struct {
	first  int      // index in the list at which the pass began
	step   int      // how many of this pass were given up
	order  []Server // the registration endpoints, as drawn for this pass; nil before they are needed
	passes int      // in a row in which all failed
	busy   int      // busy answers of the target, in a row
}

// fromTop begins a pass at the primary.
func fromTop(list List, cfg Config, passes int, random Random) search {
	s := search{passes: passes}
	if list.Empty() {
		s.order = draw(cfg.Registration, list, random)
	}
	return s
}

// at begins with a server that answered; the search is over while that goes on answering.
func at(list List, s Server) search { return search{first: list.index(s)} }

// target is whom to call; endpoint: it is a registration endpoint.
func (s search) target(list List) (server Server, endpoint bool) {
	if n := len(list.Servers); s.step < n {
		return list.Servers[(s.first+s.step)%n], false
	}
	return s.order[s.step-len(list.Servers)], true
}

// after says how to go on after a failure: whom to call, and in how long. moved: the target was given up. worked: it was worked
// with until now.
func (s search) after(f Failed, worked bool, list List, cfg Config, random Random) (next search, wait time.Duration, moved bool) {
	if f.Why == Busy && s.busy+1 < busyLimit {
		s.busy++
		return s, cfg.patience(f.RetryAfter, random), false
	}
	next, ended := s.next(list, cfg, random)
	switch {
	case ended:
		wait = cfg.backoff(next.passes, random)
	case worked && f.Why == Down:
		wait = random.between(0, cfg.FailoverGrace)
	default:
		wait = cfg.gap(next.passes, random)
	}
	return next, wait, true
}

// next gives the target up. ended: it was the last of the pass, and the next one begins.
func (s search) next(list List, cfg Config, random Random) (next search, ended bool) {
	s.step++
	s.busy = 0
	if s.step == len(list.Servers) {
		s.order = draw(cfg.Registration, list, random)
	}
	if s.step < len(list.Servers)+len(s.order) {
		return s, false
	}
	return fromTop(list, cfg, s.passes+1, random), true
}

// draw the registration endpoints in random order, without those that the list has anyway.
func draw(endpoints []string, list List, random Random) []Server {
	var order []Server
	for _, e := range endpoints {
		if s := (Server{Endpoint: e}); !list.hasEndpoint(e) && !slices.Contains(order, s) {
			order = append(order, s)
		}
	}
	for i := len(order) - 1; i > 0; i-- {
		j := int(random() * float64(i+1))
		order[i], order[j] = order[j], order[i]
	}
	return order
}
