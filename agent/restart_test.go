package agent

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/commandcenter/fleet/agent/host/simulated"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

const (
	neverReceived = agentv1.CommandState_COMMAND_STATE_NEVER_RECEIVED
	begunState    = agentv1.CommandState_COMMAND_STATE_BEGUN
	finishedState = agentv1.CommandState_COMMAND_STATE_FINISHED

	ownService = "CommandCenterAgent"
)

func restartService(name string) func(*agentv1.Command) {
	return func(cmd *agentv1.Command) {
		cmd.Operation = &agentv1.Command_RestartService{RestartService: &agentv1.RestartService{Service: name}}
	}
}

func getting(id string) func(*agentv1.Command) {
	return func(cmd *agentv1.Command) {
		cmd.Operation = &agentv1.Command_GetCommand{GetCommand: &agentv1.GetCommand{CommandId: id}}
	}
}

// known is what the agent answers over HTTP about a command.
func known(t *testing.T, a *Agent, id string) *agentv1.CommandRecord {
	t.Helper()
	status, body := get(t, a, "/agent/v1/commands/"+id)
	found := &agentv1.CommandRecord{}
	if err := protojson.Unmarshal(body, found); status != http.StatusOK || err != nil {
		t.Fatalf("%d %s %v", status, body, err)
	}
	return found
}

// serve runs an agent over HTTP until the function it returns is called, or the test ends.
func serve(t *testing.T, cfg Config) (a *Agent, end func()) {
	t.Helper()
	cfg.Name, cfg.HTTP = "BM-1", onHTTP
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	end = func() { stop(); <-ended }
	t.Cleanup(end)
	return a, end
}

func TestWhatBecameOfACommand(t *testing.T) {
	g := newGateway(t)
	m := newMachine(simulated.Options{StartDuration: time.Millisecond})
	a := g.run(Config{Host: m, HTTP: onHTTP})
	cmd := command(startService(stoppedService))
	ask := func() *agentv1.CommandRecord {
		t.Helper()
		g.send(command(getting(cmd.GetCommandId())), "BM-1", protobufEncoding)
		answer := g.reply()
		expect(t, answer, succeeded, noReason)
		overBus, overHTTP := answer.GetCommandRecord(), known(t, a, cmd.GetCommandId())
		if !proto.Equal(overBus, overHTTP) {
			t.Errorf("over the bus %v, over HTTP %v", overBus, overHTTP)
		}
		return overBus
	}
	if got := ask(); got.GetState() != neverReceived || got.GetCommandId() != cmd.GetCommandId() {
		t.Errorf("before: %v", got)
	}
	m.Hang(stoppedService)
	first := make(chan *agentv1.CommandResult, 1)
	go func() { result, _ := post(t, a, jsonEncoding, cmd); first <- result }()
	eventually(t, func() bool { return m.starts.Load() == 1 })
	if got := ask(); got.GetState() != begunState || !got.GetRunning() {
		t.Errorf("meanwhile: %v", got)
	}
	m.Release(stoppedService)
	want := <-first
	if got := ask(); got.GetState() != finishedState || !proto.Equal(got.GetResult(), want) || len(want.GetChanges().GetChanges()) != 1 {
		t.Errorf("after: %v", got)
	}
	read := command()
	post(t, a, jsonEncoding, read)
	if got := known(t, a, read.GetCommandId()); got.GetResult().GetOutcome() != succeeded || got.GetResult().GetPayload() != nil {
		t.Errorf("a read: %v", got)
	}
}

func TestI17_QuestionsAboutCommandsNeedTheTokenAndAnID(t *testing.T) {
	a := onlyHTTP(t, quick(), "obviously-fake")
	if status, _ := get(t, a, "/agent/v1/commands/"+command().GetCommandId()); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d", status)
	}
	a = onlyHTTP(t, quick(), "")
	if status, body := get(t, a, "/agent/v1/commands/7"); status != http.StatusBadRequest || !strings.Contains(string(body), "command_id") {
		t.Errorf("%d %s", status, body)
	}
}

