// Package command carries out one command: decide, check the budget, send once, wait for the answer, and say what became of it.
// It never sends a command twice (I-3, I-4).
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/routing"
)

const (
	// decisionLifetime is how long a routing decision is good for (I-1).
	decisionLifetime = time.Second
	// lookupTimeout is how much of the budget the registry may take to answer for the agent.
	lookupTimeout = 2 * time.Second
	// leastBudget is what must be left to send at all.
	leastBudget = 100 * time.Millisecond
	// answerMargin is kept of a caller's own deadline, so that the caller still hears the answer.
	answerMargin = 50 * time.Millisecond
	// decisions bounds how often one request decides again because it had to wait.
	decisions = 5
)

// errFailed is what a command ends with in which the gateway itself failed.
var errFailed = fault.New(fault.Internal, "the gateway failed while the command was under way; whether it was sent is not known")

// Registry is what is asked for an agent.
type Registry interface {
	GetAgent(ctx context.Context, name string) (*registryv1.GetAgentResponse, error)
}

// Budgets are how long a command may take as a whole. A caller's shorter deadline wins.
type Budgets struct{ Read, Write time.Duration }

// Executor carries out commands. All fields are required.
type Executor struct {
	Registry   Registry
	ServiceBus Transport
	HTTP       Transport
	Policy     routing.Policy
	Budgets    Budgets
	Metrics    *Metrics
	Logger     *slog.Logger
	// Unreachable is told of a base URL that could not be connected to; it must not block.
	Unreachable func(agent, baseURL, detail string)
	// Answered is told whether an agent answered a command that was sent to it over Service Bus so long ago; it must not block. Answers of an
	// agent that answers all the time are told once a minute.
	Answered func(agent string, answered bool, sentAge time.Duration)
	// StoodStill is how long a request that is read now may have waited while this process stood still (I-24).
	StoodStill func() time.Duration
}

// leastSilence is how long an agent must have had to answer before its silence says something about it, and not about its caller.
const leastSilence = 2 * time.Second

// answersToldInterval is how old the last answer that the registry knows of must be before another is told.
const answersToldInterval = time.Minute

// Result is what an agent answered to a command that succeeded.
type Result struct {
	Agent     string
	CommandID string
	Transport routing.Transport
	Fallback  string
	Answer    *agentv1.CommandResult
}

// run is one command on its way.
type run struct {
	*Executor
	principal string
	name      string // as asked
	kind      string
	write     bool
	command   *agentv1.Command
	decision  routing.Decision
	target    Target
	receiver  *registryv1.CommandReceiver // as the registry knew it; nil: it was never sent a command
	readAt    time.Time                   // when the read was asked for that the decision rests on; the decision is as old
}

// Execute carries out one command; operation holds the operation, and the command's id where the caller chose it. Errors are
// *fault.Error.
func (e *Executor) Execute(ctx context.Context, principal, agent string, operation *agentv1.Command) (Result, error) {
	kind := Kind(operation)
	r := &run{Executor: e, principal: principal, name: agent, kind: kind, write: isWrite(kind), command: proto.CloneOf(operation)}
	r.command.IssuedBy = principal
	if r.command.GetCommandId() == "" {
		r.command.CommandId = uuid.NewString()
	}
	startedAt := time.Now()
	ctx, cancel := context.WithTimeout(ctx, e.Budgets.of(ctx, r.write, startedAt)-e.StoodStill())
	defer cancel()
	e.Metrics.InFlight.Inc()
	var err error = errFailed // until execute has returned: what panics is on record too
	defer func() {
		e.Metrics.InFlight.Dec()
		r.record(ctx, time.Since(startedAt), err)
	}()
	result, failure := r.execute(ctx)
	if err = failure; err != nil {
		return Result{}, err
	}
	return result, nil
}

