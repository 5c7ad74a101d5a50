package command

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"github.com/commandcenter/fleet/services/internal/spelling"
)

// Batch is one operation for many agents.
type Batch struct {
	// Operation holds the operation, and the batch's id where the caller chose one: each command's id then follows from it and
	// from its agent's name, so that asking again runs nothing again.
	Operation *agentv1.Command
	Agents    []string
	// Parallelism is how many commands may be under way; FailureLimit after how many failures no more are started.
	Parallelism, FailureLimit int
}

// Stop is why a batch ended before its last agent.
type Stop int

// The reasons, in the order in which they are looked for.
const (
	NotStopped Stop = iota
	FailuresReached
	CallerGone
	GatewayStops
)

// BatchOutcome is what became of one agent.
type BatchOutcome struct {
	Agent string
	// Stopped is why no command was sent to it at all.
	Stopped Stop
	// Result and Err are those of Execute.
	Result Result
	Err    error
}

// ExecuteBatch carries out the operation on each agent, each decided afresh, and reports every outcome, one at a time. It starts no
// more when there were too many failures, the caller is gone or the gateway stops; what is under way then is finished, so that its
// outcome is on record.
func (e *Executor) ExecuteBatch(ctx context.Context, stopping <-chan struct{}, principal string, batch Batch, report func(BatchOutcome)) Stop {
	queue := &batchQueue{batch: batch, caller: ctx, stopping: stopping}
	outcomes := make(chan BatchOutcome)
	var workers sync.WaitGroup
	for range min(batch.Parallelism, len(batch.Agents)) {
		workers.Go(func() {
			for agent, more := queue.next(); more; agent, more = queue.next() {
				result, err := e.guarded(context.WithoutCancel(ctx), principal, agent, batch.command(agent))
				queue.ended(err)
				outcomes <- BatchOutcome{Agent: agent, Result: result, Err: err}
			}
		})
	}
	go func() { workers.Wait(); close(outcomes) }()
	for outcome := range outcomes {
		report(outcome)
	}
	for _, agent := range queue.left() {
		report(BatchOutcome{Agent: agent, Stopped: queue.stop})
	}
	return queue.stop
}

// guarded lets a panic cost one agent's outcome, not the process.
func (e *Executor) guarded(ctx context.Context, principal, agent string, operation *agentv1.Command) (result Result, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = errFailed.WithAgent(agent).WithCommand(operation.GetCommandId()).WithCause(fmt.Errorf("panic: %v\n%s", caught, debug.Stack()))
			e.Logger.Error("a command of a batch panicked", "agent", agent, "error", err)
		}
	}()
	return e.Execute(ctx, principal, agent, operation)
}

// command is the one of an agent.
func (b Batch) command(agent string) *agentv1.Command {
	operation := proto.CloneOf(b.Operation)
	key, err := uuid.Parse(operation.GetCommandId())
	if err != nil { // the caller chose none
		operation.CommandId = uuid.NewString()
		return operation
	}
	operation.CommandId = uuid.NewSHA1(key, []byte(spelling.Key(agent))).String()
	return operation
}

// batchQueue hands out agents until the batch stops.
type batchQueue struct {
	batch    Batch
	caller   context.Context
	stopping <-chan struct{}

	mu       sync.Mutex
	started  int
	failures int
	stop     Stop
}

func (q *batchQueue) next() (agent string, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.started == len(q.batch.Agents) {
		return "", false
	}
	if q.stop == NotStopped {
		q.stop = q.look()
	}
	if q.stop != NotStopped {
		return "", false
	}
	q.started++
	return q.batch.Agents[q.started-1], true
}

func (q *batchQueue) look() Stop {
	select {
	case <-q.stopping:
		return GatewayStops
	default:
	}
	switch {
	case q.failures >= q.batch.FailureLimit:
		return FailuresReached
	case q.caller.Err() != nil:
		return CallerGone
	}
	return NotStopped
}

func (q *batchQueue) ended(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.failures++
	}
}

// left are the agents that nothing was sent to. It is asked when nothing runs any more.
func (q *batchQueue) left() []string { return q.batch.Agents[q.started:] }
