package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

const (
	wrongAgent   = agentv1.RefusalReason_REFUSAL_REASON_WRONG_AGENT
	invalid      = agentv1.RefusalReason_REFUSAL_REASON_INVALID
	busy         = agentv1.RefusalReason_REFUSAL_REASON_BUSY
	alreadyBegun = agentv1.RefusalReason_REFUSAL_REASON_ALREADY_BEGUN
	draining     = agentv1.RefusalReason_REFUSAL_REASON_DRAINING
)

func sessionRules() []rule {
	return []rule{
		{answersRule, "it takes the session of its name and answers a read", answersRead},
		{"2.2", "it takes its session again when the lock is lost", takesSessionAgain},
	}
}

func answersRead(ctx context.Context, r *run) verdict {
	a, err := r.ask(ctx, r.command(r.read()))
	if err != nil || a.GetOutcome() != agentv1.Outcome_OUTCOME_SUCCEEDED {
		return failed("%s was answered %s", r.read().field, words(a, err))
	}
	return passed("%s", r.read().field)
}

func takesSessionAgain(ctx context.Context, r *run) verdict {
	if r.Emulator == nil {
		return notTried("it needs the emulator, which can end a lock")
	}
	taken, err := r.bus.robSession(ctx, r.agentName(), r.Emulator)
	if err != nil {
		return notTried("%v", err)
	}
	if a, err := r.ask(ctx, r.command(r.read())); err != nil || !carriedOut(a.CommandResult) {
		return failed("after the lock was lost a read was answered %s", words(a, err))
	}
	if !taken {
		return passed("it had it again before another could take it")
	}
	return passed("after another receiver had it")
}

// checkRules are of what is decided before anything starts.
func checkRules() []rule {
	return []rule{
		{"4.1", "a command for another agent is refused", refusesOthers},
		{"4.2", "its name is compared whatever its case", takesAnyCase},
		{"4.3", "an operation that it does not know is refused", refusesUnknown},
		{"4.4", "an argument that breaks its rule is refused", refusesArguments},
		{"4.5", "a command without an id, a target or a budget within 100 ms and 1 h is refused", refusesEnvelope},
		{"4.6", "issuedAt is not compared with its clock", ignoresIssuedAt},
	}
}

func refusesOthers(ctx context.Context, r *run) verdict {
	a, err := r.ask(ctx, r.command(r.read()).with("targetAgent", r.agentName()+"-other"))
	if problem := refusedFor(wrongAgent, a, err); problem != "" {
		return failed("%s", problem)
	}
	return passed("WRONG_AGENT")
}

func takesAnyCase(ctx context.Context, r *run) verdict {
	name := r.agentName()
	tried := 0
	for _, spelled := range []string{strings.ToLower(name), strings.ToUpper(name), swapCase(name)} {
		if spelled == name || !sameName(spelled, name) {
			continue
		}
		tried++
		if a, err := r.ask(ctx, r.command(r.read()).with("targetAgent", spelled)); err != nil || !carriedOut(a.CommandResult) {
			return failed("a command for %q was answered %s by %q", spelled, words(a, err), name)
		}
	}
	if tried == 0 {
		return notTried("%q has no letters", name)
	}
	return passed("%d other spellings", tried)
}

func swapCase(name string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsUpper(c) {
			return unicode.ToLower(c)
		}
		return unicode.ToUpper(c)
	}, name)
}

func refusesUnknown(ctx context.Context, r *run) verdict {
	for _, command := range []fields{
		r.command(operation{"operationOfANewerVersion", json.RawMessage(`{"x":1}`)}),
		r.command(r.read()).without(r.read().field),
	} {
		a, err := r.ask(ctx, command)
		if problem := refusedFor(invalid, a, err); problem != "" {
			return failed("%s", problem)
		}
	}
	return passed("INVALID, for one of a newer version and for none")
}

func refusesArguments(ctx context.Context, r *run) verdict {
	if r.write.field == "" {
		return notTried("the agent names no write")
	}
	descriptor := operationField(r.write.field).Message().Fields()
	var named string
	for i := range descriptor.Len() {
		if f := descriptor.Get(i); f.Kind().String() == "string" && !f.IsList() {
			named = f.JSONName()
		}
	}
	if named == "" {
		return notTried("%s has no argument with a rule; give another -write", r.write.field)
	}
	for _, value := range []string{"", strings.Repeat("x", 257)} {
		command := r.command(r.write).with(r.write.field, map[string]string{named: value})
		a, err := r.ask(ctx, command)
		if problem := refusedFor(invalid, a, err); problem != "" {
			return failed("%s of %d characters in %s: %s", named, len(value), r.write.field, problem)
		}
	}
	return passed("INVALID, for a name of 0 and of 257 characters")
}

