package agent

import (
	"fmt"
	"time"

	"github.com/commandcenter/fleet/agent/internal/failover"
)

// FailoverConfig says how control servers are called, and how an agent goes from one to the other. All times are jittered, so that a
// fleet does not move in step.
type FailoverConfig struct {
	// CallTimeout is how long one call may take; 10 ms to 5 s; default 5 s.
	CallTimeout time.Duration
	// ProbeInterval is between looks at the primary while another control server is worked with; 100 ms to 24 h; default 1 min.
	ProbeInterval time.Duration
	// ReturnGrace is for how long the primary must look good before the agent returns to it; at most 24 h; default 2 min.
	ReturnGrace time.Duration
	// ListInterval is how often an agent on Service Bus asks for its list; 100 ms to 24 h; default 10 min.
	ListInterval time.Duration
	// FailoverGrace bounds the pause before another control server is called instead of one that failed, and before the first call; at
	// most 1 h; default 5 s.
	FailoverGrace time.Duration
	// ServerInterval bounds the pause between control servers while none answers; 1 ms to 1 h; default 1 s. It doubles with each time that
	// all of them failed, up to ServerIntervalMax; default 30 s.
	ServerInterval, ServerIntervalMax time.Duration
	// BackoffInterval bounds the pause after all of them failed; 1 ms to 1 h; default 5 s. It doubles each time, up to BackoffIntervalMax;
	// default 1 min. The pause that the control plane publishes with the list bounds it, and every other pause but RefusedInterval.
	BackoffInterval, BackoffIntervalMax time.Duration
	// RefusedInterval is how often a refused agent asks again; 100 ms to 24 h; default 5 min.
	RefusedInterval time.Duration
}

func (c FailoverConfig) withDefaults() FailoverConfig {
	usual := failover.DefaultConfig()
	standard(&c.CallTimeout, maxCallTimeout)
	standard(&c.ProbeInterval, usual.ProbeInterval)
	standard(&c.ReturnGrace, usual.ReturnGrace)
	standard(&c.ListInterval, usual.ListInterval)
	standard(&c.FailoverGrace, usual.FailoverGrace)
	standard(&c.ServerInterval, usual.ServerInterval)
	standard(&c.ServerIntervalMax, max(usual.ServerIntervalMax, c.ServerInterval))
	standard(&c.BackoffInterval, usual.BackoffInterval)
	standard(&c.BackoffIntervalMax, max(usual.BackoffIntervalMax, c.BackoffInterval))
	standard(&c.RefusedInterval, usual.RefusedInterval)
	return c
}

// config of the state machine, for agents that register there and send heartbeats so often.
func (c FailoverConfig) config(registration []string, heartbeatInterval time.Duration) failover.Config {
	return failover.Config{
		Registration: registration, HeartbeatInterval: heartbeatInterval,
		ProbeInterval: c.ProbeInterval, ReturnGrace: c.ReturnGrace, ListInterval: c.ListInterval,
		FailoverGrace: c.FailoverGrace, ServerInterval: c.ServerInterval, ServerIntervalMax: c.ServerIntervalMax,
		BackoffInterval: c.BackoffInterval, BackoffIntervalMax: c.BackoffIntervalMax, RefusedInterval: c.RefusedInterval,
	}
}

// failover is the configuration of the agent's state machine.
func (a *Agent) failover() failover.Config {
	return a.cfg.Failover.config(a.cfg.Cloud.cfg.Registration, a.cfg.Heartbeat.Interval)
}

func (c FailoverConfig) validate(registration []string, heartbeatInterval time.Duration) error {
	if d := c.CallTimeout; d < 10*time.Millisecond || d > maxCallTimeout {
		return fmt.Errorf("agent config: Failover.CallTimeout: %s is not within 10ms to %s", d, maxCallTimeout)
	}
	if err := c.config(registration, heartbeatInterval).Validate(); err != nil {
		return fmt.Errorf("agent config: Failover: %w", err)
	}
	return nil
}

// direct tells whether the agent is heard by control servers.
func (a *Agent) direct() bool { return a.cfg.Cloud != nil && a.cfg.Bus == nil }

// checkEnrolment finds out at the start that the agent could not enrol, if it will have to.
func (a *Agent) checkEnrolment() error {
	if a.direct() && !a.membership.list.Empty() {
		return nil
	}
	if _, err := a.cfg.Cloud.enrolmentKey(); err != nil {
		return fmt.Errorf("cloud config: EnrolmentKeyFile: %w", err)
	}
	return nil
}
