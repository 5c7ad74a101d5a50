package conformance

import (
	"context"
	"time"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// settleRules are of what is on the bus's books before a write starts. They need the emulator, which loses the answer to a settlement.
func settleRules() []rule {
	return []rule{{"3.2", "nothing starts before its message is settled; if that fails, the record is taken back", settlesBeforeStart}}
}

// quiet is how long nothing must come. An agent that does what it must not, may be slower than that and pass; one that keeps the rule
// never fails.
const quiet = 3 * time.Second

func settlesBeforeStart(ctx context.Context, r *run) verdict {
	switch {
	case r.Emulator == nil:
		return notTried("it needs the emulator, which can lose the answer to a settlement")
	case r.write.field == "":
		return notTried(needsWrite)
	}
	entity := commandsTopic + "/Subscriptions/" + commandsSubscription
	if err := r.Emulator.LoseDispositions(entity, 1); err != nil {
		return notTried("%v", err)
	}
	defer r.Emulator.EndFaults()
	command := r.command(r.write)
	pending, err := r.start(ctx, command)
	if err != nil {
		return notTried("%v", err)
	}
	defer pending.done()
	for deadline := time.Now().Add(r.Patience); len(r.Emulator.Faults()) > 0; pause(ctx, 10*time.Millisecond) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return failed("the message of the command was not settled at all")
		}
	}
	if a, err := pending.await(ctx, quiet); err == nil && carriedOut(a.CommandResult) {
		return failed("it was answered %s before the bus had answered the settlement", words(a, nil))
	}
	r.Emulator.DropConnections() // now the settlement has failed
	if a, err := r.ask(ctx, r.command(r.read())); err != nil || !carriedOut(a.CommandResult) {
		return failed("after a settlement that failed, a read was answered %s", words(a, err))
	}
	if a, err := pending.await(ctx, time.Second); err == nil && carriedOut(a.CommandResult) {
		return failed("it was carried out (%s) although settling its message failed", words(a, nil))
	}
	if record, err := r.record(ctx, command.id()); err == nil && record.GetState() != agentv1.CommandState_COMMAND_STATE_NEVER_RECEIVED {
		return failed("settling its message failed, and its record is %s", record.GetState())
	}
	again, err := r.ask(ctx, command)
	if err != nil || !carriedOut(again.CommandResult) {
		return failed("nothing was started, and yet the same id was answered %s", words(again, err))
	}
	return passed("nothing was started; the same id ran when it came again")
}
