package failover

import "time"

// Bus is the state of an agent that is heard over Service Bus. It asks for its list at start and every ListInterval, beginning with
// the first of its list each time, and does nothing else. Like Direct it is a value.
type Bus struct {
	cfg     Config
	list    List
	search  search
	calm    bool      // the last question was answered
	asking  Server    // zero: nothing is under way
	askAt   time.Time // when the next is due, while nothing is under way
	refusal string
}

// NewBus starts an agent with the list that was found on disk, if any. It asks first within FailoverGrace.
func NewBus(cfg Config, list List, now time.Time, random Random) Bus {
	list = list.Clean()
	return Bus{cfg: cfg, list: list, search: fromTop(list, cfg, 0, random), askAt: now.Add(random.between(0, cfg.FailoverGrace))}
}

// On takes one event at its instant, and gives the agent's new state and what is to be done now.
func (b Bus) On(e Event, now time.Time, random Random) (Bus, []Action) {
	var actions []Action
	switch e := e.(type) {
	case Answered:
		if b.isOf(e.Server) {
			actions = b.answered(e, now, random)
		}
	case Failed:
		if b.isOf(e.Server) {
			actions = b.failed(e, now, random)
		}
	}
	if b.asking == (Server{}) && !now.Before(b.askAt) {
		b.asking, _ = b.search.target(b.list)
		actions = append(actions, Ask{b.asking, b.list.Etag})
	}
	return b, actions
}

// WakeAt is when a Tick is due. Zero: only the outcome of what is under way leads on.
func (b Bus) WakeAt() time.Time {
	if b.asking != (Server{}) {
		return time.Time{}
	}
	return b.askAt
}

// Status of the agent. It works with no server.
func (b Bus) Status() Status { return Status{FailedPasses: b.search.passes, Refusal: b.refusal} }

// List that is held.
func (b Bus) List() List { return b.list }

func (b Bus) isOf(s Server) bool { return b.asking != (Server{}) && b.asking == s }

func (b *Bus) answered(e Answered, now time.Time, random Random) (actions []Action) {
	actions = append(actions, Leave{b.asking})
	b.asking, b.calm, b.refusal = Server{}, true, ""
	if list := e.List.Clean(); !list.Empty() && !list.Equal(b.list) {
		b.list = list
		actions = append(actions, Save{list})
	}
	b.search = fromTop(b.list, b.cfg.under(b.list.LongestPause), 0, random)
	b.askAt = now.Add(random.around(b.cfg.ListInterval, 0.25))
	return actions
}

func (b *Bus) failed(e Failed, now time.Time, random Random) (actions []Action) {
	b.asking = Server{}
	if e.Why != Busy {
		b.search.busy = 0
	}
	switch e.Why {
	case Unregistered:
		// Its first heartbeat is still on its way through the bus, or an operator removed the agent.
		b.askAt = now.Add(random.around(b.cfg.RefusedInterval, 0.5))
	case Refused:
		b.askAt = now.Add(random.around(b.cfg.RefusedInterval, 0.5))
		if detail := refusalOf(e); b.refusal != detail {
			b.refusal = detail
			actions = append(actions, Report{e.Server, detail})
		}
	default:
		next, wait, moved := b.search.after(e, b.calm, b.list, b.cfg.under(b.list.LongestPause), random)
		b.search, b.askAt, b.calm = next, now.Add(wait), b.calm && !moved
		if moved {
			actions = append(actions, Leave{e.Server})
		}
	}
	return actions
}
