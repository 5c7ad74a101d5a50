package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// repeatRules are of ids that come twice.
func repeatRules() []rule {
	return []rule{
		{"6.2", "a repeat is answered with what became of the first, and runs nothing", repeatsAnswer},
		{"6.3", "the id of another command is refused", refusesReusedID},
		{"6.4", "what was refused was not begun, so that its id may still run", refusedIsNotBegun},
		{"6.5", "GetCommand is answered with the record of the id", tellsRecord},
		{"6.6", "a repeat after a restart runs nothing", repeatsAfterRestart},
		{journalRule, "a write that can't be recorded is refused as JOURNAL_UNAVAILABLE", needsFullDisk},
		{hostStateRule, "what the machine's state does not allow is refused as HOST_STATE", needsHostState},
	}
}

// Rules that nothing at the other end of the bus can bring about. They are in the report so that it is seen that they are not tried.
const (
	journalRule   = "6.7"
	hostStateRule = "6.8"
)

func needsFullDisk(context.Context, *run) verdict {
	return notTried("it needs the agent's disk to be full or its journal to be unwritable, which is not brought about from outside; test it in the agent")
}

func needsHostState(context.Context, *run) verdict {
	return notTried("it needs a disabled service or a stopped pool, and nothing here knows whether the machine has one; test it in the agent")
}

const needsWrite = "the agent names no write that could change nothing; -write names one that may be carried out"

// record asks what became of a command.
func (r *run) record(ctx context.Context, id string) (*agentv1.CommandRecord, error) {
	argument, err := json.Marshal(map[string]string{"commandId": id})
	if err != nil {
		return nil, err
	}
	a, err := r.ask(ctx, r.command(operation{"getCommand", argument}))
	if err != nil {
		return nil, err
	}
	if a.GetCommandRecord() == nil {
		return nil, fmt.Errorf("getCommand was answered %s, without a record", words(a, nil))
	}
	return a.GetCommandRecord(), nil
}

// carryOut has a write carried out, which later rules refer to, unless one was. It says what was wrong with it.
func (r *run) carryOut(ctx context.Context) (problem string) {
	if r.writeID != "" {
		return ""
	}
	if r.write.field == "" {
		return needsWrite
	}
	command := r.command(r.write)
	first, err := r.ask(ctx, command)
	switch {
	case err != nil || !carriedOut(first.CommandResult):
		return r.write.field + " was answered " + words(first, err)
	case first.GetStartedAt() == nil:
		return "the work was done, and startedAt is not there"
	}
	r.writeID, r.writeDone = command.id(), first
	return ""
}

func repeatsAnswer(ctx context.Context, r *run) verdict {
	if r.write.field == "" {
		return notTried(needsWrite)
	}
	if problem := r.carryOut(ctx); problem != "" {
		return failed("%s", problem)
	}
	first, command := r.writeDone, r.command(r.write).with("commandId", r.writeID)
	second, err := r.ask(ctx, command)
	if wrong := another(first, second, err); wrong != "" {
		return failed("%s", wrong)
	}
	return passed("%s, started at %s", words(first, nil), first.GetStartedAt().AsTime().Format(time.RFC3339Nano))
}

func refusesReusedID(ctx context.Context, r *run) verdict {
	if problem := r.carryOut(ctx); problem != "" {
		return notTried("%s", problem)
	}
	a, err := r.ask(ctx, r.command(r.read()).with("commandId", r.writeID))
	if problem := refusedFor(invalid, a, err); problem != "" {
		return failed("a read under the id of a write: %s", problem)
	}
	return passed("INVALID")
}

func refusedIsNotBegun(ctx context.Context, r *run) verdict {
	if r.write.field == "" {
		return notTried(needsWrite)
	}
	command := r.command(r.write)
	refusal, err := r.ask(ctx, command.with("targetAgent", r.agentName()+"-other"))
	if problem := refusedFor(wrongAgent, refusal, err); problem != "" {
		return failed("%s", problem)
	}
	if a, err := r.ask(ctx, command); err != nil || !carriedOut(a.CommandResult) {
		return failed("after a refusal the same id was answered %s", words(a, err))
	}
	return passed("it ran after WRONG_AGENT")
}

func tellsRecord(ctx context.Context, r *run) verdict {
	unknown := newID()
	record, err := r.record(ctx, unknown)
	switch {
	case err != nil:
		return failed("%v", err)
	case record.GetState() != agentv1.CommandState_COMMAND_STATE_NEVER_RECEIVED || record.GetCommandId() != unknown:
		return failed("an id that it never had: %v", record)
	case r.carryOut(ctx) != "":
		return passed("NEVER_RECEIVED, for an id that it never had")
	}
	record, err = r.record(ctx, r.writeID)
	switch {
	case err != nil:
		return failed("%v", err)
	case record.GetState() != agentv1.CommandState_COMMAND_STATE_FINISHED || record.GetResult().GetOutcome() != r.writeDone.GetOutcome():
		return failed("of a command that was answered %s: %v", words(r.writeDone, nil), record)
	case record.GetBegunAt() == nil:
		return failed("of a command that was begun, without begunAt")
	}
	return passed("NEVER_RECEIVED and FINISHED")
}

func repeatsAfterRestart(ctx context.Context, r *run) verdict {
	if r.Process == nil {
		return notTried("it needs -run or -restart-command")
	}
	if problem := r.carryOut(ctx); problem != "" {
		return notTried("%s", problem)
	}
	boots, _ := r.boots()
	if err := r.Process.Restart(ctx); err != nil {
		return notTried("the agent could not be restarted: %v", err)
	}
	if problem := r.newBoot(ctx, boots); problem != "" {
		return failed("%s", problem)
	}
	command := r.command(r.write).with("commandId", r.writeID)
	second, err := r.ask(ctx, command)
	if err == nil && refusedFor(alreadyBegun, second, nil) == "" {
		return passed("ALREADY_BEGUN")
	}
	if wrong := another(r.writeDone, second, err); wrong != "" {
		return failed("%s", wrong)
	}
	return passed("%s, with the times of before the restart", words(second, nil))
}

// newBoot waits for a heartbeat of a boot that is none of those before, and says what is wrong with it.
func (r *run) newBoot(ctx context.Context, before []string) string {
	known := map[string]bool{}
	for _, boot := range before {
		known[boot] = true
	}
	first, ok := r.bus.awaitHeartbeat(ctx, r.Patience+2*r.Interval, func(h *heard) bool {
		return h.problem == nil && sameName(h.GetName(), r.Name) && !known[h.GetBootId()]
	})
	switch {
	case !ok:
		return "after a restart no heartbeat with another boot id came; draw one at each start"
	case first.GetSequence() != 1:
		return fmt.Sprintf("the first heartbeat of boot %s has sequence %d; count from 1", strings.TrimSpace(first.GetBootId()), first.GetSequence())
	}
	return ""
}
