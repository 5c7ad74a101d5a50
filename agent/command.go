package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/commandcenter/fleet/agent/host"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

const (
	maxMessageLength = 2048 // characters of CommandResult.message
	maxReads         = 64   // at once
	maxWaitingWrites = 32   // at once, the running one included
)

// executor runs the commands of both transports: writes one at a time, reads beside them.
type executor struct {
	name         string
	host         host.Host
	journal      journal
	faults       *Faults
	readTimeout  time.Duration
	writeTimeout time.Duration
	logger       *slog.Logger
	counters     *counters

	slot    chan struct{}          // holds one token while a write runs
	writing atomic.Pointer[holder] // the write that has it; nil: none
	reads   chan struct{}          // holds one token per read
	waiting chan struct{}          // holds one token per write, waiting or running

	work     context.Context // ends when running commands must
	stopWork context.CancelFunc

	restarts sync.WaitGroup // of the agent itself

	mu       sync.Mutex
	draining chan struct{} // closed by drain
	inFlight int
	idle     chan struct{} // closed when nothing is in flight any more and draining is; made by drain
}

func newExecutor(cfg Config, journal journal, counters *counters) *executor {
	work, stop := context.WithCancel(context.Background())
	return &executor{
		name: cfg.Name, host: cfg.Host, journal: journal, faults: cfg.Faults, counters: counters, logger: cfg.Logger,
		readTimeout: cfg.Commands.ReadTimeout, writeTimeout: cfg.Commands.WriteTimeout,
		slot: make(chan struct{}, 1), reads: make(chan struct{}, maxReads), waiting: make(chan struct{}, maxWaitingWrites),
		work: work, stopWork: stop, draining: make(chan struct{}),
	}
}

// ticket is a command from its arrival to its answer.
type ticket struct {
	cmd        *agentv1.Command
	op         operation
	receivedAt moment
	// startWithin is how long after its arrival it may be started: its budget, which over HTTP its caller watches too; over
	// the bus, no longer than busPatience.
	startWithin time.Duration
	refusal     *refusal // why nothing is done; nil: what follows counts
	record      *record  // nil: not recorded, since Faults have the agent forget
	mine        bool     // it is this one's to run; else the record tells of an earlier one
	release     func()   // what a restart of the agent itself holds; nil: it is none
}

// begin decides what to do with a command that arrived at receivedAt, and has what it is about to run in the journal. Nothing
// is started yet. complete or abandon must follow.
func (e *executor) begin(cmd *agentv1.Command, receivedAt moment) *ticket {
	e.enter()
	t := &ticket{cmd: cmd, op: operationOf(cmd), receivedAt: receivedAt, startWithin: cmd.GetBudget().AsDuration()}
	if t.refusal = check(cmd, e.name); t.refusal != nil {
		return t
	}
	if t.refusal = t.expired(); t.refusal != nil {
		return t
	}
	if e.faults.forgetful() {
		t.mine = true
		return t
	}
	var err error
	if t.record, t.mine, err = e.journal.begin(cmd, t.op.write(), time.Now()); err != nil {
		t.refusal = refuse(agentv1.RefusalReason_REFUSAL_REASON_JOURNAL_UNAVAILABLE, "%s", err)
	}
	return t
}

// beginFromBus is begin for a command whose message may have waited.
func (e *executor) beginFromBus(cmd *agentv1.Command, receivedAt moment) *ticket {
	t := e.begin(cmd, receivedAt)
	t.startWithin = min(t.startWithin, busPatience)
	return t
}

// starts reports whether the command is about to be started.
func (t *ticket) starts() bool { return t.refusal == nil && t.mine }

// abandon ends a command that is not started, because its message could not be settled. It may come again, and then it
// may run.
func (e *executor) abandon(t *ticket) {
	defer e.leave()
	if t.starts() {
		e.forget(t, e.refused(t.cmd, refuse(agentv1.RefusalReason_REFUSAL_REASON_UNSPECIFIED,
			"the command's message could not be taken off the bus")))
	}
}

// complete runs a command that was begun, or says what became of it before. Nothing is started for a caller who is gone,
// since then the budget is over; but a command that was started is finished, whoever asked. answered must follow.
func (e *executor) complete(caller context.Context, t *ticket) *agentv1.CommandResult {
	defer e.leave()
	result := e.answer(caller, t)
	e.counters.command(result.GetOutcome())
	e.logger.Info("command", "command_id", t.cmd.GetCommandId(), "operation", t.op.kind.String(),
		"issued_by", t.cmd.GetIssuedBy(), "outcome", result.GetOutcome().String(),
		"refusal", result.GetRefusalReason().String(), "message", result.GetMessage(),
		"duration", result.GetDuration().AsDuration())
	return result
}

