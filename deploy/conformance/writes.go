package conformance

import (
	"context"
	"time"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// writeRules are of two commands at once. They need a write that takes a while.
func writeRules() []rule {
	return []rule{
		{"5.1", "a write that comes while another runs waits briefly, and is refused", refusesSecondWrite},
		{"5.2", "a read waits for no write", readsBesideWrites},
		{"4.7", "a write whose budget ends while it waits is not started", expiresWaiting},
		{"6.1", "a repeat while the first runs is answered with its outcome", repeatsWhileRunning},
	}
}

// slowEnough is how long the slow write must take, so that what waited for all of it waited too long: a write may wait 2 s.
const slowEnough = 6 * time.Second

const needsSlowWrite = "it needs -slow-write, a write that takes 6 s or more"

// beside has a slow write run, does something meanwhile, and gives the slow one's answer. running reports whether the agent says that the
// slow write is under way.
func (r *run) beside(ctx context.Context, do func(slow fields, pending *sent)) (slow answer, err error) {
	op, err := parseOperation("-slow-write", r.SlowWrite)
	if err != nil {
		return slow, err
	}
	command := r.command(op)
	pending, err := r.start(ctx, command)
	if err != nil {
		return slow, err
	}
	defer pending.done()
	r.awaitBegun(ctx, command.id())
	do(command, pending)
	return r.answered(ctx, pending)
}

// awaitBegun asks until the agent knows the command: then it is taken, and what is sent from now on comes after it. An agent that does not
// answer this question is given a moment.
func (r *run) awaitBegun(ctx context.Context, id string) {
	for deadline := time.Now().Add(r.Patience); time.Now().Before(deadline) && ctx.Err() == nil; pause(ctx, 50*time.Millisecond) {
		record, err := r.record(ctx, id)
		if err != nil {
			pause(ctx, time.Second)
			return
		}
		if record.GetState() != agentv1.CommandState_COMMAND_STATE_NEVER_RECEIVED {
			return
		}
	}
}

// overlap says what is wrong with two writes that were both carried out; empty: the first had ended.
func overlap(first, second answer) string {
	end, start := first.GetFinishedAt(), second.GetStartedAt()
	if end == nil || start == nil || !start.AsTime().Before(end.AsTime()) {
		return ""
	}
	return "it started at " + start.AsTime().Format(time.RFC3339Nano) + ", and the one before ended at " + end.AsTime().Format(time.RFC3339Nano)
}

func refusesSecondWrite(ctx context.Context, r *run) verdict {
	if r.SlowWrite == "" || r.write.field == "" {
		return notTried(needsSlowWrite)
	}
	var second answer
	var problem error
	slow, err := r.beside(ctx, func(fields, *sent) { second, problem = r.ask(ctx, r.command(r.write)) })
	switch {
	case err != nil || !carriedOut(slow.CommandResult):
		return notTried("the slow write was answered %s", words(slow, err))
	case problem != nil:
		return failed("the second write: %v", problem)
	case carriedOut(second.CommandResult) && overlap(slow, second) != "":
		return failed("two writes ran at once: %s", overlap(slow, second))
	case carriedOut(second.CommandResult) && slow.GetDuration().AsDuration() >= slowEnough:
		return failed("it waited for a write of %s, and was carried out then", slow.GetDuration().AsDuration())
	case carriedOut(second.CommandResult):
		return notTried("the slow write took %s only", slow.GetDuration().AsDuration())
	}
	if wrong := refusedFor(busy, second, nil); wrong != "" {
		return failed("%s", wrong)
	}
	return passed("BUSY, while the other ran for %s", slow.GetDuration().AsDuration().Round(time.Millisecond))
}

func readsBesideWrites(ctx context.Context, r *run) verdict {
	if r.SlowWrite == "" {
		return notTried(needsSlowWrite)
	}
	var read answer
	var problem error
	slow, err := r.beside(ctx, func(fields, *sent) { read, problem = r.ask(ctx, r.command(r.read())) })
	switch {
	case err != nil || !carriedOut(slow.CommandResult):
		return notTried("the slow write was answered %s", words(slow, err))
	case problem != nil || !carriedOut(read.CommandResult):
		return failed("the read was answered %s", words(read, problem))
	case read.GetStartedAt() == nil || slow.GetFinishedAt() == nil:
		return failed("startedAt of the read or finishedAt of the write is not there")
	case !read.GetStartedAt().AsTime().Before(slow.GetFinishedAt().AsTime()):
		return failed("the read started at %s, after the write had ended", read.GetStartedAt().AsTime().Format(time.RFC3339Nano))
	}
	return passed("it started %s before the write ended", slow.GetFinishedAt().AsTime().Sub(read.GetStartedAt().AsTime()).Round(time.Millisecond))
}

func expiresWaiting(ctx context.Context, r *run) verdict {
	if r.SlowWrite == "" || r.write.field == "" {
		return notTried(needsSlowWrite)
	}
	var second answer
	var problem error
	slow, err := r.beside(ctx, func(fields, *sent) {
		second, problem = r.ask(ctx, r.command(r.write).with("budget", "0.500s"))
	})
	switch {
	case err != nil || !carriedOut(slow.CommandResult):
		return notTried("the slow write was answered %s", words(slow, err))
	case problem != nil:
		return failed("the write with 500 ms: %v", problem)
	case carriedOut(second.CommandResult) && overlap(slow, second) != "":
		return failed("two writes ran at once: %s", overlap(slow, second))
	case carriedOut(second.CommandResult) && slow.GetDuration().AsDuration() >= slowEnough:
		return failed("with a budget of 500 ms it was carried out after a write of %s", slow.GetDuration().AsDuration())
	case carriedOut(second.CommandResult):
		return notTried("the slow write took %s only", slow.GetDuration().AsDuration())
	case second.GetOutcome() != agentv1.Outcome_OUTCOME_EXPIRED && refusedFor(busy, second, nil) != "":
		return failed("%s instead of EXPIRED or REFUSED BUSY", words(second, nil))
	}
	return passed("%s", words(second, nil))
}

func repeatsWhileRunning(ctx context.Context, r *run) verdict {
	if r.SlowWrite == "" {
		return notTried(needsSlowWrite)
	}
	var second answer
	var problem error
	slow, err := r.beside(ctx, func(command fields, _ *sent) { second, problem = r.ask(ctx, command) })
	if err != nil || !carriedOut(slow.CommandResult) {
		return notTried("the slow write was answered %s", words(slow, err))
	}
	if wrong := another(slow, second, problem); wrong != "" {
		return failed("%s", wrong)
	}
	return passed("with the answer of the first")
}

// another says why the second answer does not tell of the same execution as the first; empty: it does.
func another(first, second answer, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case second.GetOutcome() != first.GetOutcome():
		return "the first was answered " + words(first, nil) + ", the repeat " + words(second, nil)
	case first.GetStartedAt() != nil && !second.GetStartedAt().AsTime().Equal(first.GetStartedAt().AsTime()):
		return "it was run again: startedAt was " + first.GetStartedAt().AsTime().Format(time.RFC3339Nano) +
			" and is " + second.GetStartedAt().AsTime().Format(time.RFC3339Nano)
	}
	return ""
}
