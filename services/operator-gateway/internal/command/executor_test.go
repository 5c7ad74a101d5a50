package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/routing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	accepted = registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED
	rejected = registryv1.RegistrationState_REGISTRATION_STATE_REJECTED
)

// onBus is an agent that is Accepted, and fresh on Service Bus.
func onBus() *registryv1.Agent {
	return &registryv1.Agent{
		Name: "BM-0042", ReportedName: "bm-0042", RegistrationState: accepted, OnServiceBus: true, BusHeartbeatAge: durationpb.New(time.Second),
		Server: &registryv1.ServerLink{Name: "BM-0042"},
	}
}

func onHTTP() *registryv1.Agent {
	agent := onBus()
	agent.OnServiceBus, agent.HttpBaseUrl = false, "http://bm-0042.example.test"
	return agent
}

// registry answers its agents one after the other, the last again and again.
type registry struct {
	agents []*registryv1.Agent
	takes  time.Duration
	err    error
	reads  int
}

func (r *registry) GetAgent(context.Context, string) (*registryv1.GetAgentResponse, error) {
	time.Sleep(r.takes)
	r.reads++
	if r.err != nil {
		return nil, r.err
	}
	return &registryv1.GetAgentResponse{Agent: r.agents[min(r.reads, len(r.agents))-1]}, nil
}

// transport notes what was sent. Connecting takes a while, before still is asked.
type transport struct {
	connects []time.Duration // one after the other, the last again and again
	prepare  error
	answer   func(ctx context.Context, command *agentv1.Command) (*agentv1.CommandResult, error)

	mu       sync.Mutex
	attempts int
	sent     []*agentv1.Command
	targets  []Target
	left     time.Duration // of the context, when it was sent
}

func (t *transport) Prepare(context.Context) error { return t.prepare }

func (t *transport) Send(ctx context.Context, target Target, command *agentv1.Command, still Still) (*agentv1.CommandResult, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts++
	if len(t.connects) > 0 {
		time.Sleep(t.connects[min(t.attempts, len(t.connects))-1])
	}
	if _, err := still(ctx); err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	t.left = time.Until(deadline)
	t.sent, t.targets = append(t.sent, command), append(t.targets, target)
	if t.answer == nil {
		return &agentv1.CommandResult{CommandId: command.GetCommandId(), Outcome: agentv1.Outcome_OUTCOME_SUCCEEDED}, nil
	}
	return t.answer(ctx, command)
}

// bench is an executor on fakes.
type bench struct {
	*Executor
	registry    *registry
	bus, http   *transport
	log         *bytes.Buffer
	unreachable []string

	mu       sync.Mutex
	answered []string // of agents, what was told of their answers
}

func newBench(agents ...*registryv1.Agent) *bench {
	b := &bench{registry: &registry{agents: agents}, bus: &transport{}, http: &transport{}, log: &bytes.Buffer{}}
	b.Executor = &Executor{
		Registry: b.registry, ServiceBus: b.bus, HTTP: b.http,
		Policy:  routing.Policy{MaxHeartbeatAge: 90 * time.Second, MaxVerificationAge: 24 * time.Hour},
		Budgets: Budgets{Read: 5 * time.Second, Write: time.Minute}, Metrics: NewMetrics(prometheus.NewRegistry()),
		Logger:      slog.New(slog.NewJSONHandler(b.log, nil)),
		Unreachable: func(agent, url, _ string) { b.unreachable = append(b.unreachable, agent+" "+url) },
		StoodStill:  func() time.Duration { return 0 },
		Answered: func(agent string, answered bool, _ time.Duration) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.answered = append(b.answered, fmt.Sprint(agent, " ", answered))
		},
	}
	return b
}

func restart() *agentv1.Command {
	return &agentv1.Command{Operation: &agentv1.Command_RestartService{RestartService: &agentv1.RestartService{Service: "W3SVC"}}}
}