func refusesEnvelope(ctx context.Context, r *run) verdict {
	good := r.command(r.read())
	for what, command := range map[string]fields{
		"an id that is no UUID":    good.with("commandId", "not-a-uuid-"+newID()),
		"no target":                r.command(r.read()).without("targetAgent"),
		"no budget":                r.command(r.read()).without("budget"),
		"a budget of more than 1h": r.command(r.read()).with("budget", "3601s"),
		"a budget below 0":         r.command(r.read()).with("budget", "-1s"),
	} {
		a, err := r.ask(ctx, command)
		if problem := refusedFor(invalid, a, err); problem != "" && (err != nil || a.GetOutcome() != agentv1.Outcome_OUTCOME_EXPIRED) {
			return failed("%s: %s", what, problem)
		}
	}
	return passed("INVALID")
}

func ignoresIssuedAt(ctx context.Context, r *run) verdict {
	for _, off := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		at := time.Now().Add(off).UTC().Format(time.RFC3339)
		if a, err := r.ask(ctx, r.command(r.read()).with("issuedAt", at)); err != nil || !carriedOut(a.CommandResult) {
			return failed("a command issued %s off was answered %s", off, words(a, err))
		}
	}
	return passed("a day early and a day late")
}

// encodingRules are of how commands are read and answers written.
func encodingRules() []rule {
	return []rule{
		{"3.1", "what can't be read is dead-lettered", deadLetters},
		{"7.1", "an answer names the command and the agent, and its message correlates", correlates},
		{"7.2", "a body without a content type is JSON", readsBareJSON},
		{"7.3", "fields that it does not know are ignored", ignoresUnknownFields},
		{"7.4", "a command in protobuf is answered in protobuf", speaksProtobuf},
	}
}

func deadLetters(ctx context.Context, r *run) verdict {
	id := newID()
	pending, err := r.bus.send(ctx, message{id: id, session: r.agentName(), contentType: mediaJSON, body: []byte(`{"commandId": "`)})
	if err != nil {
		return notTried("%v", err)
	}
	defer pending.done()
	if !r.bus.deadLettered(ctx, id, r.Patience) {
		return failed("a body that is no JSON did not come to the dead letters")
	}
	if a, err := r.ask(ctx, r.command(r.read())); err != nil || !carriedOut(a.CommandResult) {
		return failed("after it, a read was answered %s", words(a, err))
	}
	return passed("and commands are taken after it")
}

func correlates(ctx context.Context, r *run) verdict {
	command := r.command(r.read())
	a, err := r.ask(ctx, command)
	switch {
	case err != nil:
		return failed("%v", err)
	case a.GetCommandId() != command.id():
		return failed("commandId is %q and not %s", a.GetCommandId(), command.id())
	case a.correlationID != command.id():
		return failed("the message's CorrelationID is %q and not %s", a.correlationID, command.id())
	case !sameName(a.GetAgent(), r.agentName()):
		return failed("agent is %q", a.GetAgent())
	case a.contentType != "" && !strings.HasPrefix(a.contentType, mediaJSON):
		return failed("a command in JSON was answered as %s", a.contentType)
	case a.GetStartedAt() == nil || a.GetFinishedAt() == nil:
		return failed("the work was done, and startedAt or finishedAt is not there")
	}
	return passed("by id, CorrelationID and ReplyToSessionID")
}

func readsBareJSON(ctx context.Context, r *run) verdict {
	for _, contentType := range []string{"", mediaJSON + "; charset=utf-8"} {
		id := newID()
		body, err := json.Marshal(r.command(r.read()).with("commandId", id))
		if err != nil {
			return notTried("%v", err)
		}
		pending, err := r.bus.send(ctx, message{id: id, session: r.agentName(), contentType: contentType, body: body})
		if err != nil {
			return notTried("%v", err)
		}
		a, err := r.answered(ctx, pending)
		pending.done()
		if err != nil || !carriedOut(a.CommandResult) {
			return failed("with content type %q a read was answered %s", contentType, words(a, err))
		}
	}
	return passed("also with a character set")
}

func ignoresUnknownFields(ctx context.Context, r *run) verdict {
	op := r.read()
	command := r.command(op).with("fieldOfANewerVersion", map[string]any{"a": []int{1}}).with(op.field, map[string]any{"optionOfANewerVersion": true})
	if a, err := r.ask(ctx, command); err != nil || !carriedOut(a.CommandResult) {
		return failed("a command with a field of a newer version was answered %s", words(a, err))
	}
	return passed("in the command and in its operation")
}

func speaksProtobuf(ctx context.Context, r *run) verdict {
	command := r.command(r.read())
	body, err := binary(command)
	if err != nil {
		return notTried("%v", err)
	}
	pending, err := r.bus.send(ctx, message{id: command.id(), session: r.agentName(), contentType: mediaProtobuf, body: body})
	if err != nil {
		return notTried("%v", err)
	}
	defer pending.done()
	a, err := r.answered(ctx, pending)
	switch {
	case err == nil && refusedFor(invalid, a, nil) == "":
		return notTried("the agent takes JSON only, as %s says (%s); operator gateways send JSON", a.contentType, words(a, nil))
	case err != nil || !carriedOut(a.CommandResult):
		return failed("a read was answered %s", words(a, err))
	case !strings.HasPrefix(a.contentType, mediaProtobuf):
		return failed("the answer is %q", a.contentType)
	}
	return passed("%s", fmt.Sprint(a.contentType))
}