// of is how long a command may take: as configured, or as long as its caller waits if that is less.
func (b Budgets) of(ctx context.Context, write bool, now time.Time) time.Duration {
	budget := b.Read
	if write {
		budget = b.Write
	}
	if deadline, ok := ctx.Deadline(); ok {
		budget = min(budget, deadline.Sub(now)-answerMargin)
	}
	return budget
}

// execute decides, sends, and reads the answer. Waiting makes a decision stale; then it decides again, before it sends.
func (r *run) execute(ctx context.Context) (Result, error) {
	// Asking the registry with no time left would only look like a registry that does not answer.
	if _, err := r.left(ctx); err != nil {
		return Result{}, r.unsent(err)
	}
	for range decisions {
		if err := r.decide(ctx); err != nil {
			return Result{}, err
		}
		transport := r.HTTP
		if r.decision.Transport == routing.ServiceBus {
			transport = r.ServiceBus
		}
		if err := transport.Prepare(ctx); err != nil {
			return Result{}, r.unsent(err)
		}
		sentAt := time.Now()
		answer, err := r.send(ctx, transport)
		r.tellOfReceiver(err, time.Since(sentAt))
		var notSent *NotSent
		if errors.As(err, &notSent) && notSent.Expired {
			continue
		}
		if err != nil {
			return Result{}, r.failed(ctx, err)
		}
		return r.read(answer)
	}
	reason := fault.AgentUnreachable
	if r.decision.Transport == routing.ServiceBus {
		reason = fault.BusUnavailable
	}
	return Result{}, r.fault(reason, "agent %q could not be reached while the decision to send was fresh, %d times over; nothing was sent", r.target.Name, decisions)
}

// tellOfReceiver reports whether the agent answered over the bus, where that is news.
func (r *run) tellOfReceiver(err error, sentAge time.Duration) {
	if r.decision.Transport != routing.ServiceBus {
		return
	}
	var silent *NoAnswer
	switch {
	case errors.As(err, &silent):
		if silent.RepliesCome && errors.Is(silent.Cause, context.DeadlineExceeded) && sentAge >= leastSilence {
			r.Answered(r.target.Name, false, sentAge)
		}
	case err == nil && answerIsNews(r.receiver, time.Since(r.readAt)):
		r.Answered(r.target.Name, true, sentAge)
	}
}

// answerIsNews reports whether an answer changes what is known of a receiver, as read so long ago.
func answerIsNews(receiver *registryv1.CommandReceiver, elapsed time.Duration) bool {
	return receiver.GetUnanswered() > 0 || receiver.GetAnsweredAge() == nil || receiver.GetAnsweredAge().AsDuration()+elapsed >= answersToldInterval
}

// decide reads the agent and applies the routing rules.
func (r *run) decide(ctx context.Context) error {
	r.readAt = time.Now()
	asking, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	read, err := r.Registry.GetAgent(asking, r.name)
	if err != nil {
		return r.unread(err)
	}
	agent := read.GetAgent()
	r.decision = routing.Decide(routing.FromRegistry(agent, read.GetBusIngest(), time.Since(r.readAt)), r.write, r.Policy)
	r.receiver = agent.GetCommandReceiver()
	r.target = Target{
		Name: agent.GetName(), Reported: agent.GetReportedName(), BaseURL: agent.GetHttpBaseUrl(), Verified: r.decision.Verified,
	}
	if r.decision.Refusal != "" {
		return r.fault(r.decision.Refusal, "%s", r.decision.Detail)
	}
	return nil
}

// send makes sure that enough time is left, for us and for the agent, and sends.
func (r *run) send(ctx context.Context, transport Transport) (*agentv1.CommandResult, error) {
	left, err := r.left(ctx)
	if err != nil {
		return nil, err
	}
	// In the agent's own spelling, blanks and all: agents of older releases compare those too. An agent that was added by hand and never
	// sent a heartbeat has reported none.
	r.command.TargetAgent = cmp.Or(r.target.Reported, r.target.Name)
	r.command.Budget, r.command.IssuedAt = durationpb.New(startWithin(left)), timestamppb.Now()
	return transport.Send(ctx, r.target, r.command, r.still)
}