func list() *agentv1.Command {
	return &agentv1.Command{Operation: &agentv1.Command_ListServices{ListServices: &agentv1.ListServices{}}}
}

// reason fails the test unless the error is a *fault.Error, and answers its reason.
func reason(t *testing.T, err error) fault.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	var found *fault.Error
	if !errors.As(err, &found) {
		t.Fatalf("%v is no *fault.Error", err)
	}
	return found.Reason
}

func (b *bench) audited(t *testing.T) map[string]any {
	t.Helper()
	var found map[string]any
	for line := range strings.Lines(b.log.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry["msg"] != "audit: command" {
			continue
		}
		if found != nil {
			t.Fatalf("more than one audit line:\n%s", b.log)
		}
		found = entry
	}
	return found
}

// The agent compares its own spelling, which over HTTP too is the one that it reported; one that never reported any is asked by its name.
func TestI13_OverHTTPTheTargetIsSpelledAsTheAgentReportsIt(t *testing.T) {
	for reported, want := range map[string]string{"BM-0042 ": "BM-0042 ", "": "BM-0042"} {
		agent := onHTTP()
		agent.ReportedName = reported
		b := newBench(agent)
		if _, err := b.Execute(t.Context(), "alice", "BM-0042", restart()); err != nil {
			t.Fatal(err)
		}
		if len(b.http.sent) != 1 || b.http.sent[0].GetTargetAgent() != want {
			t.Errorf("reported %q: asked %v", reported, b.http.sent)
		}
	}
}

func TestExecuteSendsOnceAndAudits(t *testing.T) {
	b := newBench(onBus())
	result, err := b.Execute(t.Context(), "alice", "BM-0042", restart())
	if err != nil {
		t.Fatal(err)
	}
	if len(b.bus.sent) != 1 || b.http.attempts != 0 || b.registry.reads != 1 {
		t.Fatalf("%d over the bus, %d over HTTP, %d reads of the registry", len(b.bus.sent), b.http.attempts, b.registry.reads)
	}
	command := b.bus.sent[0]
	if result.Agent != "BM-0042" || result.CommandID != command.GetCommandId() || result.Transport != routing.ServiceBus || result.Answer == nil {
		t.Errorf("%+v", result)
	}
	if command.GetTargetAgent() != "bm-0042" || b.bus.targets[0].Reported != "bm-0042" || command.GetIssuedBy() != "alice" {
		t.Errorf("%v", command)
	}
	line := b.audited(t)
	for key, want := range map[string]any{
		"principal": "alice", "operation": "restart_service", "agent": "BM-0042", "transport": "servicebus",
		"command_id": command.GetCommandId(), "outcome": "succeeded",
	} {
		if line[key] != want {
			t.Errorf("audit line: %s is %v, want %v", key, line[key], want)
		}
	}
	if text, _ := line["arguments"].(string); !strings.Contains(text, "W3SVC") || line["duration"] == nil {
		t.Errorf("audit line: %v", line)
	}
	if got := testutil.ToFloat64(b.Metrics.Commands.WithLabelValues("restart_service", "servicebus", "succeeded")); got != 1 {
		t.Errorf("counted %v", got)
	}
}

func TestACommandKeepsTheIDItsCallerChose(t *testing.T) {
	b := newBench(onBus())
	operation := restart()
	operation.CommandId = "6f1c1a52-0b3e-4f0a-9d57-1c2e3f4a5b6c"
	result, err := b.Execute(t.Context(), "alice", "BM-0042", operation)
	if err != nil || b.bus.sent[0].GetCommandId() != operation.GetCommandId() || result.CommandID != operation.GetCommandId() {
		t.Errorf("%+v, %v, %v", result, b.bus.sent, err)
	}
}