func (e *executor) answer(caller context.Context, t *ticket) *agentv1.CommandResult {
	if t.refusal != nil {
		return e.refused(t.cmd, t.refusal)
	}
	if !t.mine {
		return e.repeated(t.cmd, t.record, t.receivedAt)
	}
	release, r := e.admit(t)
	if r == nil && caller.Err() != nil {
		release()
		r = gone()
	} else if r == nil {
		if r = t.expired(); r != nil { // looked at last, since nothing but the work may come after it
			release()
		}
	}
	if r != nil {
		result := e.refused(t.cmd, r)
		e.forget(t, result)
		return result
	}
	if e.restartsItself(t.cmd) {
		return e.acceptRestart(t, release)
	}
	defer release()
	result := e.run(t.cmd, t.op)
	if result.GetOutcome() == agentv1.Outcome_OUTCOME_REFUSED {
		e.forget(t, result)
	} else {
		e.finish(t, result)
	}
	return result
}

func (e *executor) finish(t *ticket, result *agentv1.CommandResult) {
	if t.record != nil {
		e.journal.finish(t.record, result, time.Now())
	}
}

func (e *executor) forget(t *ticket, result *agentv1.CommandResult) {
	if t.record != nil {
		e.journal.forget(t.record, result)
	}
}

// repeated answers a command whose id was begun before: with what became of it, waiting for that as long as this
// one's budget lasts.
func (e *executor) repeated(cmd *agentv1.Command, first *record, receivedAt moment) *agentv1.CommandResult {
	if print, err := fingerprintOf(cmd); err != nil || print != first.print {
		return e.refused(cmd, refuse(agentv1.RefusalReason_REFUSAL_REASON_INVALID,
			"commandId: this id was used for another command before"))
	}
	patience := time.NewTimer(cmd.GetBudget().AsDuration() - receivedAt.age())
	defer patience.Stop()
	select {
	case <-first.done:
		if first.result != nil {
			return first.result
		}
	case <-patience.C:
	case <-e.work.Done():
	}
	return e.refused(cmd, &refusal{
		agentv1.Outcome_OUTCOME_REFUSED, agentv1.RefusalReason_REFUSAL_REASON_ALREADY_BEGUN,
		"this command was begun before, and its outcome is not known; it is not run again",
	})
}

// admit waits until the command may be started, and says why if it may not. release must follow.
func (e *executor) admit(t *ticket) (release func(), r *refusal) {
	select {
	case <-e.draining:
		return nil, refuseDraining()
	default:
	}
	if r := t.expired(); r != nil { // recording and settling took their time
		return nil, r
	}
	places, what := e.reads, "reads"
	if t.op.write() {
		places, what = e.waiting, "writes"
	}
	select {
	case places <- struct{}{}:
	default:
		return nil, refuse(agentv1.RefusalReason_REFUSAL_REASON_BUSY, "%d %s are running or waiting", cap(places), what)
	}
	leave := func() { <-places }
	if !t.op.write() {
		return leave, nil
	}
	if r := e.takeSlot(t); r != nil {
		leave()
		return nil, r
	}
	e.writing.Store(&holder{t, now()})
	return func() {
		e.writing.Store(nil)
		<-e.slot
		leave()
	}, nil
}

// holder is the write that has the slot.
type holder struct {
	*ticket
	since moment
}

// String says which write it is, for who has to wait for it.
func (w *holder) String() string {
	if w == nil {
		return "another write"
	}
	return fmt.Sprintf("another write (%s, command %s, running for %s)",
		strings.ToLower(strings.TrimPrefix(w.op.kind.String(), "OPERATION_KIND_")), w.cmd.GetCommandId(), w.since.age().Round(time.Millisecond))
}

// takeSlot waits for the write before this one, briefly. What it then says names that write: it is the cause, whatever time
// this one had.
func (e *executor) takeSlot(t *ticket) *refusal {
	select {
	case e.slot <- struct{}{}:
		return e.keepSlot(t, "")
	default:
	}
	before := e.writing.Load().String()
	patience := time.NewTimer(t.slotWait())
	defer patience.Stop()
	select {
	case e.slot <- struct{}{}:
	case <-e.draining:
		return refuseDraining()
	case <-patience.C:
		select { // a slot that is free counts, however little patience there was
		case e.slot <- struct{}{}:
		default:
			// Also where the time to start ended meanwhile: what kept this one from starting is the other.
			return refuse(agentv1.RefusalReason_REFUSAL_REASON_BUSY, "%s had not ended %s after this one arrived",
				e.writing.Load(), t.receivedAt.age().Round(time.Millisecond))
		}
	}
	return e.keepSlot(t, "it waited for "+before+"; ")
}

