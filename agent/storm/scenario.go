package storm

import (
	"errors"
	"fmt"
	"time"

	"github.com/commandcenter/fleet/agent/internal/failover"
)

// Fault is how servers fail.
type Fault int

const (
	// Killed: the process died, and its machine did not. Connections break, and new ones are refused.
	Killed Fault = iota
	// Unnoticed: the same, but an agent learns it only when it sends its next heartbeat.
	Unnoticed
	// Unreachable: machine or network is gone. Each call has to time out, after 5 s.
	Unreachable
	// Unable: the server answers that it can't serve, as it might without its registry.
	Unable
	// Deferring: the server can't serve, and says that it is busy for a half to a whole heartbeat interval.
	Deferring
)

// Spread is how the second servers of one primary's agents are chosen.
type Spread int

const (
	// Even: over all the others.
	Even Spread = iota
	// RoundRobin: all to the next, as "A1: S1,S2,S3  A2: S2,S3,S1" does.
	RoundRobin
)

// Pace is how agents go on after a pass in which all failed.
type Pace int

const (
	// Doubling pauses between servers, as agents do.
	Doubling Pace = iota
	// Steady pauses of 0.2 to 1 s in every pass, to compare with.
	Steady
)

// Scenario of a simulation.
type Scenario struct {
	Seed   uint64
	Agents int // 1 to 1,000,000
	// Servers are the control servers, 1 to 1,000, of which the first Failing fail together. They are also behind the one
	// registration endpoint, which leads to any of them.
	Servers, Failing int
	Fault            Fault
	// Outage is how long they are away; 0: for good.
	Outage time.Duration
	// StayAway is how many of them do not come back then; the last of those that fail.
	StayAway int
	// Recovery: what is measured begins when they are back, instead of when they fail.
	Recovery bool
	// Watch is how long it is measured.
	Watch time.Duration
	// AdmitPerSecond bounds the new connections of a server within any one second; the others are told that it is busy, for 2 to 10 s.
	// 0: there is no bound.
	AdmitPerSecond int
	Spread         Spread
	Pace           Pace
	// HeartbeatInterval; default 30 s.
	HeartbeatInterval time.Duration
	// BackoffIntervalMax bounds the agents' pause after a pass in which all failed; 0: their default.
	BackoffIntervalMax time.Duration
	// LongestPause is what the control plane publishes with the lists; 0: nothing, so that agents go by their own configuration.
	LongestPause time.Duration
	// Heard is called with each heartbeat that a control server took, in order, from the beginning; nil: it is not.
	Heard func(agent int, at time.Duration)
}

// FailsAt is when the servers fail, after the beginning of a simulation.
const FailsAt = settling

// Figures of a simulation. A rate is the most within any one second, of any one server. A connection that goes with a heartbeat or
// a registration counts; probes are counted by themselves.
type Figures struct {
	// Moved is how many agents worked with a server that failed.
	Moved int
	// PeakConnects that a server that stayed, or is back, took.
	PeakConnects int
	// PeakAttempts to connect to one, also those that it was too busy for.
	PeakAttempts int
	// PeakCalls to one server that could be reached, with those over open connections.
	PeakCalls int
	// PeakProbes of one server, reachable or not.
	PeakProbes int
	// PeakReturns is PeakConnects of the servers that failed and are back; 0 if none are.
	PeakReturns int
	// CallsPerSecond is the mean of calls to reachable servers, per server that there is.
	CallsPerSecond float64
	// AllBack is when the last agent worked with a server again, from the beginning of what is measured. Lost are those that did not.
	AllBack time.Duration
	Lost    int
	// LongestSilence is the longest time between two heartbeats of one agent that were taken.
	LongestSilence time.Duration
	// Home is how many agents worked with their primary in the end.
	Home int
}

func (s Scenario) withDefaults() Scenario {
	if s.HeartbeatInterval == 0 {
		s.HeartbeatInterval = 30 * time.Second
	}
	return s
}

func (s Scenario) validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf("storm: "+format, args...)) }
	if s.Agents < 1 || s.Agents > 1_000_000 {
		bad("Agents: %d is not within 1 to 1,000,000", s.Agents)
	}
	if s.Servers < 1 || s.Servers > 1000 {
		bad("Servers: %d is not within 1 to 1,000", s.Servers)
	}
	if s.Failing < 0 || s.Failing > s.Servers {
		bad("Failing: %d is not within 0 to Servers", s.Failing)
	}
	if s.Watch <= 0 {
		bad("Watch: must be above 0")
	}
	if s.Outage < 0 || s.Outage == 0 && s.Recovery {
		bad("Outage: must be above 0 for a Recovery, and never below")
	}
	if s.StayAway < 0 || s.StayAway > s.Failing {
		bad("StayAway: %d is not within 0 to Failing", s.StayAway)
	}
	if s.AdmitPerSecond < 0 {
		bad("AdmitPerSecond: must not be below 0")
	}
	if s.HeartbeatInterval < 100*time.Millisecond || s.HeartbeatInterval > time.Hour {
		bad("HeartbeatInterval: %s is not within 100ms to 1h", s.HeartbeatInterval)
	}
	return errors.Join(problems...)
}

// config of each agent.
func (s Scenario) config() failover.Config {
	cfg := failover.DefaultConfig(registration)
	cfg.HeartbeatInterval = s.HeartbeatInterval
	if s.BackoffIntervalMax > 0 {
		cfg.BackoffIntervalMax = s.BackoffIntervalMax
	}
	if s.Pace == Steady {
		cfg.ServerIntervalMax = cfg.ServerInterval
	}
	return cfg
}
