package routing

import (
	"fmt"
	"time"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// rule is one row of the routing table.
type rule struct {
	number, condition string
	matches           func(facts) bool
	because           func(facts) string
	decision          func(facts) Decision
}

// table is the whole of routing, first match wins. Active, Online and maintenance play no part: repair must reach a server
// that customers may not (I-10).
var table = []rule{
	{
		number: "1", condition: "the agent is unknown",
		matches: func(f facts) bool { return f.State == Unknown },
		because: func(f facts) string {
			return pick(f.State == Unknown, "no agent has this name", "the registry knows it")
		},
		decision: refuse("1", fault.AgentNotFound, func(f facts) string { return fmt.Sprintf("there is no agent %q", f.Name) }),
	},
	{
		number: "2", condition: "the agent is not accepted",
		matches: func(f facts) bool { return f.State != Accepted },
		because: func(f facts) string { return "its registration is " + f.State.String() },
		decision: refuse("2", fault.AgentNotAccepted, func(f facts) string {
			return fmt.Sprintf("agent %q is %s; an operator must accept it first", f.Name, f.State)
		}),
	},
	{
		number: "2a", condition: "the names of agent and linked server differ",
		matches: func(f facts) bool { return f.NamesDiffer },
		because: func(f facts) string { return fmt.Sprintf("its linked server is named %q", f.ServerName) },
		decision: refuse("2a", fault.NameMismatch, func(f facts) string {
			return fmt.Sprintf("agent %q is linked to a server that is now named %q; rename the server back, or reject and accept the agent", f.Name, f.ServerName)
		}),
	},
	{
		number: "2a", condition: "two machines use the name, and the command is a write",
		matches: func(f facts) bool { return f.IdentityConflict && f.write },
		because: func(f facts) string {
			return pick(f.IdentityConflict, "two machines seem to use its name", "one machine uses its name") + pick(f.write, "; this is a write", "; this is a read")
		},
		decision: refuse("2a", fault.IdentityConflict, func(f facts) string {
			return fmt.Sprintf("two machines seem to use the name %q, so a write could reach the wrong one; make sure that only one does, then resolve the conflict", f.Name)
		}),
	},
	{
		number: "3", condition: "it is on Service Bus and its bus heartbeat is fresh",
		matches:  func(f facts) bool { return f.OnServiceBus && !f.stale() },
		because:  func(f facts) string { return pick(f.OnServiceBus, f.heartbeat(), "it is not on Service Bus") },
		decision: send("3", ServiceBus),
	},
	{
		number: "4", condition: "it is on Service Bus, stale there, and its HTTP is verified",
		matches: func(f facts) bool { return f.OnServiceBus && f.HTTPBaseURL != "" && f.verified() },
		because: func(f facts) string { return pick(f.OnServiceBus, f.verification(), "it is not on Service Bus") },
		decision: func(f facts) Decision {
			why := "the agent is on Service Bus, but " + f.heartbeat() + "; " + f.verification()
			return Decision{Rule: "4", Transport: HTTP, Fallback: why, Detail: why}
		},
	},
	{
		number: "5", condition: "it is on Service Bus, stale there, and its HTTP is not verified",
		matches:  func(f facts) bool { return f.OnServiceBus && f.HTTPBaseURL != "" },
		because:  func(f facts) string { return pick(f.OnServiceBus, f.verification(), "it is not on Service Bus") },
		decision: refuse("5", fault.HeartbeatStale, staleDetail),
	},
	{
		number: "6", condition: "it is on Service Bus, stale there, and has no HTTP base URL",
		matches:  func(f facts) bool { return f.OnServiceBus },
		because:  func(f facts) string { return pick(f.OnServiceBus, f.verification(), "it is not on Service Bus") },
		decision: refuse("6", fault.HeartbeatStale, staleDetail),
	},
	{
		number: "7", condition: "it is not on Service Bus and has an HTTP base URL",
		matches: func(f facts) bool { return f.HTTPBaseURL != "" },
		because: func(f facts) string {
			return pick(f.HTTPBaseURL != "", "its base URL is "+f.HTTPBaseURL, "it has no HTTP base URL")
		},
		decision: send("7", HTTP),
	},
}

// last matches whatever is left.
var last = rule{
	number: "8", condition: "it has no transport",
	matches: func(facts) bool { return true },
	because: func(facts) string { return "it is not on Service Bus and has no HTTP base URL" },
	decision: refuse("8", fault.AgentUnreachable, func(f facts) string {
		return fmt.Sprintf("no transport configured: agent %q is not on Service Bus and has no HTTP base URL; set its httpBaseUrl", f.Name)
	}),
}

func refuse(number string, reason fault.Reason, detail func(facts) string) func(facts) Decision {
	return func(f facts) Decision {
		return Decision{Rule: number, Refusal: reason, Detail: detail(f) + "; nothing was sent"}
	}
}

func send(number string, transport Transport) func(facts) Decision {
	return func(f facts) Decision {
		why := "the agent is reached at " + f.HTTPBaseURL
		if transport == ServiceBus {
			why = "the agent is on Service Bus and " + f.heartbeat()
		}
		return Decision{Rule: number, Transport: transport, Detail: why}
	}
}

func staleDetail(f facts) string {
	detail := fmt.Sprintf("agent %q is on Service Bus and %s; %s", f.Name, f.heartbeat(), f.verification())
	if f.HTTPBaseURL != "" {
		detail += "; verify its HTTP to reach it that way"
	}
	if f.IngestBlind {
		detail += "; mind that our own reception of heartbeats is not healthy (" + f.IngestDetail + "), so the agent may be well"
	}
	if f.BrokerAhead != 0 {
		detail += "; the broker's clock is " + apart(f.BrokerAhead) + " the database's: see that both keep their time; ages do not depend on it, " +
			"so the agent is silent all the same, unless a heartbeat replica of an earlier release runs"
	}
	return detail
}

// apart is how far one clock is from another, which follows it.
func apart(ahead time.Duration) string {
	if ahead < 0 {
		return round(-ahead).String() + " behind"
	}
	return round(ahead).String() + " ahead of"
}

func pick(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}

// String is the state as operators know it.
func (s State) String() string {
	names := [...]string{"unknown", "Pending", "Accepted", "Rejected"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("State(%d)", int(s)) // of a newer registry; it is not Accepted
	}
	return names[s]
}
