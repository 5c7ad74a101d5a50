package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// fleetRegistry answers every name with an agent on Service Bus; names beginning with "no" are not accepted.
type fleetRegistry struct{}

func (fleetRegistry) GetAgent(_ context.Context, name string) (*registryv1.GetAgentResponse, error) {
	agent := onBus()
	agent.Name, agent.ReportedName, agent.Server.Name = name, name, name
	if name[:2] == "no" {
		agent.RegistrationState = rejected
	}
	return &registryv1.GetAgentResponse{Agent: agent}, nil
}

// slowBus takes a second for each command, and notes how many are under way at once.
type slowBus struct {
	mu             sync.Mutex
	sent           []*agentv1.Command
	underWay, most int
	fail           func(agent string) bool
	panics         bool
}

func (s *slowBus) Prepare(context.Context) error { return nil }

func (s *slowBus) Send(ctx context.Context, target Target, command *agentv1.Command, still Still) (*agentv1.CommandResult, error) {
	if _, err := still(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.sent = append(s.sent, command)
	s.underWay++
	s.most = max(s.most, s.underWay)
	s.mu.Unlock()
	if s.panics {
		panic("a bug")
	}
	time.Sleep(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
	if s.fail != nil && s.fail(target.Name) {
		return &agentv1.CommandResult{CommandId: command.GetCommandId(), Outcome: agentv1.Outcome_OUTCOME_FAILED, Message: "no"}, nil
	}
	return &agentv1.CommandResult{CommandId: command.GetCommandId(), Outcome: agentv1.Outcome_OUTCOME_SUCCEEDED, Duration: durationpb.New(time.Second)}, nil
}

func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%03d", prefix, i)
	}
	return all
}

// inBatch runs a batch on fake time, over a bus of its own.
func inBatch(t *testing.T, bus *slowBus, test func(t *testing.T, e *Executor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(onBus())
		b.Executor.Registry, b.ServiceBus = fleetRegistry{}, bus
		test(t, b.Executor)
	})
}

func collect(into *[]BatchOutcome) func(BatchOutcome) {
	return func(outcome BatchOutcome) { *into = append(*into, outcome) }
}

func TestABatchAsksEachAgentOnceAndSoManyAtATime(t *testing.T) {
	bus := &slowBus{}
	inBatch(t, bus, func(t *testing.T, e *Executor) {
		var outcomes []BatchOutcome
		began := time.Now()
		stop := e.ExecuteBatch(t.Context(), nil, "alice", Batch{Operation: restart(), Agents: names("BM", 100), Parallelism: 8, FailureLimit: 1}, collect(&outcomes))
		if stop != NotStopped || len(outcomes) != 100 || len(bus.sent) != 100 || bus.most != 8 || time.Since(began) != 13*time.Second {
			t.Errorf("stopped %v, %d outcomes, %d sent, %d at once, took %s", stop, len(outcomes), len(bus.sent), bus.most, time.Since(began))
		}
		ids := map[string]bool{}
		for _, command := range bus.sent {
			ids[command.GetCommandId()] = true
		}
		if len(ids) != 100 {
			t.Errorf("%d ids", len(ids))
		}
	})
}

func TestABatchStopsAtItsLimitOfFailures(t *testing.T) {
	bus := &slowBus{fail: func(agent string) bool { return agent >= "BM-010" }}
	inBatch(t, bus, func(t *testing.T, e *Executor) {
		var outcomes []BatchOutcome
		stop := e.ExecuteBatch(t.Context(), nil, "alice", Batch{Operation: restart(), Agents: names("BM", 100), Parallelism: 4, FailureLimit: 3}, collect(&outcomes))
		if stop != FailuresReached || len(outcomes) != 100 {
			t.Fatalf("stopped %v, %d outcomes", stop, len(outcomes))
		}
		// 3 failures stop it; no more than the others under way may fail besides.
		failed, left := 0, 0
		for _, outcome := range outcomes {
			switch {
			case outcome.Stopped == FailuresReached:
				left++
			case outcome.Err != nil:
				failed++
			}
		}
		if failed < 3 || failed > 3+3 || left+len(bus.sent) != 100 {
			t.Errorf("%d failed, %d were left, %d sent", failed, left, len(bus.sent))
		}
	})
}

