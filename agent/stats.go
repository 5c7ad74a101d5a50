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
}

type counters struct {
	heartbeatsSent, heartbeatsFailed, repliesFailed, busCommands, httpCommands atomic.Int64

	outcomes [agentv1.Outcome_OUTCOME_EXPIRED + 1]atomic.Int64
}

func (c *counters) command(o agentv1.Outcome) { c.outcomes[o].Add(1) }

func (c *counters) stats() Stats {
	return Stats{
		HeartbeatsSent: c.heartbeatsSent.Load(), HeartbeatsFailed: c.heartbeatsFailed.Load(),
		BusCommands: c.busCommands.Load(), HTTPCommands: c.httpCommands.Load(),
		RepliesFailed: c.repliesFailed.Load(),
		Succeeded:     c.outcomes[agentv1.Outcome_OUTCOME_SUCCEEDED].Load(),
		Failed:        c.outcomes[agentv1.Outcome_OUTCOME_FAILED].Load(),
		Refused:       c.outcomes[agentv1.Outcome_OUTCOME_REFUSED].Load(),
		NotFound:      c.outcomes[agentv1.Outcome_OUTCOME_NOT_FOUND].Load(),
		Expired:       c.outcomes[agentv1.Outcome_OUTCOME_EXPIRED].Load(),
	}
}
