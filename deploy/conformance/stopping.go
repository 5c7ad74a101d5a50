package conformance

import (
	"context"
	"encoding/json"
	"time"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// stopRules end the agent, so they come last but for what was heard of it.
func stopRules() []rule {
	return []rule{
		{"8.1", "a restart of the agent's own service is accepted, then done, and recorded at the next start", restartsItself},
		{"8.2", "when told to stop, it finishes the write that runs and refuses or leaves others", drains},
	}
}

func restartsItself(ctx context.Context, r *run) verdict {
	if r.OwnService == "" {
		return notTried("it needs -own-service, the name of the service that the agent runs as")
	}
	argument, err := json.Marshal(map[string]string{"service": r.OwnService})
	if err != nil {
		return notTried("%v", err)
	}
	boots, _ := r.boots()
	command := r.command(operation{"restartService", argument})
	a, err := r.ask(ctx, command)
	switch {
	case err != nil || a.GetOutcome() != agentv1.Outcome_OUTCOME_SUCCEEDED:
		return failed("it was answered %s", words(a, err))
	case a.GetFinishedAt() != nil:
		return failed("it was answered as done, with finishedAt; the process that answers can't know that")
	}
	if problem := r.newBoot(ctx, boots); problem != "" {
		return failed("%s", problem)
	}
	record, err := r.record(ctx, command.id())
	if err != nil || record.GetState() != agentv1.CommandState_COMMAND_STATE_FINISHED {
		return failed("after the restart its record is %v %v", record, err)
	}
	return passed("accepted, and FINISHED after the restart")
}

func drains(ctx context.Context, r *run) verdict {
	if r.Process == nil {
		return notTried("it needs -run, so that the agent can be told to stop")
	}
	var ended <-chan error
	var slow, late answer
	var stopping, lateErr error
	stop := func(fields, *sent) {
		if ended, stopping = r.Process.Stop(ctx); stopping != nil || ended == nil {
			return
		}
		if pending, err := r.start(ctx, r.command(r.read())); err == nil {
			late, lateErr = pending.await(ctx, quiet)
			pending.done()
		}
	}
	var err error
	if r.SlowWrite != "" {
		slow, err = r.beside(ctx, stop)
	} else {
		stop(nil, nil)
	}
	switch {
	case stopping != nil:
		return notTried("the agent could not be told to stop: %v", stopping)
	case ended == nil:
		return notTried("it needs -run: a -restart-command does not stop the agent")
	}
	defer func() { _ = r.Process.Start(ctx) }()
	select {
	case exit := <-ended:
		if exit != nil {
			return failed("it ended with %v", exit)
		}
	case <-time.After(r.Patience):
		return failed("it did not end within %s", r.Patience)
	}
	switch {
	case r.SlowWrite == "":
		return passed("it ended; what it does with a write that runs needs -slow-write")
	case err != nil || !carriedOut(slow.CommandResult):
		return failed("the write that ran was answered %s", words(slow, err))
	case lateErr == nil && late.GetOutcome() != agentv1.Outcome_OUTCOME_REFUSED && !late.GetStartedAt().AsTime().Before(slow.GetFinishedAt().AsTime()):
		return failed("a read after that was answered %s", words(late, nil))
	}
	seen := "left alone"
	if lateErr == nil {
		seen = "answered " + words(late, nil)
	}
	return passed("the write was answered %s, a read after that was %s, and it ended", words(slow, nil), seen)
}
