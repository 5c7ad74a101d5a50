package agent

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/commandcenter/fleet/agent/host/simulated"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// stopped is a service that starts stopped on every simulated host.
const stoppedService = "W32Time"

func executorOn(m *machine) *executor {
	cfg := Config{Name: "BM-1", Host: m}.withDefaults()
	return newExecutor(cfg, newMemory(), &counters{})
}

// inBubble runs a test on fake time, with an executor on a machine whose services take a second to start.
func inBubble(t *testing.T, test func(t *testing.T, e *executor, m *machine)) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(simulated.Options{StartDuration: time.Second, StopDuration: time.Second})
		e := executorOn(m)
		defer e.stopWork()
		test(t, e, m)
	})
}

func TestI5_WrongAgentIsRefusedAndNothingIsDone(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		expect(t, e.do(t.Context(), command(target("BM-2"), startService(stoppedService)), time.Now()), refused, wrongAgent)
		expect(t, e.do(t.Context(), command(target("BM-2")), time.Now()), refused, wrongAgent)
		if m.starts.Load()+m.reads.Load() != 0 {
			t.Error("something was done for another agent")
		}
	})
}

func TestI13_TargetsDifferingInCaseAreThisAgent(t *testing.T) {
	e := executorOn(newMachine(simulated.Options{}))
	defer e.stopWork()
	e.name = "Größe-É" // composed
	for _, name := range []string{"Größe-É", "GRÖSSE-É", "größe-e\u0301"} {
		expect(t, e.do(t.Context(), command(target(name)), time.Now()), succeeded, noReason)
	}
	expect(t, e.do(t.Context(), command(target("Grosse-E")), time.Now()), refused, wrongAgent)
}

// between is a caller whom answer looks at after it has admitted the command, and before it looks at the time for the last time.
type between struct {
	context.Context
	then func()
}

func (b between) Err() error {
	b.then()
	return b.Context.Err()
}

// What stands still after a command was admitted, and goes on when its time to start is over, does not start it: the time is looked at
// last. A read and a write have a look of their own before that, which does not help here.
func TestI24_TheTimeIsLookedAtLast(t *testing.T) {
	for name, change := range map[string]func(*agentv1.Command){
		"a write": startService(stoppedService), "a read": func(*agentv1.Command) {},
	} {
		inBubble(t, func(t *testing.T, e *executor, m *machine) {
			ticket := e.begin(command(change, budget(2*time.Second)), now())
			result := e.complete(between{t.Context(), func() { time.Sleep(2 * time.Second) }}, ticket)
			if result.GetOutcome() != agentv1.Outcome_OUTCOME_EXPIRED || m.starts.Load()+m.reads.Load() != 0 {
				t.Errorf("%s: %v, %d started", name, result, m.starts.Load()+m.reads.Load())
			}
			if len(e.slot)+len(e.reads)+len(e.waiting) != 0 {
				t.Errorf("%s: its place is not given back", name)
			}
			if again := e.begin(ticket.cmd, now()); !again.starts() {
				t.Errorf("%s: it counts as begun", name)
			}
		})
	}
}

func TestI13_BlanksAroundATargetDoNotCount(t *testing.T) {
	for _, self := range []string{"SP-1", "SP-1 ", "\u00a0sp-1\u2003"} {
		e := executorOn(newMachine(simulated.Options{}))
		e.name = self
		for _, name := range []string{"SP-1", " sp-1", "SP-1\u00a0"} {
			expect(t, e.do(t.Context(), command(target(name)), time.Now()), succeeded, noReason)
		}
		expect(t, e.do(t.Context(), command(target("SP- 1")), time.Now()), refused, wrongAgent)
		e.stopWork()
	}
}

