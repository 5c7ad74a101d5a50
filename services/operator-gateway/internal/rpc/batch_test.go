package rpc

import (
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
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

// A named set goes to agents in the field that all of them know; which set is meant is never guessed.
func TestTheWantedPackagesAreSentAsEveryAgentKnowsThem(t *testing.T) {
	packages := []*agentv1.Package{{Id: "Benefits.Web", Version: "1.2.3"}}
	named := &agentv1.PackageSet{Packages: packages}
	for name, row := range map[string]struct {
		asked, want *agentv1.SyncPackages // want nil: refused
	}{
		"nothing: the configured set": {&agentv1.SyncPackages{}, &agentv1.SyncPackages{}},
		"packages":                    {&agentv1.SyncPackages{Packages: packages}, &agentv1.SyncPackages{Packages: packages}},
		"wanted":                      {&agentv1.SyncPackages{Wanted: named}, &agentv1.SyncPackages{Packages: packages}},
		"both":                        {&agentv1.SyncPackages{Packages: packages, Wanted: named}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			command, err := batchOperation(&operatorv1.BatchRunRequest{Operation: &operatorv1.BatchRunRequest_SyncPackages{SyncPackages: row.asked}})
			if row.want == nil {
				if found := fault.From(err); found == nil || len(found.Fields) != 1 || found.Fields[0].Pointer != "/syncPackages/wanted" {
					t.Errorf("answered %v", err)
				}
				return
			}
			if err != nil || !proto.Equal(command.GetSyncPackages(), row.want) {
				t.Errorf("sent %v, %v", command, err)
			}
		})
	}
	// An empty set that was named would remove every package. It is refused by the contract, before any service sees it.
	if err := protovalidate.Validate(&operatorv1.SyncPackagesRequest{Agent: "BM-1", Wanted: &agentv1.PackageSet{}}); err == nil {
		t.Error("an empty set is taken")
	}
}
