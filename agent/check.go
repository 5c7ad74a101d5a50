package agent

import (
	"fmt"
	"time"

	"buf.build/go/protovalidate"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

const (
	// maxBudget is the longest budget that a command may have.
	maxBudget = time.Hour
	// slotPatience is how long after its arrival a write may still be waiting for the one before it.
	slotPatience = 2 * time.Second
	// busPatience is how long after its arrival a command from the bus may be started. Its message may have waited there for
	// all of its budget, and the gateway takes it as not started 3 s after that.
	busPatience = slotPatience + 500*time.Millisecond
)

// refusal is why nothing was done.
type refusal struct {
	outcome agentv1.Outcome // refused or expired
	reason  agentv1.RefusalReason
	message string
}

func refuse(reason agentv1.RefusalReason, format string, args ...any) *refusal {
	return &refusal{agentv1.Outcome_OUTCOME_REFUSED, reason, fmt.Sprintf(format, args...) + "; nothing was done"}
}

// check decides whether this agent may run the command at all. nil means that it may.
func check(cmd *agentv1.Command, self string) *refusal {
	if target := cmd.GetTargetAgent(); target != "" && !sameName(target, self) {
		return refuse(agentv1.RefusalReason_REFUSAL_REASON_WRONG_AGENT,
			"targetAgent: the command is for agent %q, and this is agent %q", target, self)
	}
	if cmd.GetOperation() == nil {
		return refuse(agentv1.RefusalReason_REFUSAL_REASON_INVALID,
			"operation: the command has none that this agent knows")
	}
	if err := protovalidate.Validate(cmd); err != nil {
		return refuse(agentv1.RefusalReason_REFUSAL_REASON_INVALID, "%s", err)
	}
	if err := cmd.GetBudget().CheckValid(); err != nil {
		return refuse(agentv1.RefusalReason_REFUSAL_REASON_INVALID, "budget: %s", err)
	}
	if budget := cmd.GetBudget().AsDuration(); budget > maxBudget {
		return refuse(agentv1.RefusalReason_REFUSAL_REASON_INVALID, "budget: %s is more than %s", budget, maxBudget)
	}
	return nil
}

// expired decides whether it is too late to start the command, on this machine's clocks. nil means that it may still be
// started.
func (t *ticket) expired() *refusal {
	spent := t.receivedAt.age()
	if spent < t.startWithin {
		return nil
	}
	return &refusal{
		outcome: agentv1.Outcome_OUTCOME_EXPIRED,
		message: fmt.Sprintf("budget: %s after its arrival the command's time to start, %s, was over; nothing was done", spent, t.startWithin),
	}
}

// gone is why nothing is started for a caller who closed the connection: the gateway does so when the budget ends, so
// that this shows where the time was spent before the command was seen here.
func gone() *refusal {
	return &refusal{
		outcome: agentv1.Outcome_OUTCOME_EXPIRED,
		message: "budget: the caller was gone before the command could be started; nothing was done",
	}
}

// slotWait is how much longer a write may wait for the one before it.
func (t *ticket) slotWait() time.Duration {
	return max(0, min(t.startWithin, slotPatience)-t.receivedAt.age())
}