func TestI5_ExpiredIsNeverStarted(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		m.Hang(stoppedService)
		go e.do(t.Context(), command(startService(stoppedService)), time.Now())
		synctest.Wait() // it holds the slot
		began := time.Now()
		// Its budget ends while it waits. What it waited for is the cause, and is named.
		got := e.do(t.Context(), command(startService("Spooler"), budget(time.Second)), began)
		expect(t, got, refused, busy)
		if !strings.Contains(got.GetMessage(), "another write (start_service, command ") {
			t.Errorf("it hides the write before it: %s", got.GetMessage())
		}
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("it waited %s", waited)
		}
		// Its budget was over before: it had waited for a place in the process, or a settlement.
		expect(t, e.do(t.Context(), command(budget(time.Second)), time.Now().Add(-time.Second)), overdue, noReason)
		expect(t, e.do(t.Context(), command(budget(0)), time.Now()), overdue, noReason)
		expect(t, e.do(t.Context(), command(budget(-time.Second)), time.Now()), overdue, noReason)
		if m.starts.Load() != 1 || m.reads.Load() != 0 {
			t.Error("an expired command was started")
		}
		m.Release(stoppedService)
	})
}

func TestI5_ExpiredWhenTheSlotComesFreeTooLate(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		// The write before it ends exactly when its budget does.
		go e.do(t.Context(), command(startService(stoppedService)), time.Now())
		synctest.Wait()
		got := e.do(t.Context(), command(startService("Spooler"), budget(time.Second)), time.Now())
		if got.GetOutcome() != overdue { // the timer was first
			expect(t, got, refused, busy)
		}
		if !strings.Contains(got.GetMessage(), "another write (start_service, command ") {
			t.Errorf("it hides the write before it: %s", got.GetMessage())
		}
		if m.starts.Load() != 1 {
			t.Error("it was started after its budget")
		}
		// It may have come again since, and then it is not known as begun.
		expect(t, e.do(t.Context(), command(id(got.GetCommandId()), startService("Spooler")), time.Now()), succeeded, noReason)
	})
}

// What cannot be done as things stand was not done, and may be asked for again under its id once they stand otherwise.
func TestTheStateOfTheHostRefusesAWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		pool := func(cmd *agentv1.Command) {
			cmd.Operation = &agentv1.Command_RecycleAppPool{RecycleAppPool: &agentv1.RecycleAppPool{Pool: "Legacy.Classic"}}
		}
		got := e.do(t.Context(), command(pool), time.Now())
		expect(t, got, refused, agentv1.RefusalReason_REFUSAL_REASON_HOST_STATE)
		if want := "application pool Legacy.Classic: it is stopped, and only a started pool can be recycled; nothing was done"; got.GetMessage() != want {
			t.Errorf("it says %q", got.GetMessage())
		}
		if known := e.lookup(got.GetCommandId()); known.GetState() != agentv1.CommandState_COMMAND_STATE_NEVER_RECEIVED {
			t.Errorf("the journal has %v", known)
		}
		if _, err := m.StartAppPool(t.Context(), "Legacy.Classic"); err != nil {
			t.Fatal(err)
		}
		expect(t, e.do(t.Context(), command(pool, id(got.GetCommandId())), time.Now()), succeeded, noReason)
	})
}

func TestI5_AFreeSlotDoesNotReviveAnExpiredCommand(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		for range 20 { // slot and timer are ready at once, and either may win
			r := e.takeSlot(&ticket{receivedAt: now().earlier(time.Second), startWithin: time.Second})
			if r == nil || r.outcome != overdue || len(e.slot) != 0 {
				t.Fatalf("the slot was given (%v), %d tokens are out", r, len(e.slot))
			}
		}
	})
}

func TestI5_AWriteWaitsTwoSecondsAndIsThenRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		m.Hang(stoppedService)
		go e.do(t.Context(), command(startService(stoppedService)), time.Now())
		synctest.Wait()
		began := time.Now()
		expect(t, e.do(t.Context(), command(startService("Spooler")), began), refused, busy)
		if waited := time.Since(began); waited != 2*time.Second {
			t.Errorf("it waited %s", waited)
		}
		// What it has waited since it arrived counts.
		began = time.Now()
		expect(t, e.do(t.Context(), command(startService("Spooler")), began.Add(-1500*time.Millisecond)), refused, busy)
		if waited := time.Since(began); waited != 500*time.Millisecond {
			t.Errorf("it waited %s", waited)
		}
		if m.starts.Load() != 1 {
			t.Error("a refused write was started")
		}
		m.Release(stoppedService)
	})
}

