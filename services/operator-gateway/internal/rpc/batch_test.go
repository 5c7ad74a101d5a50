package rpc

import (
	"testing"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/command"
)

// Nothing is told as not sent or not done that may have been.
func TestI3_OutcomesOfABatch(t *testing.T) {
	for name, row := range map[string]struct {
		outcome command.BatchOutcome
		want    operatorv1.BatchOutcome
	}{
		"done":                  {command.BatchOutcome{}, operatorv1.BatchOutcome_BATCH_OUTCOME_SUCCEEDED},
		"not accepted":          {command.BatchOutcome{Err: fault.New(fault.AgentNotAccepted, "")}, operatorv1.BatchOutcome_BATCH_OUTCOME_NOT_SENT},
		"bus down":              {command.BatchOutcome{Err: fault.New(fault.BusUnavailable, "")}, operatorv1.BatchOutcome_BATCH_OUTCOME_NOT_SENT},
		"refused by the agent":  {command.BatchOutcome{Err: fault.New(fault.CommandRefused, "").WithCommand("c")}, operatorv1.BatchOutcome_BATCH_OUTCOME_FAILED},
		"failed":                {command.BatchOutcome{Err: fault.New(fault.AgentFailed, "").WithCommand("c")}, operatorv1.BatchOutcome_BATCH_OUTCOME_FAILED},
		"unknown":               {command.BatchOutcome{Err: fault.New(fault.OutcomeUnknown, "").WithCommand("c")}, operatorv1.BatchOutcome_BATCH_OUTCOME_UNKNOWN},
		"a bug of the gateway":  {command.BatchOutcome{Err: fault.New(fault.Internal, "").WithCommand("c")}, operatorv1.BatchOutcome_BATCH_OUTCOME_UNKNOWN},
		"a bug before anything": {command.BatchOutcome{Err: fault.New(fault.Internal, "")}, operatorv1.BatchOutcome_BATCH_OUTCOME_UNKNOWN},
		"never reached":         {command.BatchOutcome{Stopped: command.CallerGone}, operatorv1.BatchOutcome_BATCH_OUTCOME_NOT_STARTED},
	} {
		item := batchItem(row.outcome)
		if item.GetOutcome() != row.want || fault.From(row.outcome.Err) != nil && fault.From(row.outcome.Err).CommandID != item.GetCommand().GetCommandId() {
			t.Errorf("%s: %v", name, item)
		}
	}
}