// snapshot is the disk as a crash now would leave it.
func snapshot(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	left := newPath(t)
	if err := os.WriteFile(left, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return left
}

func TestI3_AnAgentThatDiedWhileItRanACommandFromTheBusDoesNotRunItAgain(t *testing.T) {
	g := newGateway(t)
	path, m := newPath(t), newMachine(simulated.Options{})
	g.run(Config{Host: m, JournalPath: path})
	m.Hang(stoppedService)
	cmd := command(startService(stoppedService))
	g.send(cmd, "BM-1", jsonEncoding)
	eventually(t, func() bool { return m.starts.Load() == 1 })
	next, _ := serve(t, Config{Host: m, JournalPath: snapshot(t, path)})
	result, _ := post(t, next, jsonEncoding, cmd)
	expect(t, result, refused, alreadyBegun)
	if got := known(t, next, cmd.GetCommandId()); got.GetState() != begunState || got.GetRunning() {
		t.Errorf("it is known as %v", got)
	}
	if m.starts.Load() != 1 {
		t.Error("it ran again")
	}
	m.Release(stoppedService)
	expect(t, g.reply(), succeeded, noReason)
}

// settling is an inbox that has its own mind about settling.
type settling struct {
	inbox
	complete func() error
}

func (settling) lockedUntil(*azservicebus.ReceivedMessage) time.Time { return time.Time{} }

func (settling) renew(context.Context, *azservicebus.ReceivedMessage) error { return nil }

func (s settling) CompleteMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.CompleteMessageOptions) error {
	return s.complete()
}

func TestI3_BegunIsOnDiskBeforeTheMessageIsSettledAndNothingStartsUnsettled(t *testing.T) {
	g := newGateway(t)
	path, m := newPath(t), quick()
	a := g.run(Config{Host: m, JournalPath: path})
	taker := &taker{agent: a}
	cmd := command(startService(stoppedService))
	body, err := jsonEncoding.marshal(cmd)
	if err != nil {
		t.Fatal(err)
	}
	session := "gw-1"
	message := &azservicebus.ReceivedMessage{Body: body, MessageID: cmd.GetCommandId(), ReplyToSessionID: &session}
	deliver := func(settled error) {
		t.Helper()
		taker.askedAt = now()
		_ = taker.handle(t.Context(), settling{complete: func() error {
			data, err := os.ReadFile(path)
			entries, _, errParse := parseJournal(path, data)
			if err != nil || errParse != nil || len(latest(entries)) != 1 || latest(entries)[0].State != stateBegun {
				t.Errorf("when it is settled, the disk has %s", data)
			}
			if m.starts.Load() != 0 {
				t.Error("it was started before it was settled")
			}
			return settled
		}}, message)
		taker.answering.Wait()
	}
	lost := errors.New("whether it was settled is not known")
	deliver(lost)
	deliver(lost)
	if m.starts.Load() != 0 || stateOf(a, cmd) != neverReceived {
		t.Error("it was started unsettled, or is known as begun")
	}
	deliver(nil)
	expect(t, g.reply(), succeeded, noReason)
	if m.starts.Load() != 1 || stateOf(a, cmd) != finishedState {
		t.Errorf("it ran %d times", m.starts.Load())
	}
}

func stateOf(a *Agent, cmd *agentv1.Command) agentv1.CommandState {
	return a.executor.lookup(cmd.GetCommandId()).GetState()
}

func TestARestartOfTheAgentIsAnsweredFirstAndCompletedByTheNextStart(t *testing.T) {
	path := newPath(t)
	asked := make(chan struct{})
	m := newMachine(simulated.Options{StartDuration: -1, StopDuration: -1, AgentService: ownService, RestartAgent: func() { close(asked) }})
	a, end := serve(t, Config{Host: m, JournalPath: path})
	cmd := command(restartService(strings.ToUpper(ownService)))
	result, _ := post(t, a, jsonEncoding, cmd)
	expect(t, result, succeeded, noReason)
	if !strings.Contains(result.GetMessage(), "accepted") || result.GetFinishedAt() != nil || result.GetChanges() == nil {
		t.Errorf("answered %v", result)
	}
	<-asked
	if got := known(t, a, cmd.GetCommandId()); got.GetState() != begunState || !got.GetRunning() {
		t.Errorf("before it ends: %v", got)
	}
	result, _ = post(t, a, jsonEncoding, command(startService("Spooler"), budget(10*time.Second)))
	expect(t, result, refused, busy) // it would be cut off
	crashed := snapshot(t, path)
	began := time.Now()
	end()
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the agent took %s to end", took)
	}
	for _, left := range []string{path, crashed} { // it ended in order, or not
		for range 2 {
			next, end := serve(t, Config{Host: m, JournalPath: left})
			if got := known(t, next, cmd.GetCommandId()); got.GetState() != finishedState || got.GetResult().GetOutcome() != succeeded || got.GetResult().GetFinishedAt() == nil {
				t.Errorf("after the restart: %v", got)
			}
			result, _ = post(t, next, jsonEncoding, cmd)
			expect(t, result, succeeded, noReason) // and the channel is not closed a second time
			end()
		}
	}
}