func TestAPanicIsOnRecordToo(t *testing.T) {
	b := newBench(onBus())
	b.bus.answer = func(context.Context, *agentv1.Command) (*agentv1.CommandResult, error) { panic("a bug") }
	func() {
		defer func() { _ = recover() }()
		_, _ = b.Execute(t.Context(), "alice", "BM-0042", restart())
	}()
	if line := b.audited(t); line["outcome"] != "INTERNAL" || line["command_id"] != b.bus.sent[0].GetCommandId() {
		t.Errorf("audit line: %v", line)
	}
	if got := testutil.ToFloat64(b.Metrics.InFlight); got != 0 {
		t.Errorf("%v are under way", got)
	}
}

func TestReadsAreNotAudited(t *testing.T) {
	b := newBench(onHTTP())
	b.http.answer = func(_ context.Context, command *agentv1.Command) (*agentv1.CommandResult, error) {
		return &agentv1.CommandResult{Outcome: agentv1.Outcome_OUTCOME_SUCCEEDED, Payload: &agentv1.CommandResult_Services{Services: &agentv1.Services{}}}, nil
	}
	if _, err := b.Execute(t.Context(), "alice", "BM-0042", list()); err != nil || b.audited(t) != nil {
		t.Fatalf("%v\n%s", err, b.log)
	}
}

func TestI1_ARejectionWhileTheCommandWaitsWins(t *testing.T) {
	for name, connect := range map[string]time.Duration{"a second": time.Second, "longer": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				after := onHTTP()
				after.RegistrationState = rejected
				b := newBench(onHTTP(), after)
				b.http.connects = []time.Duration{connect}
				_, err := b.Execute(t.Context(), "alice", "BM-0042", restart())
				if got := reason(t, err); got != fault.AgentNotAccepted {
					t.Fatalf("answered %q: %v", got, err)
				}
				if len(b.http.sent)+len(b.bus.sent) != 0 {
					t.Fatal("it was sent after the rejection")
				}
			})
		})
	}
}

func TestI1_ADecisionIsGoodForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(onHTTP())
		b.http.connects = []time.Duration{time.Second - time.Millisecond}
		if _, err := b.Execute(t.Context(), "alice", "BM-0042", restart()); err != nil || b.registry.reads != 1 {
			t.Fatalf("%v; the registry was read %d times", err, b.registry.reads)
		}
		// The agent stays accepted: the connection is used, after another look.
		b = newBench(onHTTP())
		b.http.connects = []time.Duration{1500 * time.Millisecond}
		if _, err := b.Execute(t.Context(), "alice", "BM-0042", restart()); err != nil || b.registry.reads != 2 || b.http.attempts != 1 {
			t.Fatalf("%v; the registry was read %d times in %d attempts", err, b.registry.reads, b.http.attempts)
		}
		// A decision is as old as the read that it rests on, however long that took.
		b = newBench(onHTTP())
		b.registry.takes = time.Second
		_, err := b.Execute(t.Context(), "alice", "BM-0042", restart())
		if got := reason(t, err); got != fault.AgentUnreachable || len(b.http.sent) != 0 {
			t.Fatalf("answered %q after sending %d", got, len(b.http.sent))
		}
	})
}

func TestI2_TheFallbackIsDecidedBeforeAnythingIsSent(t *testing.T) {
	silent := onBus()
	silent.BusHeartbeatAge = durationpb.New(90 * time.Second)
	silent.HttpBaseUrl = "http://bm-0042.example.test"
	silent.HttpVerification = &registryv1.HttpVerification{
		Outcome: registryv1.VerificationOutcome_VERIFICATION_OUTCOME_SUCCEEDED, Age: durationpb.New(time.Hour),
	}
	b := newBench(silent)
	result, err := b.Execute(t.Context(), "alice", "BM-0042", restart())
	if err != nil {
		t.Fatal(err)
	}
	if b.bus.attempts != 0 || len(b.http.sent) != 1 || result.Transport != routing.HTTP || result.Fallback == "" || !b.http.targets[0].Verified {
		t.Fatalf("%d over the bus, %d over HTTP: %+v", b.bus.attempts, len(b.http.sent), result)
	}
	// It goes stale while it waits for the bus: nothing was sent there yet, so HTTP takes it.
	synctest.Test(t, func(t *testing.T) {
		aging := onBus()
		aging.HttpBaseUrl, aging.HttpVerification = silent.GetHttpBaseUrl(), silent.GetHttpVerification()
		b := newBench(aging, silent)
		b.bus.connects = []time.Duration{2 * time.Second}
		result, err := b.Execute(t.Context(), "alice", "BM-0042", restart())
		if err != nil || len(b.bus.sent) != 0 || len(b.http.sent) != 1 || result.Transport != routing.HTTP {
			t.Fatalf("%v; %d over the bus, %d over HTTP", err, len(b.bus.sent), len(b.http.sent))
		}
	})
}