func TestARefusalIsAFailureOfABatchToo(t *testing.T) {
	bus := &slowBus{}
	inBatch(t, bus, func(t *testing.T, e *Executor) {
		var outcomes []BatchOutcome
		agents := append([]string{"no-1"}, names("BM", 5)...)
		stop := e.ExecuteBatch(t.Context(), nil, "alice", Batch{Operation: restart(), Agents: agents, Parallelism: 1, FailureLimit: 1}, collect(&outcomes))
		if stop != FailuresReached || len(bus.sent) != 0 || len(outcomes) != 6 || fault.From(outcomes[0].Err).Reason != fault.AgentNotAccepted {
			t.Errorf("stopped %v, %d sent, %v", stop, len(bus.sent), outcomes)
		}
	})
}

// What is under way when the caller goes away is finished and on record; the rest is never sent.
func TestI3_ABatchWhoseCallerIsGoneStartsNoMore(t *testing.T) {
	for name, want := range map[string]Stop{"caller": CallerGone, "gateway": GatewayStops} {
		t.Run(name, func(t *testing.T) {
			bus := &slowBus{}
			inBatch(t, bus, func(t *testing.T, e *Executor) {
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				stopping := make(chan struct{})
				time.AfterFunc(1500*time.Millisecond, func() {
					if want == CallerGone {
						leave()
					} else {
						close(stopping)
					}
				})
				var outcomes []BatchOutcome
				stop := e.ExecuteBatch(ctx, stopping, "alice", Batch{Operation: restart(), Agents: names("BM", 20), Parallelism: 4, FailureLimit: 1}, collect(&outcomes))
				if stop != want || len(bus.sent) != 8 || len(outcomes) != 20 {
					t.Fatalf("stopped %v, %d sent, %d outcomes", stop, len(bus.sent), len(outcomes))
				}
				for i, outcome := range outcomes {
					if i < 8 && outcome.Err != nil || i >= 8 && outcome.Stopped != want {
						t.Errorf("%d: %+v", i, outcome)
					}
				}
			})
		})
	}
}

// The same batch under the same key asks every agent under the same id, in whatever case or order.
func TestI3_TheIDsOfABatchFollowFromItsKey(t *testing.T) {
	ids := func(key string, agents ...string) []string {
		bus := &slowBus{}
		inBatch(t, bus, func(t *testing.T, e *Executor) {
			operation := restart()
			operation.CommandId = key
			e.ExecuteBatch(t.Context(), nil, "alice", Batch{Operation: operation, Agents: agents, Parallelism: 1, FailureLimit: 1}, func(BatchOutcome) {})
		})
		var found []string
		for _, command := range bus.sent {
			found = append(found, command.GetCommandId())
		}
		slices.Sort(found)
		return found
	}
	key := uuid.NewString()
	first := ids(key, "BM-1", "BM-2")
	if second := ids(key, "bm-2", "bm-1"); !slices.Equal(first, second) || first[0] == first[1] {
		t.Errorf("%v and %v", first, second)
	}
	if other := ids(uuid.NewString(), "BM-1", "BM-2"); slices.Contains(other, first[0]) {
		t.Error("another key gives the same ids")
	}
}

func TestAPanicCostsABatchOneOutcome(t *testing.T) {
	bus := &slowBus{panics: true}
	inBatch(t, bus, func(t *testing.T, e *Executor) {
		var outcomes []BatchOutcome
		e.ExecuteBatch(t.Context(), nil, "alice", Batch{Operation: restart(), Agents: names("BM", 2), Parallelism: 1, FailureLimit: 2}, collect(&outcomes))
		var found *fault.Error
		if len(outcomes) != 2 || !errors.As(outcomes[0].Err, &found) || found.Reason != fault.Internal || found.CommandID != bus.sent[0].GetCommandId() {
			t.Errorf("%v", outcomes)
		}
	})
}