// left is how much of the budget is left; too little of it is an error.
func (r *run) left(ctx context.Context) (time.Duration, error) {
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	if left < leastBudget {
		return 0, &NotSent{Reason: fault.BudgetTooShort, Detail: fmt.Sprintf("only %s of the time allowed were left, less than %s", max(0, left.Round(time.Millisecond)), leastBudget)}
	}
	return left, nil
}

// still looks again, right before the command goes out: whether anybody waits for it, whether its budget would end in time, and,
// where the decision has aged, whether it would be the same now (I-1).
func (r *run) still(ctx context.Context) (until time.Time, err error) {
	if err := context.Cause(ctx); err != nil {
		return until, &NotSent{Reason: fault.BudgetTooShort, Detail: "the time allowed ended, or the caller went away, before the command could be sent", Cause: err}
	}
	// What it took to get here must not be added to the time in which the agent may start (I-5).
	deadline, _ := ctx.Deadline()
	latest := deadline.Add(-r.command.GetBudget().AsDuration())
	if time.Now().After(latest) {
		return until, &NotSent{Expired: true}
	}
	if !r.fresh() {
		transport, target := r.decision.Transport, r.target
		if err := r.decide(ctx); err != nil {
			return until, &NotSent{Cause: err}
		}
		if r.decision.Transport != transport || r.target != target || !r.fresh() {
			return until, &NotSent{Expired: true}
		}
	}
	if until = r.readAt.Add(decisionLifetime); until.After(latest) {
		until = latest
	}
	return until, nil
}

func (r *run) fresh() bool { return time.Since(r.readAt) < decisionLifetime }

// startWithin is the time within which the agent must start: some of the budget is kept for the work and the way back (I-5).
func startWithin(left time.Duration) time.Duration { return max(left-3*time.Second, left/2) }

// read turns an agent's answer into a result or a reason.
func (r *run) read(answer *agentv1.CommandResult) (Result, error) {
	name := r.target.Name
	switch answer.GetOutcome() {
	case agentv1.Outcome_OUTCOME_SUCCEEDED:
		if !answers(r.kind, answer) {
			return Result{}, r.fault(fault.AgentFailed, "agent %q says that it succeeded, but its answer does not hold what was asked for", name)
		}
		return Result{Agent: name, CommandID: r.command.GetCommandId(), Transport: r.decision.Transport, Fallback: r.decision.Fallback, Answer: answer}, nil
	case agentv1.Outcome_OUTCOME_FAILED:
		return Result{}, r.fault(fault.AgentFailed, "agent %q tried and failed: %s", name, answer.GetMessage())
	case agentv1.Outcome_OUTCOME_NOT_FOUND:
		return Result{}, r.fault(notFound(r.kind), "agent %q: %s", name, answer.GetMessage())
	case agentv1.Outcome_OUTCOME_EXPIRED:
		return Result{}, r.fault(fault.CommandRefused, "agent %q could not start the command in time, and did nothing: %s", name, answer.GetMessage())
	case agentv1.Outcome_OUTCOME_REFUSED:
		switch answer.GetRefusalReason() {
		case agentv1.RefusalReason_REFUSAL_REASON_ALREADY_BEGUN:
			return Result{}, r.fault(fault.OutcomeUnknown, "agent %q had begun this command before and does not know how it ended: it may have run", name)
		case agentv1.RefusalReason_REFUSAL_REASON_HOST_STATE:
			return Result{}, r.fault(fault.HostState, "agent %q: %s", name, answer.GetMessage())
		}
		return Result{}, r.fault(fault.CommandRefused, "agent %q refused and did nothing: %s", name, answer.GetMessage())
	}
	return Result{}, r.unknown(fmt.Errorf("the agent answered an outcome that is not known: %v", answer.GetOutcome()))
}

