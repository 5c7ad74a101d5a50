package rpc

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"google.golang.org/grpc"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/spelling"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/command"
)

const (
	defaultParallelism  = 16
	defaultFailureLimit = 1
	// batchDeadline bounds a whole batch; its commands have budgets of their own.
	batchDeadline = time.Hour
)

// stops says for people why a batch ended early.
var stops = map[command.Stop]string{
	command.FailuresReached: "the limit of failures was reached",
	command.CallerGone:      "the caller went away",
	command.GatewayStops:    "the gateway is stopping",
}

// BatchRun carries out one operation on many agents.
func (s *Operations) BatchRun(request *operatorv1.BatchRunRequest, stream grpc.ServerStreamingServer[operatorv1.BatchRunEvent]) error {
	ctx := stream.Context()
	batch, err := batchOf(ctx, request)
	if err != nil {
		return err
	}
	summary := &operatorv1.BatchRunSummary{}
	var broken error // the caller may be gone, while commands under way are finished
	send := func(event *operatorv1.BatchRunEvent) {
		if broken == nil {
			broken = stream.Send(event)
		}
	}
	stopped := s.Executor.ExecuteBatch(ctx, s.Stopping, actor(ctx), batch, func(outcome command.BatchOutcome) {
		item := batchItem(outcome)
		count(summary, item.GetOutcome())
		send(&operatorv1.BatchRunEvent{Event: &operatorv1.BatchRunEvent_Item{Item: item}})
	})
	summary.Stopped = stops[stopped]
	s.auditBatch(ctx, batch, summary)
	send(&operatorv1.BatchRunEvent{Event: &operatorv1.BatchRunEvent_Summary{Summary: summary}})
	return broken
}

func batchOf(ctx context.Context, request *operatorv1.BatchRunRequest) (command.Batch, error) {
	operation, err := batchOperation(request)
	if err != nil {
		return command.Batch{}, err
	}
	batch := command.Batch{
		Operation: operation, Agents: request.GetAgents(),
		Parallelism: int(request.GetParallelism()), FailureLimit: int(request.GetFailureLimit()),
	}
	if batch.Parallelism == 0 {
		batch.Parallelism = defaultParallelism
	}
	if batch.FailureLimit == 0 {
		batch.FailureLimit = defaultFailureLimit
	}
	seen := make(map[string]bool, len(batch.Agents))
	for i, agent := range batch.Agents {
		key := spelling.Key(agent)
		if seen[key] {
			return batch, fault.Invalid("/agents/"+strconv.Itoa(i), "%q is there already, in this case or another", agent)
		}
		seen[key] = true
	}
	batch.Operation.CommandId, err = idempotencyKey(ctx)
	return batch, err
}

func batchOperation(request *operatorv1.BatchRunRequest) (*agentv1.Command, error) {
	switch asked := request.GetOperation().(type) {
	case *operatorv1.BatchRunRequest_Uninstall:
		return &agentv1.Command{Operation: &agentv1.Command_Uninstall{Uninstall: asked.Uninstall}}, nil
	case *operatorv1.BatchRunRequest_StartService:
		return &agentv1.Command{Operation: &agentv1.Command_StartService{StartService: asked.StartService}}, nil
	case *operatorv1.BatchRunRequest_StopService:
		return &agentv1.Command{Operation: &agentv1.Command_StopService{StopService: asked.StopService}}, nil
	case *operatorv1.BatchRunRequest_RestartService:
		return &agentv1.Command{Operation: &agentv1.Command_RestartService{RestartService: asked.RestartService}}, nil
	case *operatorv1.BatchRunRequest_StartAppPool:
		return &agentv1.Command{Operation: &agentv1.Command_StartAppPool{StartAppPool: asked.StartAppPool}}, nil
	case *operatorv1.BatchRunRequest_StopAppPool:
		return &agentv1.Command{Operation: &agentv1.Command_StopAppPool{StopAppPool: asked.StopAppPool}}, nil
	case *operatorv1.BatchRunRequest_RecycleAppPool:
		return &agentv1.Command{Operation: &agentv1.Command_RecycleAppPool{RecycleAppPool: asked.RecycleAppPool}}, nil
	case *operatorv1.BatchRunRequest_SyncPackages:
		set, err := wantedPackages(asked.SyncPackages, "/syncPackages")
		return &agentv1.Command{Operation: &agentv1.Command_SyncPackages{SyncPackages: set}}, err
	}
	return &agentv1.Command{}, nil // none is refused before
}

func batchItem(outcome command.BatchOutcome) *operatorv1.BatchRunItem {
	item := &operatorv1.BatchRunItem{Agent: outcome.Agent}
	if outcome.Stopped != command.NotStopped {
		item.Outcome = operatorv1.BatchOutcome_BATCH_OUTCOME_NOT_STARTED
		item.Detail = stops[outcome.Stopped] + " before its turn; nothing was sent to it"
		return item
	}
	if outcome.Err == nil {
		item.Outcome, item.Command = operatorv1.BatchOutcome_BATCH_OUTCOME_SUCCEEDED, commandResponse(outcome.Result)
		return item
	}
	found := fault.From(outcome.Err)
	item.Reason, item.Detail = string(found.Reason), found.Detail
	switch {
	case found.Reason == fault.OutcomeUnknown || found.Reason == fault.Internal:
		item.Outcome = operatorv1.BatchOutcome_BATCH_OUTCOME_UNKNOWN
	case found.CommandID == "":
		item.Outcome = operatorv1.BatchOutcome_BATCH_OUTCOME_NOT_SENT
	default:
		item.Outcome = operatorv1.BatchOutcome_BATCH_OUTCOME_FAILED
	}
	if found.CommandID != "" {
		item.Command = &operatorv1.CommandResponse{Agent: found.Agent, CommandId: found.CommandID}
	}
	return item
}

func count(summary *operatorv1.BatchRunSummary, outcome operatorv1.BatchOutcome) {
	switch outcome {
	case operatorv1.BatchOutcome_BATCH_OUTCOME_SUCCEEDED:
		summary.Succeeded++
	case operatorv1.BatchOutcome_BATCH_OUTCOME_FAILED:
		summary.Failed++
	case operatorv1.BatchOutcome_BATCH_OUTCOME_UNKNOWN:
		summary.Unknown++
	case operatorv1.BatchOutcome_BATCH_OUTCOME_NOT_SENT:
		summary.NotSent++
	case operatorv1.BatchOutcome_BATCH_OUTCOME_NOT_STARTED:
		summary.NotStarted++
	}
}

// auditBatch is the batch's own line; each command that was made has its own besides. It names the agents that were never reached,
// since a caller who went away does not hear of them.
func (s *Operations) auditBatch(ctx context.Context, batch command.Batch, summary *operatorv1.BatchRunSummary) {
	never := batch.Agents[len(batch.Agents)-int(summary.GetNotStarted()):]
	s.Executor.Logger.LogAttrs(ctx, slog.LevelInfo, "audit: batch", slog.String("principal", actor(ctx)),
		slog.String("operation", command.Kind(batch.Operation)), slog.Int("agents", len(batch.Agents)),
		slog.Int("succeeded", int(summary.GetSucceeded())), slog.Int("failed", int(summary.GetFailed())), slog.Int("unknown", int(summary.GetUnknown())),
		slog.Int("not_sent", int(summary.GetNotSent())), slog.Any("never_started", never), slog.String("stopped", summary.GetStopped()),
		slog.String("request_id", grpcserver.RequestID(ctx)))
}