func TestI5_NothingIsStartedForACallerWhoIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		caller, leave := context.WithCancel(t.Context())
		go e.do(t.Context(), command(startService(stoppedService)), time.Now())
		synctest.Wait()
		waiting := command(startService("Spooler"))
		time.AfterFunc(time.Second/2, leave) // while the write before it still runs
		expect(t, e.do(caller, waiting, time.Now()), overdue, noReason)
		if got := m.starts.Load(); got != 1 {
			t.Errorf("%d were started", got)
		}
		// Nothing was done, so it may come again.
		expect(t, e.do(t.Context(), waiting, time.Now()), succeeded, noReason)
	})
}

func TestWritesRunOneAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		services := []string{stoppedService, "Spooler", "W3SVC", "WAS"} // the first takes a second, the rest run already
		var all sync.WaitGroup
		for _, s := range services {
			all.Go(func() { expect(t, e.do(t.Context(), command(startService(s)), time.Now()), succeeded, noReason) })
		}
		all.Wait()
		if m.starts.Load() != int64(len(services)) || m.atOnce.Load() != 1 {
			t.Errorf("%d writes ran, up to %d at once", m.starts.Load(), m.atOnce.Load())
		}
	})
}

func TestReadsDoNotWaitForWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		m.Hang(stoppedService)
		for range maxWaitingWrites {
			go e.do(t.Context(), command(startService(stoppedService)), time.Now())
		}
		synctest.Wait()
		began := time.Now()
		expect(t, e.do(t.Context(), command(), began), succeeded, noReason)
		if time.Since(began) != 0 {
			t.Error("a read waited for a write")
		}
		expect(t, e.do(t.Context(), command(startService("W3SVC")), time.Now()), refused, busy) // no place to wait is left
		if time.Since(began) != 0 {
			t.Error("a write waited in a place that it was refused")
		}
		m.Release(stoppedService)
	})
}

func TestI3_ARepeatedCommandIsAnsweredWithTheFirstOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		same := command(startService(stoppedService))
		again := command(startService(stoppedService), id(strings.ToUpper(same.GetCommandId())))
		first := make(chan *agentv1.CommandResult, 1)
		go func() { first <- e.do(t.Context(), same, time.Now()) }()
		synctest.Wait()
		second := e.do(t.Context(), again, time.Now()) // while the first runs
		third := e.do(t.Context(), same, time.Now())   // and after it
		expect(t, second, succeeded, noReason)
		if want := <-first; second.GetStartedAt().AsTime() != want.GetStartedAt().AsTime() || third != want {
			t.Error("the repeats were not answered with what became of the first")
		}
		if m.starts.Load() != 1 {
			t.Errorf("it ran %d times", m.starts.Load())
		}
		// Reads too.
		read := command()
		expect(t, e.do(t.Context(), read, time.Now()), succeeded, noReason)
		expect(t, e.do(t.Context(), read, time.Now()), succeeded, noReason)
		if m.reads.Load() != 1 {
			t.Errorf("a repeated read ran %d times", m.reads.Load())
		}
	})
}

func TestI3_ARepeatGivesUpWithItsBudget(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		m.Hang(stoppedService)
		same := command(startService(stoppedService))
		go e.do(t.Context(), same, time.Now())
		synctest.Wait()
		began := time.Now()
		expect(t, e.do(t.Context(), command(id(same.GetCommandId()), startService(stoppedService), budget(3*time.Second)), began), refused, alreadyBegun)
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("it waited %s", waited)
		}
		m.Release(stoppedService)
	})
}

func TestAnIDOfAnotherCommandIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		first := command(startService(stoppedService))
		expect(t, e.do(t.Context(), first, time.Now()), succeeded, noReason)
		expect(t, e.do(t.Context(), command(id(first.GetCommandId()), startService("Spooler")), time.Now()), refused, invalid)
		if m.starts.Load() != 1 {
			t.Error("another command ran under the id of the first")
		}
	})
}

func TestARefusedCommandMayComeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		m.Hang(stoppedService)
		go e.do(t.Context(), command(startService(stoppedService)), time.Now())
		synctest.Wait()
		second := command(startService("Spooler"))
		expect(t, e.do(t.Context(), second, time.Now()), refused, busy)
		m.Release(stoppedService)
		time.Sleep(2 * time.Second) // fake: until the first is done
		expect(t, e.do(t.Context(), second, time.Now()), succeeded, noReason)
	})
}

