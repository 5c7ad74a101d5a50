package agent

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/google/uuid"

	"github.com/commandcenter/fleet/agent/host/simulated"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// claimRenewer may outlive its link: when many at once use a link of the SDK that was lost, each opens it anew, and closing ends the
// renewals of claims of the last one only.
const claimRenewer = "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal.(*Namespace).startNegotiateClaimRenewer.func3"

func TestMain(m *testing.M) {
	if connectionString := os.Getenv(freezeBus); connectionString != "" {
		if err := freezingAgent(connectionString); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	_ = protovalidate.Validate(&agentv1.Command{}) // its own set-up is not part of any test's time
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(claimRenewer))
}

// machine is a simulated host that counts what is started on it, and how many writes run at once.
type machine struct {
	*simulated.Host

	starts, reads   atomic.Int64
	running, atOnce atomic.Int64
	mu              sync.Mutex
	failBindings    error
	panics          bool
}

func newMachine(opts simulated.Options) *machine {
	return &machine{Host: simulated.New("BM-1", opts)}
}

// StartService implements host.Services.
func (m *machine) StartService(ctx context.Context, name string) ([]*agentv1.Change, error) {
	m.starts.Add(1)
	m.atOnce.Store(max(m.atOnce.Load(), m.running.Add(1)))
	defer m.running.Add(-1)
	if m.panics {
		panic("out of bounds")
	}
	return m.Host.StartService(ctx, name)
}

// Services implements host.Services.
func (m *machine) Services(ctx context.Context) ([]*agentv1.Service, error) {
	m.reads.Add(1)
	return m.Host.Services(ctx)
}

// Bindings implements host.Bindings.
func (m *machine) Bindings(ctx context.Context) ([]*agentv1.IisBinding, error) {
	m.mu.Lock()
	err := m.failBindings
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return m.Host.Bindings(ctx)
}

// do takes a command from its arrival to its answer.
func (e *executor) do(caller context.Context, cmd *agentv1.Command, receivedAt time.Time) *agentv1.CommandResult {
	t := e.begin(cmd, moment{receivedAt, suspended()})
	result := e.complete(caller, t)
	e.answered(t)
	return result
}

// command for agent BM-1, with a new id and a minute's budget.
func command(change ...func(*agentv1.Command)) *agentv1.Command {
	cmd := &agentv1.Command{
		CommandId: uuid.NewString(), TargetAgent: "BM-1", Budget: durationpb.New(time.Minute), IssuedBy: "a test",
		Operation: &agentv1.Command_ListServices{ListServices: &agentv1.ListServices{}},
	}
	for _, c := range change {
		c(cmd)
	}
	return cmd
}

func startService(name string) func(*agentv1.Command) {
	return func(cmd *agentv1.Command) {
		cmd.Operation = &agentv1.Command_StartService{StartService: &agentv1.StartService{Service: name}}
	}
}

func budget(d time.Duration) func(*agentv1.Command) {
	return func(cmd *agentv1.Command) { cmd.Budget = durationpb.New(d) }
}

func id(s string) func(*agentv1.Command) { return func(cmd *agentv1.Command) { cmd.CommandId = s } }

func target(name string) func(*agentv1.Command) {
	return func(cmd *agentv1.Command) { cmd.TargetAgent = name }
}

// expect fails the test unless the result is of that outcome and, when refused, for that reason.
func expect(t testing.TB, got *agentv1.CommandResult, outcome agentv1.Outcome, reason agentv1.RefusalReason) {
	t.Helper()
	if got.GetOutcome() != outcome || got.GetRefusalReason() != reason {
		t.Fatalf("got %s %s (%s), want %s %s", got.GetOutcome(), got.GetRefusalReason(), got.GetMessage(), outcome, reason)
	}
}

const (
	succeeded = agentv1.Outcome_OUTCOME_SUCCEEDED
	failed    = agentv1.Outcome_OUTCOME_FAILED
	refused   = agentv1.Outcome_OUTCOME_REFUSED
	notFound  = agentv1.Outcome_OUTCOME_NOT_FOUND
	overdue   = agentv1.Outcome_OUTCOME_EXPIRED

	noReason     = agentv1.RefusalReason_REFUSAL_REASON_UNSPECIFIED
	draining     = agentv1.RefusalReason_REFUSAL_REASON_DRAINING
	busy         = agentv1.RefusalReason_REFUSAL_REASON_BUSY
	wrongAgent   = agentv1.RefusalReason_REFUSAL_REASON_WRONG_AGENT
	invalid      = agentv1.RefusalReason_REFUSAL_REASON_INVALID
	alreadyBegun = agentv1.RefusalReason_REFUSAL_REASON_ALREADY_BEGUN
	noJournal    = agentv1.RefusalReason_REFUSAL_REASON_JOURNAL_UNAVAILABLE
)