func TestI3_AfterASendInDoubtNothingGoesOutOnAnyTransport(t *testing.T) {
	both := onBus()
	both.HttpBaseUrl = "http://bm-0042.example.test"
	both.HttpVerification = &registryv1.HttpVerification{
		Outcome: registryv1.VerificationOutcome_VERIFICATION_OUTCOME_SUCCEEDED, Age: durationpb.New(time.Hour),
	}
	for name, operation := range map[string]*agentv1.Command{"write": restart(), "read": list()} {
		t.Run(name, func(t *testing.T) {
			b := newBench(both)
			b.bus.answer = func(context.Context, *agentv1.Command) (*agentv1.CommandResult, error) {
				return nil, errors.New("the link was detached")
			}
			_, err := b.Execute(t.Context(), "alice", "BM-0042", operation)
			want := map[string]fault.Reason{"write": fault.OutcomeUnknown, "read": fault.ReadTimeout}[name]
			if got := reason(t, err); got != want {
				t.Fatalf("answered %q", got)
			}
			if b.bus.attempts != 1 || b.http.attempts != 0 {
				t.Fatalf("%d attempts over the bus, %d over HTTP", b.bus.attempts, b.http.attempts)
			}
			if found := fault.From(err); found.CommandID != b.bus.sent[0].GetCommandId() || found.Agent != "BM-0042" {
				t.Fatalf("the answer does not name the command: %+v", found)
			}
		})
	}
}

func TestI4_NoAnswerMakesTheGatewaySendAgain(t *testing.T) {
	for name, answer := range map[string]func(context.Context, *agentv1.Command) (*agentv1.CommandResult, error){
		"lost": func(context.Context, *agentv1.Command) (*agentv1.CommandResult, error) {
			return nil, errors.New("lost")
		},
		"not sent": func(context.Context, *agentv1.Command) (*agentv1.CommandResult, error) {
			return nil, &NotSent{Reason: fault.BusUnavailable, Detail: "not taken"}
		},
		"refused": func(context.Context, *agentv1.Command) (*agentv1.CommandResult, error) {
			return &agentv1.CommandResult{Outcome: agentv1.Outcome_OUTCOME_REFUSED}, nil
		},
		"expired": func(context.Context, *agentv1.Command) (*agentv1.CommandResult, error) {
			return &agentv1.CommandResult{Outcome: agentv1.Outcome_OUTCOME_EXPIRED}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(onBus())
			b.bus.answer = answer
			if _, err := b.Execute(t.Context(), "alice", "BM-0042", restart()); err == nil {
				t.Fatal("no error")
			}
			if b.bus.attempts != 1 || b.http.attempts != 0 {
				t.Fatalf("%d attempts over the bus, %d over HTTP", b.bus.attempts, b.http.attempts)
			}
		})
	}
}