func TestDrainingRefusesAndFinishes(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		running, waiting := make(chan *agentv1.CommandResult, 1), make(chan *agentv1.CommandResult, 1)
		repeated := make(chan *agentv1.CommandResult, 1)
		cmd := command(startService(stoppedService))
		go func() { running <- e.do(t.Context(), cmd, time.Now()) }()
		synctest.Wait()
		go func() { waiting <- e.do(t.Context(), command(startService("Spooler")), time.Now()) }()
		synctest.Wait()
		drained := make(chan struct{})
		go func() { e.drain(10 * time.Second); close(drained) }()
		synctest.Wait()
		expect(t, <-waiting, refused, draining)
		expect(t, e.do(t.Context(), command(), time.Now()), refused, draining)
		go func() { repeated <- e.do(t.Context(), cmd, time.Now()) }()
		expect(t, <-running, succeeded, noReason)
		expect(t, <-repeated, succeeded, noReason)
		<-drained
		if m.starts.Load() != 1 {
			t.Error("a command was started while draining")
		}
	})
}

func TestDrainingEndsWithTheGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		m.Hang(stoppedService)
		running := make(chan *agentv1.CommandResult, 1)
		go func() { running <- e.do(t.Context(), command(startService(stoppedService)), time.Now()) }()
		synctest.Wait()
		began := time.Now()
		e.drain(10 * time.Second)
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("draining took %s", took)
		}
		result := <-running
		expect(t, result, failed, noReason)
		if changes := result.GetChanges().GetChanges(); len(changes) != 1 || changes[0].GetAfter() != "START_PENDING" {
			t.Errorf("what was changed by then is not told: %v", changes)
		}
		m.Release(stoppedService)
	})
}

func TestWritesEndWithTheirTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		m.Hang(stoppedService)
		began := time.Now()
		expect(t, e.do(t.Context(), command(startService(stoppedService)), began), failed, noReason)
		if took := time.Since(began); took != 5*time.Minute {
			t.Errorf("it took %s", took)
		}
		m.Release(stoppedService)
	})
}

func TestOutcomesOfTheHost(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		expect(t, e.do(t.Context(), command(startService("nothing of that name")), time.Now()), notFound, noReason)
		expect(t, e.do(t.Context(), command(startService("RemoteRegistry")), time.Now()), refused, agentv1.RefusalReason_REFUSAL_REASON_HOST_STATE)
		m.panics = true
		expect(t, e.do(t.Context(), command(startService("Spooler")), time.Now()), failed, noReason)
		m.panics = false
		expect(t, e.do(t.Context(), command(startService("Spooler")), time.Now()), succeeded, noReason) // the slot is free again
	})
}

func TestI17_BadCommandsAreRefusedByField(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		for field, change := range map[string]func(*agentv1.Command){
			"command_id":   id("not a uuid"),
			"target_agent": target(""),
			"budget":       func(c *agentv1.Command) { c.Budget = nil },
			"budget:":      budget(2 * time.Hour),
			"operation":    func(c *agentv1.Command) { c.Operation = nil },
			"service":      startService(""),
			"service ":     startService(strings.Repeat("x", 257)),
		} {
			got := e.do(t.Context(), command(change), time.Now())
			expect(t, got, refused, invalid)
			if !strings.Contains(got.GetMessage(), strings.Trim(field, " :")) {
				t.Errorf("%q does not name %s", got.GetMessage(), field)
			}
		}
		if m.starts.Load()+m.reads.Load() != 0 {
			t.Error("something was done")
		}
	})
}

