package agent

import (
	"sync/atomic"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// Stats counts what an agent did.
type Stats struct {
	// HeartbeatsSent were taken by the bus; HeartbeatsFailed were given up after retries.
	HeartbeatsSent, HeartbeatsFailed int64
	// BusCommands and HTTPCommands came in over each transport, whatever became of them; repeats count.
	BusCommands, HTTPCommands int64
	// Commands by outcome. A repeat of a command counts again, with the outcome of the first.
	Succeeded, Failed, Refused, NotFound, Expired int64
	// RepliesFailed could not be given to the bus.
	RepliesFailed int64

	// HeartbeatsAnswered by control servers; Registrations answered, which are heartbeats too; ListsAnswered: questions of agents on Service
	// Bus for their list.
	HeartbeatsAnswered, Registrations, ListsAnswered int64
	// Connects is how often a direct agent began to work with a control server. Of those, Failovers were from another one, which failed,
	// drained or left the list; and Returns to its primary from another one that still served.
	Connects, Failovers, Returns int64
	// Calls of control servers that were not answered as hoped: CallsBusy were asked to come later, CallsRefused not wanted for a
	// reason that people must see to, and CallsFailed all others, such as those that nobody answered.
	CallsBusy, CallsRefused, CallsFailed int64
}

// Plus is the counts of both together.
func (s Stats) Plus(o Stats) Stats {
	return Stats{
		HeartbeatsSent: s.HeartbeatsSent + o.HeartbeatsSent, HeartbeatsFailed: s.HeartbeatsFailed + o.HeartbeatsFailed,
		BusCommands: s.BusCommands + o.BusCommands, HTTPCommands: s.HTTPCommands + o.HTTPCommands,
		Succeeded: s.Succeeded + o.Succeeded, Failed: s.Failed + o.Failed, Refused: s.Refused + o.Refused,
		NotFound: s.NotFound + o.NotFound, Expired: s.Expired + o.Expired, RepliesFailed: s.RepliesFailed + o.RepliesFailed,
		HeartbeatsAnswered: s.HeartbeatsAnswered + o.HeartbeatsAnswered, Registrations: s.Registrations + o.Registrations,
		ListsAnswered: s.ListsAnswered + o.ListsAnswered,
		Connects:      s.Connects + o.Connects, Failovers: s.Failovers + o.Failovers, Returns: s.Returns + o.Returns,
		CallsBusy: s.CallsBusy + o.CallsBusy, CallsRefused: s.CallsRefused + o.CallsRefused, CallsFailed: s.CallsFailed + o.CallsFailed,
	}
}

type counters struct {
	heartbeatsSent, heartbeatsFailed, repliesFailed, busCommands, httpCommands atomic.Int64

	heartbeatsAnswered, registrations, listsAnswered, connects, failovers, returns, callsBusy, callsRefused, callsFailed atomic.Int64

	outcomes [agentv1.Outcome_OUTCOME_EXPIRED + 1]atomic.Int64
}

func (c *counters) command(o agentv1.Outcome) { c.outcomes[o].Add(1) }

func (c *counters) stats() Stats {
	return Stats{
		HeartbeatsSent: c.heartbeatsSent.Load(), HeartbeatsFailed: c.heartbeatsFailed.Load(),
		BusCommands: c.busCommands.Load(), HTTPCommands: c.httpCommands.Load(),
		RepliesFailed:      c.repliesFailed.Load(),
		HeartbeatsAnswered: c.heartbeatsAnswered.Load(), Registrations: c.registrations.Load(), ListsAnswered: c.listsAnswered.Load(),
		Connects: c.connects.Load(), Failovers: c.failovers.Load(), Returns: c.returns.Load(),
		CallsBusy: c.callsBusy.Load(), CallsRefused: c.callsRefused.Load(), CallsFailed: c.callsFailed.Load(),
		Succeeded: c.outcomes[agentv1.Outcome_OUTCOME_SUCCEEDED].Load(),
		Failed:    c.outcomes[agentv1.Outcome_OUTCOME_FAILED].Load(),
		Refused:   c.outcomes[agentv1.Outcome_OUTCOME_REFUSED].Load(),
		NotFound:  c.outcomes[agentv1.Outcome_OUTCOME_NOT_FOUND].Load(),
		Expired:   c.outcomes[agentv1.Outcome_OUTCOME_EXPIRED].Load(),
	}
}