func TestARestartOfTheAgentThatDoesNotHappenHasFailed(t *testing.T) {
	for name, cause := range map[string]error{"refused by the host": errors.New("access denied"), "promised only": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(simulated.Options{AgentService: ownService})
				m.Fail(ownService, cause)
				e := executorOn(m)
				cmd := command(restartService(ownService))
				expect(t, e.do(t.Context(), cmd, time.Now()), succeeded, noReason)
				time.Sleep(30 * time.Minute) // fake
				got := e.lookup(cmd.GetCommandId())
				expect(t, got.GetResult(), failed, noReason)
				expect(t, e.do(t.Context(), command(startService("Spooler")), time.Now()), succeeded, noReason)
				e.drain(time.Second)
			})
		})
	}
}

func TestI3_ARestartThatCanNotBeRecordedIsNotDone(t *testing.T) {
	path, d := newPath(t), &journalDisk{room: -1}
	m := newMachine(simulated.Options{AgentService: ownService, RestartAgent: func() { t.Error("it was done") }})
	cfg := journalConfig(path)
	cfg.Host = m
	e := newExecutor(cfg, openOn(t, path, d), &counters{})
	defer e.stopWork()
	ticket := e.begin(command(restartService(ownService)), now())
	d.room = 10
	expect(t, e.complete(t.Context(), ticket), refused, noJournal)
	e.answered(ticket)
	e.drain(time.Second)
}

func TestI5_ARestartOfTheAgentWhoseAnswerTookTooLongIsNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(simulated.Options{AgentService: ownService, RestartAgent: func() { t.Error("it was done") }})
		e := executorOn(m)
		for _, begin := range []func(*agentv1.Command, moment) *ticket{e.begin, e.beginFromBus} {
			cmd := command(restartService(ownService), budget(10*time.Second))
			ticket := begin(cmd, now())
			expect(t, e.complete(t.Context(), ticket), succeeded, noReason)
			answering, cancel := ticket.answering(t.Context())
			<-answering.Done()
			cancel()
			if spent := ticket.receivedAt.age(); spent != ticket.startWithin {
				t.Errorf("its answer is given %s", spent)
			}
			e.answered(ticket)
			synctest.Wait()
			got := e.lookup(cmd.GetCommandId())
			expect(t, got.GetResult(), failed, noReason)
			if !strings.Contains(got.GetResult().GetMessage(), "not restarted") {
				t.Errorf("told as %q", got.GetResult().GetMessage())
			}
		}
		expect(t, e.do(t.Context(), command(startService("Spooler")), time.Now()), succeeded, noReason)
		e.drain(time.Second)
	})
}

func TestI5_ARestartOfAMutedAgentIsNotDoneLate(t *testing.T) {
	g := newGateway(t)
	m := newMachine(simulated.Options{AgentService: ownService, RestartAgent: func() { t.Error("it was done") }})
	faults := &Faults{}
	faults.Mute()
	a := g.run(Config{Host: m, HTTP: onHTTP, Faults: faults})
	overBus, overHTTP := command(restartService(ownService), budget(time.Second)), command(restartService(ownService), budget(time.Second))
	g.send(overBus, "BM-1", jsonEncoding)
	eventually(t, func() bool { return stateOf(a, overBus) == finishedState })
	body, err := jsonEncoding.marshal(overHTTP)
	if err != nil {
		t.Fatal(err)
	}
	postBody(t, a, body, func(r *http.Request) { r.Header.Set("Content-Type", "application/json") })
	eventually(t, func() bool { return stateOf(a, overHTTP) == finishedState })
	expect(t, a.executor.lookup(overBus.GetCommandId()).GetResult(), failed, noReason)
	expect(t, a.executor.lookup(overHTTP.GetCommandId()).GetResult(), failed, noReason)
}

func TestI5_ACommandFromTheBusIsNotStartedLongAfterItsArrival(t *testing.T) {
	g := newGateway(t)
	m := quick()
	a := g.run(Config{Host: m})
	cmd := command(startService(stoppedService))
	body, err := jsonEncoding.marshal(cmd)
	if err != nil {
		t.Fatal(err)
	}
	session := "gw-1"
	message := &azservicebus.ReceivedMessage{Body: body, MessageID: cmd.GetCommandId(), ReplyToSessionID: &session}
	// It was given back once, and came again so late: the network is slow, and what counts is when it was asked for.
	taker := &taker{agent: a, returned: message, askedAt: now().earlier(busPatience)}
	if err := taker.handle(t.Context(), settling{complete: func() error { return nil }}, message); err != nil {
		t.Fatal(err)
	}
	expect(t, g.reply(), overdue, noReason)
	taker.answering.Wait()
	if m.starts.Load() != 0 || stateOf(a, cmd) != neverReceived {
		t.Error("it was started, or is known as begun")
	}
}