func TestI5_TheAgentMustStartBeforeTheBudgetEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			name      string
			operation *agentv1.Command
			deadline  time.Duration // of the caller; zero: none
			connects  []time.Duration
			want      time.Duration // the budget that the agent is told
			attempts  int
		}{
			{"write", restart(), 0, nil, 57 * time.Second, 1},
			{"read", list(), 0, nil, 2500 * time.Millisecond, 1},
			{"a caller with less time", restart(), 10*time.Second + answerMargin, nil, 7 * time.Second, 1},
			{"a caller with little time", restart(), 400*time.Millisecond + answerMargin, nil, 200 * time.Millisecond, 1},
			{"a caller with more time", restart(), time.Hour, nil, 57 * time.Second, 1},
			{"connecting takes some of it", restart(), 0, []time.Duration{3 * time.Second}, 57 * time.Second, 1},
			{"connecting takes too much of it", restart(), 0, []time.Duration{4 * time.Second, 0}, 53 * time.Second, 2},
		} {
			b := newBench(onHTTP())
			b.http.connects = row.connects
			ctx, cancel := context.WithCancel(t.Context())
			if row.deadline > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), row.deadline)
			}
			_, _ = b.Execute(ctx, "alice", "BM-0042", row.operation)
			cancel()
			if len(b.http.sent) != 1 || b.http.attempts != row.attempts {
				t.Fatalf("%s: sent %d in %d attempts", row.name, len(b.http.sent), b.http.attempts)
			}
			got := b.http.sent[0].GetBudget().AsDuration()
			if got != row.want || got > b.http.left {
				t.Errorf("%s: the agent may start within %s, want %s; %s were left", row.name, got, row.want, b.http.left)
			}
		}
	})
}

func TestTooLittleTimeSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(onBus())
		ctx, cancel := context.WithTimeout(t.Context(), leastBudget+answerMargin-time.Millisecond)
		defer cancel()
		_, err := b.Execute(ctx, "alice", "BM-0042", restart())
		if got := reason(t, err); got != fault.BudgetTooShort || b.bus.attempts != 0 {
			t.Fatalf("answered %q after %d attempts", got, b.bus.attempts)
		}
		if line := b.audited(t); line["outcome"] != "BUDGET_TOO_SHORT" {
			t.Fatalf("audit line: %v", line)
		}
	})
}

func TestACallerWhoWentAwayBeforeTheSendSendsNothing(t *testing.T) {
	b := newBench(onHTTP())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Execute(ctx, "alice", "BM-0042", restart())
	if got := reason(t, err); !got.NothingSent() || len(b.http.sent) != 0 {
		t.Fatalf("answered %q after sending %d", got, len(b.http.sent))
	}
}