// failed says what an error of a send means: nothing was sent, or the agent may have got the command.
func (r *run) failed(ctx context.Context, err error) error {
	var notSent *NotSent
	if errors.As(err, &notSent) {
		if notSent.Unreachable {
			r.Unreachable(r.target.Name, r.target.BaseURL, notSent.Error())
		}
		return r.unsent(err)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = errors.Join(cause, err)
	}
	return r.unknown(err)
}

func (r *run) unsent(err error) error {
	var refused *fault.Error
	if errors.As(err, &refused) { // decided so meanwhile
		return refused
	}
	var notSent *NotSent
	if !errors.As(err, &notSent) || notSent.Reason == "" {
		return r.fault(fault.BusUnavailable, "the command could not be sent; nothing was sent").WithCause(err)
	}
	return r.fault(notSent.Reason, "%s; nothing was sent", notSent.Detail).WithCause(notSent.Cause)
}

func (r *run) unknown(cause error) error {
	id := r.command.GetCommandId()
	if !r.write {
		return r.fault(fault.ReadTimeout, "agent %q did not answer the read %s in time; reading again is safe", r.target.Name, id).WithCause(cause)
	}
	return r.fault(fault.OutcomeUnknown,
		"command %s was sent to agent %q and no answer came in time: it may have run. It was not sent again. Look at the agent's state before repeating it; a late answer is logged under the command's id", id, r.target.Name).WithCause(cause)
}

func (r *run) unread(err error) error {
	found := fault.From(err)
	switch found.Reason {
	case fault.AgentNotFound, fault.InvalidArgument, fault.RegistryUnavailable:
		return found.WithAgent(r.name)
	}
	return fault.New(fault.RegistryUnavailable, "the registry does not answer, so agent %q cannot be looked up; nothing was sent", r.name).WithAgent(r.name).WithCause(err)
}

func (r *run) fault(reason fault.Reason, format string, args ...any) *fault.Error {
	found := fault.New(reason, format, args...).WithAgent(r.target.Name)
	if !reason.NothingSent() && r.decision.Transport != routing.None {
		found = found.WithCommand(r.command.GetCommandId())
	}
	return found
}

// record counts the command, and writes the audit line of every write.
func (r *run) record(ctx context.Context, took time.Duration, err error) {
	outcome := "succeeded"
	if err != nil {
		outcome = string(fault.From(err).Reason)
	}
	transport := transportName(r.decision.Transport)
	r.Metrics.Commands.WithLabelValues(r.kind, transport, outcome).Inc()
	r.Metrics.Duration.WithLabelValues(transport).Observe(took.Seconds())
	if !r.write {
		return
	}
	attributes := []slog.Attr{
		slog.String("principal", r.principal), slog.String("operation", r.kind), slog.String("arguments", arguments(r.command)),
		slog.String("agent", r.name), slog.String("transport", transport), slog.String("fallback", r.decision.Fallback),
		slog.String("command_id", r.command.GetCommandId()), slog.String("outcome", outcome), slog.Duration("duration", took),
		slog.String("request_id", grpcserver.RequestID(ctx)),
	}
	if err != nil {
		attributes = append(attributes, slog.String("error", err.Error()))
	}
	r.Logger.LogAttrs(ctx, slog.LevelInfo, "audit: command", attributes...)
}

// arguments are what an operation was asked to act on, as text.
func arguments(command *agentv1.Command) string {
	message := command.ProtoReflect()
	field := message.WhichOneof(message.Descriptor().Oneofs().ByName("operation"))
	if field == nil {
		return ""
	}
	text, err := protojson.Marshal(message.Get(field).Message().Interface())
	if err != nil {
		return fmt.Sprintf("cannot be shown: %v", err)
	}
	return string(text)
}

func transportName(transport routing.Transport) string {
	return [...]string{"none", "servicebus", "http"}[transport]
}
