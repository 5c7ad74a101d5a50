package agent

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// A restart of the agent's own service ends the process that runs it. So it is answered as accepted first, then done; and
// that the next process runs is what completes it.

// restartsItself says whether the command restarts the service that the agent runs as.
func (e *executor) restartsItself(cmd *agentv1.Command) bool {
	restart := cmd.GetRestartService()
	return restart != nil && e.host.RestartsAgent(restart.GetService())
}

// acceptRestart is the answer to such a command. Other writes are kept out until the process ends.
func (e *executor) acceptRestart(t *ticket, release func()) *agentv1.CommandResult {
	if t.record != nil {
		if err := e.journal.restarting(t.record); err != nil {
			release()
			result := e.refused(t.cmd, refuse(agentv1.RefusalReason_REFUSAL_REASON_JOURNAL_UNAVAILABLE, "%s", err))
			e.forget(t, result)
			return result
		}
	}
	t.release = release
	return &agentv1.CommandResult{
		CommandId: t.cmd.GetCommandId(), Agent: e.name, Outcome: agentv1.Outcome_OUTCOME_SUCCEEDED,
		Message: "accepted; the agent restarts", StartedAt: timestamppb.Now(),
		Payload: &agentv1.CommandResult_Changes{Changes: &agentv1.Changes{}},
	}
}

// answered follows when the answer to a command is out, or can't be sent: now the agent may go.
func (e *executor) answered(t *ticket) {
	if t.release == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.draining: // it goes already
		t.release()
	default:
		e.restarts.Go(func() { e.restart(t) })
	}
}

// answering bounds the time that the answer may take, where a restart follows it.
func (t *ticket) answering(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.release == nil {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, t.receivedAt.at.Add(t.startWithin))
}

// restart has the host end this process, unless the answer took too long. That it still lives in the end is a failure.
func (e *executor) restart(t *ticket) {
	defer t.release()
	if late := t.expired(); late != nil {
		e.logger.Error("the agent is not restarted", "command_id", t.cmd.GetCommandId(), "message", late.message)
		late.outcome, late.message = agentv1.Outcome_OUTCOME_FAILED, "the agent was not restarted, since its answer took too long; "+late.message
		e.finish(t, e.refused(t.cmd, late))
		return
	}
	result := e.run(t.cmd, t.op)
	if result.GetOutcome() == agentv1.Outcome_OUTCOME_SUCCEEDED && !waitFor(e.draining, e.writeTimeout) {
		result.Outcome = agentv1.Outcome_OUTCOME_FAILED
		result.Message = fmt.Sprintf("the host says that it restarts the agent, which still runs %s later", e.writeTimeout)
	}
	select {
	case <-e.draining: // it ends; the outcome is the next one's to tell
	default:
		e.logger.Error("the agent was to be restarted and was not", "command_id", t.cmd.GetCommandId(), "message", result.GetMessage())
		e.finish(t, result)
	}
}

// restarted is what became of a restart of the agent that the process before this one had begun. Its duration is not told:
// no clock saw both ends.
func restarted(id, agent string, begun, now time.Time) *agentv1.CommandResult {
	return &agentv1.CommandResult{
		CommandId: id, Agent: agent, Outcome: agentv1.Outcome_OUTCOME_SUCCEEDED, Message: "the agent restarted",
		StartedAt: timestamppb.New(begun), FinishedAt: timestamppb.New(now),
		Payload: &agentv1.CommandResult_Changes{Changes: &agentv1.Changes{Changes: []*agentv1.Change{{
			Subject: "agent " + agent, Before: "running", After: "restarted",
		}}}},
	}
}

// lookup is what the journal has about a command.
func (e *executor) lookup(id string) *agentv1.CommandRecord {
	found := &agentv1.CommandRecord{CommandId: id, State: agentv1.CommandState_COMMAND_STATE_NEVER_RECEIVED}
	r := e.journal.lookup(id, time.Now())
	if r == nil {
		return found
	}
	found.State, found.BegunAt = agentv1.CommandState_COMMAND_STATE_BEGUN, timestamppb.New(r.begun)
	select {
	case <-r.done:
	default:
		found.Running = true
		return found
	}
	switch {
	case r.result == nil: // lost
	case r.write:
		found.State, found.Result = agentv1.CommandState_COMMAND_STATE_FINISHED, shortResult(r.result)
	default:
		found.State, found.Result = agentv1.CommandState_COMMAND_STATE_FINISHED, unread(r.result)
	}
	return found
}

// unread is the result of a read without what was read, which is old by now.
func unread(result *agentv1.CommandResult) *agentv1.CommandResult {
	short := stripped(result, "")
	short.Outcome, short.Message = result.GetOutcome(), result.GetMessage()
	return short
}
