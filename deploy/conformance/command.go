package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// operation is one of a command, as JSON: its field and what the field holds.
type operation struct {
	field    string
	argument json.RawMessage
}

// reads are the operations that change nothing, by the kind that agents report.
var reads = map[string]operation{
	"OPERATION_KIND_LIST_INSTALLATIONS": {"listInstallations", json.RawMessage(`{}`)},
	"OPERATION_KIND_LIST_SERVICES":      {"listServices", json.RawMessage(`{}`)},
	"OPERATION_KIND_LIST_APP_POOLS":     {"listAppPools", json.RawMessage(`{}`)},
	"OPERATION_KIND_LIST_CERTIFICATES":  {"listCertificates", json.RawMessage(`{}`)},
}

// missing is named by writes that shall find nothing to change.
const missing = "conformance-there-is-no-such-thing"

// harmless are writes that name what no machine has, by the kind that agents report, with the argument's field.
var harmless = map[string]struct{ field, argument string }{
	"OPERATION_KIND_RESTART_SERVICE":  {"restartService", "service"},
	"OPERATION_KIND_START_SERVICE":    {"startService", "service"},
	"OPERATION_KIND_STOP_SERVICE":     {"stopService", "service"},
	"OPERATION_KIND_RECYCLE_APP_POOL": {"recycleAppPool", "pool"},
	"OPERATION_KIND_START_APP_POOL":   {"startAppPool", "pool"},
	"OPERATION_KIND_STOP_APP_POOL":    {"stopAppPool", "pool"},
	"OPERATION_KIND_UNINSTALL":        {"uninstall", "installation"},
}

// parseOperation reads an operation that the caller gave.
func parseOperation(option, text string) (operation, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil || len(fields) != 1 {
		return operation{}, fmt.Errorf(`%s: %s is no JSON object with one operation, such as {"restartService":{"service":"Spooler"}}`, option, text)
	}
	for field, argument := range fields {
		if descriptor := operationField(field); descriptor == nil {
			return operation{}, fmt.Errorf("%s: the contract has no operation %s; it has %s", option, field, strings.Join(operationNames(), ", "))
		}
		return operation{field, argument}, nil
	}
	return operation{}, nil
}

func operationField(name string) protoreflect.FieldDescriptor {
	fields := (&agentv1.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("operation").Fields()
	return fields.ByJSONName(name)
}

func operationNames() []string {
	fields := (&agentv1.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("operation").Fields()
	var names []string
	for i := range fields.Len() {
		names = append(names, fields.Get(i).JSONName())
	}
	return names
}

// chooseWrite is the write that may be carried out. An empty field says that there is none.
func (r *run) chooseWrite() (operation, error) {
	if r.Write != "" {
		return parseOperation("-write", r.Write)
	}
	for _, kind := range slices.Sorted(maps.Keys(harmless)) {
		if slices.Contains(r.first.GetCapabilities(), kind) {
			h := harmless[kind]
			argument, err := json.Marshal(map[string]string{h.argument: missing})
			return operation{h.field, argument}, err
		}
	}
	return operation{}, nil
}

// read is an operation that the agent says it knows; every agent that says nothing is asked for its services.
func (r *run) read() operation {
	for _, kind := range slices.Sorted(maps.Keys(reads)) {
		if slices.Contains(r.first.GetCapabilities(), kind) {
			return reads[kind]
		}
	}
	return reads["OPERATION_KIND_LIST_SERVICES"]
}

// fields are a command in JSON, by name, so that it may have what no command has.
type fields map[string]any

// command is a good one for the agent.
func (r *run) command(op operation) fields {
	return fields{
		"commandId": newID(), "targetAgent": r.agentName(), "budget": "30s", "issuedAt": time.Now().UTC().Format(time.RFC3339Nano),
		"issuedBy": "agent-conformance", op.field: op.argument,
	}
}

// with is the command with another field.
func (f fields) with(name string, value any) fields {
	changed := maps.Clone(f)
	changed[name] = value
	return changed
}

// without is the command without a field.
func (f fields) without(name string) fields {
	changed := maps.Clone(f)
	delete(changed, name)
	return changed
}

func (f fields) id() string {
	id, _ := f["commandId"].(string)
	return id
}

// agentName is the agent's in the spelling of its heartbeats, which is the session that it takes.
func (r *run) agentName() string {
	if name := r.first.GetName(); r.first.problem == nil && name != "" {
		return name
	}
	return r.Name
}

// start sends a command in JSON.
func (r *run) start(ctx context.Context, command fields) (*sent, error) {
	body, err := json.Marshal(command)
	if err != nil {
		return nil, err
	}
	return r.bus.send(ctx, message{id: command.id(), session: r.agentName(), contentType: mediaJSON, body: body})
}

// ask sends a command in JSON and waits for its answer.
func (r *run) ask(ctx context.Context, command fields) (answer, error) {
	pending, err := r.start(ctx, command)
	if err != nil {
		return answer{}, err
	}
	defer pending.done()
	return r.answered(ctx, pending)
}

// answered waits for an answer, and makes sure of what every answer has.
func (r *run) answered(ctx context.Context, pending *sent) (answer, error) {
	a, err := pending.await(ctx, r.Patience)
	if err != nil {
		return a, err
	}
	if a.problem != nil {
		return a, fmt.Errorf("the answer can't be read: %w", a.problem)
	}
	return a, nil
}

// binary is a command as protobuf.
func binary(command fields) ([]byte, error) {
	text, err := json.Marshal(command)
	if err != nil {
		return nil, err
	}
	m := &agentv1.Command{}
	if err := protojson.Unmarshal(text, m); err != nil {
		return nil, err
	}
	return proto.Marshal(m)
}

// carriedOut reports whether the work was done, or tried.
func carriedOut(a *agentv1.CommandResult) bool {
	switch a.GetOutcome() {
	case agentv1.Outcome_OUTCOME_SUCCEEDED, agentv1.Outcome_OUTCOME_FAILED, agentv1.Outcome_OUTCOME_NOT_FOUND:
		return true
	}
	return false
}

// words say what an answer is.
func words(a answer, err error) string {
	if err != nil {
		return err.Error()
	}
	text := strings.TrimPrefix(a.GetOutcome().String(), "OUTCOME_")
	if reason := a.GetRefusalReason(); reason != agentv1.RefusalReason_REFUSAL_REASON_UNSPECIFIED {
		text += " " + strings.TrimPrefix(reason.String(), "REFUSAL_REASON_")
	}
	if message := a.GetMessage(); message != "" {
		text += fmt.Sprintf(" (%.160q)", message)
	}
	return text
}

// refusedFor judges an answer that must be a refusal for that reason.
func refusedFor(reason agentv1.RefusalReason, a answer, err error) (problem string) {
	switch {
	case err != nil:
		return err.Error()
	case a.GetOutcome() != agentv1.Outcome_OUTCOME_REFUSED || a.GetRefusalReason() != reason:
		return fmt.Sprintf("%s instead of REFUSED %s", words(a, nil), strings.TrimPrefix(reason.String(), "REFUSAL_REASON_"))
	case a.GetStartedAt() != nil:
		return "it refused, and says that the work started at " + a.GetStartedAt().AsTime().String()
	}
	return ""
}

// sameName compares names as the contract does.
func sameName(a, b string) bool {
	return a == b || folded(strings.TrimSpace(a)) == folded(strings.TrimSpace(b))
}

func folded(name string) string { return norm.NFC.String(cases.Fold().String(norm.NFC.String(name))) }