// keepSlot gives the slot back if it came too late.
func (e *executor) keepSlot(t *ticket, waited string) *refusal {
	r := t.expired()
	if r != nil {
		<-e.slot
		r.message = waited + r.message
	}
	return r
}

func refuseDraining() *refusal {
	return refuse(agentv1.RefusalReason_REFUSAL_REASON_DRAINING, "the agent is shutting down")
}

// run does it.
func (e *executor) run(cmd *agentv1.Command, op operation) *agentv1.CommandResult {
	timeout := e.readTimeout
	if op.write() {
		timeout = e.writeTimeout
	}
	ctx, cancel := context.WithTimeout(e.work, timeout)
	defer cancel()
	result := &agentv1.CommandResult{CommandId: cmd.GetCommandId(), Agent: e.name}
	startedAt := time.Now()
	err := e.guarded(ctx, op, result)
	finishedAt := time.Now()
	result.StartedAt, result.FinishedAt = timestamppb.New(startedAt), timestamppb.New(finishedAt)
	result.Duration = durationpb.New(finishedAt.Sub(startedAt))
	var notFound *host.NotFoundError
	var state *host.StateError
	changed := len(result.GetChanges().GetChanges()) > 0
	switch {
	case err == nil:
		result.Outcome = agentv1.Outcome_OUTCOME_SUCCEEDED
		return result
	case errors.As(err, &notFound) && !changed:
		result.Outcome = agentv1.Outcome_OUTCOME_NOT_FOUND
	case errors.As(err, &state) && !changed && op.write():
		return e.refused(cmd, refuse(agentv1.RefusalReason_REFUSAL_REASON_HOST_STATE, "%s: %s", state.Subject, state.Detail))
	default:
		result.Outcome = agentv1.Outcome_OUTCOME_FAILED
	}
	if !op.write() {
		result.Payload = nil // half a list is none
	}
	result.Message = shortened(err.Error())
	return result
}

// guarded turns a panic of the host into a failure: the agent lives on.
func (e *executor) guarded(ctx context.Context, op operation, into *agentv1.CommandResult) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e.logger.Error("the host panicked", "operation", op.kind.String(), "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the host's code panicked (%v); how far it came is not known", p)
		}
	}()
	return op.run(ctx, e, into)
}

func (e *executor) refused(cmd *agentv1.Command, r *refusal) *agentv1.CommandResult {
	return &agentv1.CommandResult{
		CommandId: cmd.GetCommandId(), Agent: e.name,
		Outcome: r.outcome, RefusalReason: r.reason, Message: shortened(r.message),
	}
}

func (e *executor) enter() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inFlight++
}

func (e *executor) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inFlight--
	if e.inFlight == 0 && e.idle != nil {
		close(e.idle)
		e.idle = nil
	}
}

// drain refuses what comes from now on, and waits until what runs is finished or the grace is over. Then it ends the
// work's context and waits a little for the host to heed that.
func (e *executor) drain(grace time.Duration) {
	e.mu.Lock()
	close(e.draining)
	idle := make(chan struct{})
	e.idle = idle
	if e.inFlight == 0 {
		close(idle)
		e.idle = nil
	}
	e.mu.Unlock()
	defer e.awaitRestarts()
	defer e.stopWork()
	if waitFor(idle, grace) {
		return
	}
	e.logger.Warn("commands still run at the end of the grace; they are told to stop", "grace", grace)
	e.stopWork()
	if !waitFor(idle, obedience) {
		e.logger.Error("the host does not heed its context; its work is left behind")
	}
}

func (e *executor) awaitRestarts() {
	if !waitForAll(&e.restarts, obedience) {
		e.logger.Warn("the host does not heed its context while it restarts the agent")
	}
}

// obedience is how long a host may take to heed the end of its context.
const obedience = 3 * time.Second

// waitFor says whether the channel was closed in time.
func waitFor(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// waitForAll says whether all of the group ended in time.
func waitForAll(group *sync.WaitGroup, limit time.Duration) bool {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	return waitFor(done, limit)
}

func shortened(message string) string {
	if utf8.RuneCountInString(message) <= maxMessageLength {
		return message
	}
	return string([]rune(message)[:maxMessageLength-1]) + "…"
}