func TestEveryOperationIsKnown(t *testing.T) {
	fields := (&agentv1.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("operation").Fields()
	kinds := map[agentv1.OperationKind]bool{}
	for i := range fields.Len() {
		cmd := &agentv1.Command{}
		m := cmd.ProtoReflect()
		m.Set(fields.Get(i), m.NewField(fields.Get(i)))
		kinds[operationOf(cmd).kind] = true
	}
	if kinds[agentv1.OperationKind_OPERATION_KIND_UNSPECIFIED] || len(kinds) != len(capabilities()) {
		t.Errorf("%d operations in the contract, known are %v, capabilities %v", fields.Len(), kinds, capabilities())
	}
}

func TestTheJournalIsBounded(t *testing.T) {
	m := newMemory()
	m.limits = [2]limits{{2 * time.Minute, 3}, {time.Hour, 2}}
	now := time.Now()
	run := func(write bool, at time.Time) (string, error) {
		cmd := command()
		r, mine, err := m.begin(cmd, write, at)
		if err == nil {
			if !mine {
				t.Fatal("a new id is known")
			}
			m.finish(r, &agentv1.CommandResult{}, at)
		}
		return cmd.GetCommandId(), err
	}
	known := func(s string, at time.Time) bool {
		r, mine, err := m.begin(command(id(s)), false, at)
		if err != nil {
			t.Fatal(err)
		}
		if mine {
			m.forget(r, nil)
		}
		return !mine
	}
	write1, _ := run(true, now)
	write2, _ := run(true, now.Add(30*time.Minute))
	if _, err := run(true, now.Add(59*time.Minute)); err == nil {
		t.Error("a third write within the hour was taken; the record of another would have to give way")
	}
	if !known(write1, now.Add(59*time.Minute)) || known(write1, now.Add(time.Hour)) || !known(write2, now.Add(time.Hour)) {
		t.Error("writes are not kept for an hour, or longer")
	}
	if _, err := run(true, now.Add(time.Hour)); err != nil {
		t.Error("there is place again after an hour:", err)
	}
	var reads []string
	for i := range 5 {
		read, err := run(false, now.Add(time.Hour+time.Duration(i)))
		if err != nil {
			t.Fatal(err)
		}
		reads = append(reads, read)
	}
	if known(reads[0], now.Add(time.Hour+10)) || !known(reads[4], now.Add(time.Hour+10)) || known(reads[4], now.Add(time.Hour+3*time.Minute)) {
		t.Error("the oldest reads do not give way")
	}
	if len(m.records) > 3 {
		t.Errorf("%d records are kept", len(m.records))
	}
}

func TestAFullJournalRunsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, e *executor, m *machine) {
		full := newMemory()
		full.limits[1].count = 0
		e.journal = full
		expect(t, e.do(t.Context(), command(startService("Spooler")), time.Now()), refused, noJournal)
		if m.starts.Load() != 0 {
			t.Error("it ran unrecorded")
		}
	})
}

// FuzzCommand feeds what the network may bring. Whatever it is, the agent answers within the contract, and does nothing
// that it was not asked for by its own name.
func FuzzCommand(f *testing.F) {
	for _, e := range []encoding{jsonEncoding, protobufEncoding} {
		for _, cmd := range []*agentv1.Command{command(), command(startService("Spooler")), command(target("BM-2")), command(budget(-1)), {}} {
			body, err := e.marshal(cmd)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(e), body)
		}
	}
	f.Add("", []byte(`{"targetAgent":"BM-1","commandId":"`+uuid.NewString()+`","budget":"5s","launchRockets":{}}`))
	f.Add("application/json; charset=utf-8", []byte(`{"budget":"1e99s"}`))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		m := newMachine(simulated.Options{StartDuration: -1, StopDuration: -1, WorkDuration: -1})
		e := executorOn(m)
		defer e.stopWork()
		form, _ := encodingOf(contentType)
		cmd, err := decodeCommand(form, body)
		if err != nil {
			return
		}
		result := e.do(t.Context(), cmd, time.Now())
		if result.GetOutcome() == agentv1.Outcome_OUTCOME_UNSPECIFIED || len([]rune(result.GetMessage())) > maxMessageLength {
			t.Errorf("answered with %v", result)
		}
		if !sameName(cmd.GetTargetAgent(), "BM-1") && (m.starts.Load() != 0 || m.reads.Load() != 0) {
			t.Error("ran a command of another agent")
		}
		if _, err := form.marshal(result); err != nil {
			t.Errorf("the answer can't be encoded: %v", err)
		}
	})
}