func TestACallerWhoGoesAwayLeavesAnAuditedUnknown(t *testing.T) {
	b := newBench(onBus())
	ctx, cancel := context.WithCancel(t.Context())
	b.bus.answer = func(ctx context.Context, _ *agentv1.Command) (*agentv1.CommandResult, error) {
		cancel()
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	_, err := b.Execute(ctx, "alice", "BM-0042", restart())
	if got := reason(t, err); got != fault.OutcomeUnknown {
		t.Fatalf("answered %q", got)
	}
	if line := b.audited(t); line["outcome"] != "OUTCOME_UNKNOWN" || line["command_id"] != b.bus.sent[0].GetCommandId() {
		t.Fatalf("audit line: %v", line)
	}
}

// What agents answer over the bus is told where it is news, and their silence where it is theirs.
func TestAnswersOverTheBusAreTold(t *testing.T) {
	lately := &registryv1.CommandReceiver{AnsweredAge: durationpb.New(time.Second)}
	silent := func(repliesCome bool, after time.Duration, cause error) func(context.Context, *agentv1.Command) (*agentv1.CommandResult, error) {
		return func(context.Context, *agentv1.Command) (*agentv1.CommandResult, error) {
			time.Sleep(after)
			return nil, &NoAnswer{RepliesCome: repliesCome, Cause: cause}
		}
	}
	refuses := func(context.Context, *agentv1.Command) (*agentv1.CommandResult, error) {
		return &agentv1.CommandResult{Outcome: agentv1.Outcome_OUTCOME_REFUSED}, nil
	}
	for name, row := range map[string]struct {
		agent    *registryv1.Agent
		receiver *registryv1.CommandReceiver
		answer   func(context.Context, *agentv1.Command) (*agentv1.CommandResult, error)
		want     []string
	}{
		"the first answer":         {onBus(), nil, nil, []string{"BM-0042 true"}},
		"one more":                 {onBus(), lately, nil, nil},
		"one after a minute":       {onBus(), &registryv1.CommandReceiver{AnsweredAge: durationpb.New(time.Minute)}, nil, []string{"BM-0042 true"}},
		"one after silence":        {onBus(), &registryv1.CommandReceiver{AnsweredAge: lately.GetAnsweredAge(), Unanswered: 1}, nil, []string{"BM-0042 true"}},
		"a refusal is an answer":   {onBus(), nil, refuses, []string{"BM-0042 true"}},
		"silence":                  {onBus(), lately, silent(true, leastSilence, context.DeadlineExceeded), []string{"BM-0042 false"}},
		"replies do not reach us":  {onBus(), lately, silent(false, leastSilence, context.DeadlineExceeded), nil},
		"the caller went away":     {onBus(), lately, silent(true, leastSilence, context.Canceled), nil},
		"the caller hardly waited": {onBus(), lately, silent(true, leastSilence-1, context.DeadlineExceeded), nil},
		"it was not sent": {onBus(), nil, func(context.Context, *agentv1.Command) (*agentv1.CommandResult, error) {
			return nil, &NotSent{Reason: fault.BusUnavailable}
		}, nil},
		"over HTTP nothing is told": {onHTTP(), nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				row.agent.CommandReceiver = row.receiver
				b := newBench(row.agent)
				b.bus.answer = row.answer
				_, err := b.Execute(t.Context(), "alice", "BM-0042", restart())
				if !slices.Equal(b.answered, row.want) {
					t.Errorf("told %v, want %v (%v)", b.answered, row.want, err)
				}
				if name == "silence" && reason(t, err) != fault.OutcomeUnknown {
					t.Errorf("answered %v", err)
				}
			})
		})
	}
}

func TestOutcomesOfAgents(t *testing.T) {
	const succeeded, failed, refusedIt = agentv1.Outcome_OUTCOME_SUCCEEDED, agentv1.Outcome_OUTCOME_FAILED, agentv1.Outcome_OUTCOME_REFUSED
	const notFoundThere = agentv1.Outcome_OUTCOME_NOT_FOUND
	pool := &agentv1.Command{Operation: &agentv1.Command_RecycleAppPool{RecycleAppPool: &agentv1.RecycleAppPool{Pool: "x"}}}
	uninstall := &agentv1.Command{Operation: &agentv1.Command_Uninstall{Uninstall: &agentv1.Uninstall{Installation: "x"}}}
	for _, row := range []struct {
		name      string
		operation *agentv1.Command
		result    *agentv1.CommandResult
		want      fault.Reason
	}{
		{"write done", restart(), &agentv1.CommandResult{Outcome: succeeded}, ""},
		{"read done", list(), &agentv1.CommandResult{Outcome: succeeded, Payload: &agentv1.CommandResult_Services{}}, ""},
		{"read without what was asked for", list(), &agentv1.CommandResult{Outcome: succeeded}, fault.AgentFailed},
		{"read with something else", list(), &agentv1.CommandResult{Outcome: succeeded, Payload: &agentv1.CommandResult_AppPools{}}, fault.AgentFailed},
		{"failed", restart(), &agentv1.CommandResult{Outcome: failed, Message: "it hangs"}, fault.AgentFailed},
		{"no such service", restart(), &agentv1.CommandResult{Outcome: notFoundThere}, fault.ServiceNotFound},
		{"no such pool", pool, &agentv1.CommandResult{Outcome: notFoundThere}, fault.AppPoolNotFound},
		{"no such installation", uninstall, &agentv1.CommandResult{Outcome: notFoundThere}, fault.InstallationNotFound},
		{"busy", restart(), &agentv1.CommandResult{Outcome: refusedIt, RefusalReason: agentv1.RefusalReason_REFUSAL_REASON_BUSY}, fault.CommandRefused},
		{"begun before", restart(), &agentv1.CommandResult{Outcome: refusedIt, RefusalReason: agentv1.RefusalReason_REFUSAL_REASON_ALREADY_BEGUN}, fault.OutcomeUnknown},
		{"disabled", restart(), &agentv1.CommandResult{Outcome: refusedIt, RefusalReason: agentv1.RefusalReason_REFUSAL_REASON_HOST_STATE, Message: "it is disabled"}, fault.HostState},
		{"too late", restart(), &agentv1.CommandResult{Outcome: agentv1.Outcome_OUTCOME_EXPIRED}, fault.CommandRefused},
		{"no outcome, write", restart(), &agentv1.CommandResult{}, fault.OutcomeUnknown},
		{"an outcome of a newer agent, write", restart(), &agentv1.CommandResult{Outcome: 99}, fault.OutcomeUnknown},
		{"no outcome, read", list(), &agentv1.CommandResult{}, fault.ReadTimeout},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(onBus())
			b.bus.answer = func(context.Context, *agentv1.Command) (*agentv1.CommandResult, error) { return row.result, nil }
			_, err := b.Execute(t.Context(), "alice", "BM-0042", row.operation)
			if got := reason(t, err); got != row.want {
				t.Fatalf("answered %q, want %q: %v", got, row.want, err)
			}
			if err != nil && !strings.Contains(fault.From(err).Detail, row.result.GetMessage()) {
				t.Errorf("the agent's message is missing: %v", err)
			}
		})
	}
}

