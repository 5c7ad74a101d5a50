package cloud

import "time"

// What agents do while no control server takes their heartbeats, as their contract says (agent/README.md).
const (
	agentCall        = 5 * time.Second  // one call, until it counts as failed
	agentServerPause = 30 * time.Second // the longest pause between two control servers of a list
	agentFirstPause  = time.Second      // and the longest before all of the list failed once
	agentGrace       = 5 * time.Second  // the longest pause before another control server is called instead of one that failed
)

// Returns is how long agents that live may be away. LongestPause goes out with their lists, and both bounds go to availability, so that it
// waits for as long as agents may.
type Returns struct {
	// LongestPause bounds a direct agent's pauses while no control server takes its heartbeat.
	LongestPause time.Duration
	// BusReconnect bounds how long an agent on Service Bus needs to see that its connection is dead, and to make another.
	BusReconnect time.Duration
}

// DefaultReturns has for the bus the idle timeout of AMQP connections, 1 min, and one try to send.
func DefaultReturns() Returns {
	return Returns{LongestPause: time.Minute, BusReconnect: 70 * time.Second}
}

// Displacement is which listed control servers are silent, so that their agents look for others.
type Displacement struct {
	Silent int       // how many of them
	Since  time.Time // when the last of these was heard; zero: none is silent
}

// Displacement counts those that lists still name.
func (m Membership) Displacement() Displacement {
	var d Displacement
	for _, s := range m.Members {
		if !s.Listing.Listed || (s.State != Suspect && s.State != Evicted) {
			continue
		}
		d.Silent++
		if s.RenewedAt.After(d.Since) {
			d.Since = s.RenewedAt
		}
	}
	return d
}

// AfterOutage bounds how long a direct agent needs until it is heard once a control server takes heartbeats again, after none did: a pause, the
// delay that a busy one asks for with its quarter more, and on its way through the list a call and a pause for each that is silent still.
func (r Returns) AfterOutage(d Displacement) time.Duration {
	step := agentCall + min(agentServerPause, r.LongestPause)
	return r.LongestPause + r.LongestPause*5/4 + time.Duration(d.Silent+1)*step
}

// AfterLoss bounds how long a direct agent needs until another control server takes its heartbeat, after that many fell silent and others did not.
func (r Returns) AfterLoss(d Displacement) time.Duration {
	return min(agentGrace, r.LongestPause) + time.Duration(d.Silent)*(agentCall+min(agentFirstPause, r.LongestPause)) + agentCall
}
