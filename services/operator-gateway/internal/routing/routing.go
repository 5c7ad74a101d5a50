// Package routing decides which transport a command takes, or why it is refused. It is a pure function of what the registry
// read, the time since, and the policy; one table serves the decision and its explanation.
package routing

import (
	"fmt"
	"time"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// State is an operator's decision about an agent.
type State int

// The states; Unknown is an agent the registry does not have.
const (
	Unknown State = iota
	Pending
	Accepted
	Rejected
)

// Transport is how a command goes.
type Transport int

// The transports; None goes with a refusal.
const (
	None Transport = iota
	ServiceBus
	HTTP
)

// Agent is what a decision rests on. Ages are those of the registry's read; Elapsed is the time since, by a monotonic clock.
type Agent struct {
	Name         string
	State        State
	OnServiceBus bool
	// BusHeard and BusHeartbeatAge tell of the last heartbeat over the bus; direct ones prove nothing about it.
	BusHeard        bool
	BusHeartbeatAge time.Duration
	HTTPBaseURL     string
	// Verified: the last HTTP verification succeeded, so long ago. Disproved: it failed.
	Verified, Disproved bool
	VerificationAge     time.Duration
	// NamesDiffer: the linked server has another name than the agent, case aside.
	NamesDiffer      bool
	ServerName       string
	IdentityConflict bool
	// IngestBlind: our own ears don't work, so that a stale heartbeat may be our fault.
	IngestBlind  bool
	IngestDetail string
	// BrokerAhead is how far the broker's clock is ahead of the database's, negative when behind; 0 while they agree as far as known.
	BrokerAhead time.Duration
	Elapsed     time.Duration
}

// Policy is what is configured.
type Policy struct {
	// MaxHeartbeatAge: at this age and beyond a bus heartbeat is stale.
	MaxHeartbeatAge time.Duration
	// MaxVerificationAge: beyond this age a verification no longer counts.
	MaxVerificationAge time.Duration
}

// Decision is where a command goes, or why it does not.
type Decision struct {
	Rule      string
	Transport Transport
	Refusal   fault.Reason // empty when there is a transport
	// Fallback says why a command goes over HTTP although its agent is on Service Bus.
	Fallback string
	Detail   string
	// Verified: the agent's HTTP verification counts, so that a credential may be sent to its base URL.
	Verified bool
}

// Verdict is one rule with what it found.
type Verdict struct {
	Number, Condition string
	Matched           bool
	Because           string
}

// Decide applies the rules in order; the first that matches decides.
func Decide(agent Agent, write bool, policy Policy) Decision {
	facts := facts{agent, write, policy}
	for _, rule := range table {
		if rule.matches(facts) {
			return facts.decided(rule)
		}
	}
	return facts.decided(last)
}

// Explain decides too, and tells what each rule found up to the one that decided.
func Explain(agent Agent, write bool, policy Policy) (Decision, []Verdict) {
	facts := facts{agent, write, policy}
	var verdicts []Verdict
	for _, rule := range append(table[:len(table):len(table)], last) {
		matched := rule.matches(facts)
		verdicts = append(verdicts, Verdict{rule.number, rule.condition, matched, rule.because(facts)})
		if matched {
			return facts.decided(rule), verdicts
		}
	}
	return facts.decided(last), verdicts
}

type facts struct {
	Agent
	write  bool
	policy Policy
}

func (f facts) decided(by rule) Decision {
	decision := by.decision(f)
	decision.Verified = f.HTTPBaseURL != "" && f.verified()
	return decision
}

func (f facts) stale() bool {
	return !f.BusHeard || f.BusHeartbeatAge+f.Elapsed >= f.policy.MaxHeartbeatAge
}

func (f facts) verified() bool {
	return f.Verified && !f.Disproved && f.VerificationAge+f.Elapsed <= f.policy.MaxVerificationAge
}

func (f facts) heartbeat() string {
	if !f.BusHeard {
		return "it was never heard on the bus"
	}
	return fmt.Sprintf("its last bus heartbeat is %s old, stale from %s", round(f.BusHeartbeatAge+f.Elapsed), f.policy.MaxHeartbeatAge)
}

func (f facts) verification() string {
	switch {
	case f.HTTPBaseURL == "":
		return "it has no HTTP base URL"
	case f.Disproved:
		return "its last HTTP verification failed"
	case !f.Verified:
		return "its HTTP was never verified"
	}
	return fmt.Sprintf("its HTTP was verified %s ago, which counts for %s", round(f.VerificationAge+f.Elapsed), f.policy.MaxVerificationAge)
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