func TestTheRegistrysAnswers(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		want fault.Reason
	}{
		"unknown agent": {fault.New(fault.AgentNotFound, "no agent of that name"), fault.AgentNotFound},
		"down":          {errors.New("connection refused"), fault.RegistryUnavailable},
		"too slow":      {context.DeadlineExceeded, fault.RegistryUnavailable},
	} {
		b := newBench()
		b.registry.err = row.err
		_, err := b.Execute(t.Context(), "alice", "bm-0042", restart())
		if got := reason(t, err); got != row.want || fault.From(err).Agent != "bm-0042" || b.bus.attempts+b.http.attempts != 0 {
			t.Errorf("%s: answered %+v", name, fault.From(err))
		}
	}
}

func TestABaseURLThatCannotBeReachedIsToldOn(t *testing.T) {
	for name, unreachable := range map[string]bool{"unreachable": true, "caller had no time": false} {
		b := newBench(onHTTP())
		b.http.answer = func(context.Context, *agentv1.Command) (*agentv1.CommandResult, error) {
			return nil, &NotSent{Reason: fault.AgentUnreachable, Unreachable: unreachable, Detail: "refused"}
		}
		_, err := b.Execute(t.Context(), "alice", "BM-0042", restart())
		if got := reason(t, err); got != fault.AgentUnreachable {
			t.Errorf("%s: answered %q", name, got)
		}
		if told := len(b.unreachable) == 1; told != unreachable {
			t.Errorf("%s: told on %q", name, b.unreachable)
		}
	}
}

// Every operation of the contract is a read with a payload, or a write.
func TestEveryOperationIsKnown(t *testing.T) {
	operations := (&agentv1.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("operation").Fields()
	reads := 0
	for i := range operations.Len() {
		kind := string(operations.Get(i).Name())
		if _, read := payloads[kind]; read == isWrite(kind) {
			t.Errorf("%s: write %v, has a payload of a read %v", kind, isWrite(kind), read)
		} else if read {
			reads++
		}
	}
	if reads != len(payloads) {
		t.Errorf("%d of %d payloads belong to an operation", reads, len(payloads))
	}
}
