package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// puppet is a small agent that keeps the contract, but for the rule that it is told to break.
type puppet struct {
	t          *testing.T
	connection string
	breaks     string // what it does wrong; empty: nothing

	mu       sync.Mutex
	journal  map[string]*entry // outlives restarts
	writing  chan struct{}     // holds a token while a write runs
	draining bool
	work     sync.WaitGroup
	stop     context.CancelFunc
	ended    chan error

	standing sync.RWMutex // held while it stands still
	returned int64        // the message that was given back last
}

// entry is what the journal has of one command.
type entry struct {
	print  string
	begun  time.Time
	done   chan struct{}
	result *agentv1.CommandResult // once done
}

func newPuppet(t *testing.T, connection, breaks string) *puppet {
	return &puppet{t: t, connection: connection, breaks: breaks, journal: map[string]*entry{}, writing: make(chan struct{}, 1)}
}

func (p *puppet) does(wrong string) bool { return p.breaks == wrong }

// Start implements Process.
func (p *puppet) Start(context.Context) error {
	client, err := azservicebus.NewClientFromConnectionString(p.connection, &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: 2, RetryDelay: 10 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	p.mu.Lock()
	if p.does("forgets at a restart") {
		p.journal = map[string]*entry{}
	}
	p.stop, p.ended, p.draining = stop, make(chan error, 1), false
	ended := p.ended
	p.mu.Unlock()
	go func() {
		var loops sync.WaitGroup
		loops.Go(func() { p.heartbeats(ctx, client) })
		loops.Go(func() { p.commands(ctx, client) })
		loops.Wait()
		if !p.does("leaves its work at a stop") {
			p.work.Wait()
		}
		closing, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = client.Close(closing)
		ended <- nil
		close(ended)
	}()
	return nil
}

// Stop implements Process.
func (p *puppet) Stop(context.Context) (<-chan error, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	p.stop()
	return p.ended, nil
}

// Restart implements Process.
func (p *puppet) Restart(ctx context.Context) error {
	ended, err := p.Stop(ctx)
	if err != nil {
		return err
	}
	<-ended
	return p.Start(ctx)
}

// Freeze implements Freezer.
func (p *puppet) Freeze(context.Context) error { p.standing.Lock(); return nil }

// Thaw implements Freezer.
func (p *puppet) Thaw() error { p.standing.Unlock(); return nil }

// moves waits while the puppet stands still.
func (p *puppet) moves() {
	p.standing.RLock()
	defer p.standing.RUnlock()
}

const puppetInterval = 2 * time.Second

func (p *puppet) heartbeats(ctx context.Context, client *azservicebus.Client) {
	sender, err := client.NewSender(stateTopic, nil)
	if err != nil {
		p.t.Error(err)
		return
	}
	boot, interval := newID(), puppetInterval
	if p.does("beats seldom") {
		interval = 4 * puppetInterval
	}
	bindings := &agentv1.IisBindings{Bindings: []*agentv1.IisBinding{{SiteName: "S", Protocol: "http", BindingInformation: "*:80:"}}}
	for sequence := int64(1); ctx.Err() == nil; sequence++ {
		h := &agentv1.Heartbeat{
			Name: testName, BootId: boot, Sequence: sequence, ReportedAt: timestamppb.Now(), IisBindings: bindings,
			Capabilities: []string{"OPERATION_KIND_LIST_SERVICES", "OPERATION_KIND_RESTART_SERVICE", "OPERATION_KIND_GET_COMMAND"},
		}
		if !p.does("repeats its bindings") {
			bindings = nil
		}
		switch p.breaks {
		case "has a host name that is too long":
			h.Hostname = strings.Repeat("x", 300)
		case "has no boot id":
			h.BootId = ""
		case "names other capabilities":
			h.Capabilities = append(h.Capabilities, "RESTART")
		case "does not count":
			h.Sequence = 1
		}
		body, err := protojson.Marshal(h)
		if err != nil {
			p.t.Error(err)
		}
		kind := mediaJSON
		_ = sender.SendMessage(ctx, &azservicebus.Message{Body: body, ContentType: &kind}, nil)
		pause(ctx, interval)
	}
}

// commands takes the session, and takes it again whenever it is lost.
func (p *puppet) commands(ctx context.Context, client *azservicebus.Client) {
	session := testName
	if p.does("takes another session") {
		session = strings.ToLower(testName)
	}
	for ctx.Err() == nil {
		receiver, err := client.AcceptSessionForSubscription(ctx, commandsTopic, commandsSubscription, session, nil)
		if err == nil {
			_ = p.take(ctx, client, receiver) // it ends when the session is lost, or the context ends
			closing, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = receiver.Close(closing)
			cancel()
			if p.does("takes its session once") {
				return
			}
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// take receives until the session is lost.
func (p *puppet) take(ctx context.Context, client *azservicebus.Client, from *azservicebus.SessionReceiver) error {
	askedAt := time.Now()
	for {
		receiving, cancel := context.WithTimeout(ctx, 10*time.Second)
		messages, err := from.ReceiveMessages(receiving, 1, nil)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		p.moves()
		for _, m := range messages {
			if err := p.handle(ctx, client, from, m, askedAt); err != nil {
				return err
			}
			askedAt = time.Now()
		}
		if err := from.RenewSessionLock(ctx, nil); err != nil {
			return err
		}
	}
}

func (p *puppet) handle(ctx context.Context, client *azservicebus.Client, from *azservicebus.SessionReceiver, m *azservicebus.ReceivedMessage, receivedAt time.Time) error {
	settling, cancel := context.WithTimeout(ctx, 20*time.Second) // longer than the check watches a settlement that is not answered
	defer cancel()
	promptly, again := 500*time.Millisecond, p.returned == *m.SequenceNumber
	switch {
	case p.does("counts from when a message came"), p.does("counts from when it goes on"):
		receivedAt = time.Now()
	case p.does("gives back what came late only"):
		promptly = busPatience
	}
	if p.returned = 0; time.Since(receivedAt) >= promptly && !again {
		p.returned = *m.SequenceNumber
		return from.AbandonMessage(settling, m, nil)
	}
	cmd, kind, err := p.read(m)
	if err != nil {
		if p.does("completes what it can't read") {
			return from.CompleteMessage(settling, m, nil)
		}
		return from.DeadLetterMessage(settling, m, nil)
	}
	answer := func() *agentv1.CommandResult { return p.answer(cmd, receivedAt, busPatience) }
	if p.does("runs before it settles") {
		result := answer()
		answer = func() *agentv1.CommandResult { return result }
		p.work.Go(func() { p.reply(client, m, kind, answer) })
		return from.CompleteMessage(settling, m, nil)
	}
	if !p.does("renews no lock before it settles") {
		renewing, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if err := from.RenewSessionLock(renewing, nil); err != nil {
			return err
		}
	}
	if err := from.CompleteMessage(settling, m, nil); err != nil {
		if p.does("runs what it could not settle") {
			p.work.Go(func() { p.answer(cmd, time.Now(), time.Hour) })
		}
		return err
	}
	p.work.Go(func() { p.reply(client, m, kind, answer) })
	return nil
}

// read decodes a command.
func (p *puppet) read(m *azservicebus.ReceivedMessage) (*agentv1.Command, string, error) {
	kind := ""
	if m.ContentType != nil {
		kind = *m.ContentType
	}
	if kind == "" && p.does("needs a content type") {
		return nil, kind, errors.New("no content type")
	}
	cmd := &agentv1.Command{}
	if p.does("is strict about fields") {
		return cmd, kind, protojson.Unmarshal(m.Body, cmd)
	}
	return cmd, kind, decode(kind, m.Body, cmd)
}

func (p *puppet) reply(client *azservicebus.Client, m *azservicebus.ReceivedMessage, kind string, answer func() *agentv1.CommandResult) {
	result := answer()
	body, err := protojson.Marshal(result)
	if kind == mediaProtobuf && !p.does("always answers in JSON") {
		body, err = proto.Marshal(result)
	} else {
		kind = mediaJSON
	}
	if err != nil {
		p.t.Error(err)
	}
	correlation := m.MessageID
	if p.does("does not correlate") {
		correlation = newID()
	}
	sender, err := client.NewSender(*m.ReplyTo, nil)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for range 20 {
		err = sender.SendMessage(ctx, &azservicebus.Message{Body: body, ContentType: &kind, CorrelationID: &correlation, SessionID: m.ReplyToSessionID}, nil)
		if err == nil || ctx.Err() != nil {
			break
		}
		pause(ctx, 200*time.Millisecond)
	}
	_ = sender.Close(ctx)
}

func puppetRefuses(cmd *agentv1.Command, reason agentv1.RefusalReason) *agentv1.CommandResult {
	return &agentv1.CommandResult{
		CommandId: cmd.GetCommandId(), Agent: testName, Outcome: agentv1.Outcome_OUTCOME_REFUSED, RefusalReason: reason, Message: "nothing was done",
	}
}

// check decides whether a command may run at all.
func (p *puppet) check(cmd *agentv1.Command) *agentv1.CommandResult {
	same := sameName(cmd.GetTargetAgent(), testName)
	if p.does("compares names byte by byte") {
		same = cmd.GetTargetAgent() == testName
	}
	issued := time.Since(cmd.GetIssuedAt().AsTime()).Abs()
	switch {
	case cmd.GetTargetAgent() != "" && !same && !p.does("runs what is for others"):
		return puppetRefuses(cmd, wrongAgent)
	case cmd.GetOperation() == nil && p.does("fails what it does not know"):
		return &agentv1.CommandResult{CommandId: cmd.GetCommandId(), Agent: testName, Outcome: agentv1.Outcome_OUTCOME_FAILED}
	case cmd.GetOperation() == nil:
		return puppetRefuses(cmd, invalid)
	case cmd.GetRestartService() != nil && protovalidate.Validate(cmd.GetRestartService()) != nil && !p.does("takes any argument"):
		return puppetRefuses(cmd, invalid)
	case p.does("takes any command"):
		return nil
	case protovalidate.Validate(cmd) != nil && !p.does("takes any argument"), cmd.GetBudget().AsDuration() < 0, cmd.GetBudget().AsDuration() > time.Hour:
		return puppetRefuses(cmd, invalid)
	case issued > time.Hour && p.does("compares issuedAt"):
		return &agentv1.CommandResult{CommandId: cmd.GetCommandId(), Agent: testName, Outcome: agentv1.Outcome_OUTCOME_EXPIRED}
	}
	return nil
}

// busPatience is how long after its arrival a command from the bus may be started.
const busPatience = 3 * time.Second

// answer takes a command from its check to its result. It is started within its budget, and within that time.
func (p *puppet) answer(cmd *agentv1.Command, receivedAt time.Time, within time.Duration) *agentv1.CommandResult {
	refusal := p.check(cmd)
	if refusal != nil && !p.does("records what it refused") {
		return refusal
	}
	print := string(mustMarshal(p.t, &agentv1.Command{Operation: cmd.GetOperation()}))
	p.mu.Lock()
	e, known := p.journal[cmd.GetCommandId()]
	if !known || p.does("runs repeats") {
		e = &entry{print: print, begun: time.Now(), done: make(chan struct{})}
		p.journal[cmd.GetCommandId()] = e
		known = false
	}
	p.mu.Unlock()
	if known {
		return p.repeated(cmd, e, print)
	}
	result := refusal
	if result == nil {
		result = p.run(cmd, receivedAt, min(within, cmd.GetBudget().AsDuration()))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if result.GetStartedAt() == nil && !p.does("records what it refused") {
		delete(p.journal, cmd.GetCommandId())
	}
	e.result = result
	close(e.done)
	return result
}

func (p *puppet) repeated(cmd *agentv1.Command, e *entry, print string) *agentv1.CommandResult {
	if e.print != print && !p.does("takes an id for another command") {
		return puppetRefuses(cmd, invalid)
	}
	if p.does("waits for no first") {
		select {
		case <-e.done:
		default:
			return puppetRefuses(cmd, alreadyBegun)
		}
	}
	<-e.done
	return e.result
}

// slowService is the one whose restart takes a while.
const (
	slowService = "Slow"
	slowTakes   = 8 * time.Second
)

// run does the work.
func (p *puppet) run(cmd *agentv1.Command, receivedAt time.Time, within time.Duration) *agentv1.CommandResult {
	write := cmd.GetRestartService() != nil
	if (write && !p.does("runs writes at once")) || p.does("has reads wait") {
		wait := 2*time.Second - time.Since(receivedAt)
		if p.does("lets writes wait for ever") || p.does("has reads wait") {
			wait, within = time.Hour, time.Hour
		}
		select {
		case p.writing <- struct{}{}:
			defer func() { <-p.writing }()
		case <-time.After(wait):
			return puppetRefuses(cmd, busy)
		}
	}
	if time.Since(receivedAt) >= within && !p.does("takes any command") {
		return &agentv1.CommandResult{CommandId: cmd.GetCommandId(), Agent: testName, Outcome: agentv1.Outcome_OUTCOME_EXPIRED}
	}
	r := &agentv1.CommandResult{CommandId: cmd.GetCommandId(), Agent: testName, Outcome: agentv1.Outcome_OUTCOME_SUCCEEDED, StartedAt: timestamppb.Now()}
	switch {
	case cmd.GetGetCommand() != nil && !p.does("tells no record"):
		r.Payload = &agentv1.CommandResult_CommandRecord{CommandRecord: p.record(cmd.GetGetCommand().GetCommandId())}
	case write && cmd.GetRestartService().GetService() == slowService:
		time.Sleep(slowTakes)
	case write:
		r.Outcome = agentv1.Outcome_OUTCOME_NOT_FOUND
	}
	r.FinishedAt = timestamppb.Now()
	r.Duration = durationpb.New(r.FinishedAt.AsTime().Sub(r.StartedAt.AsTime()))
	return r
}

func (p *puppet) record(id string) *agentv1.CommandRecord {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, known := p.journal[id]
	switch {
	case !known:
		return &agentv1.CommandRecord{CommandId: id, State: agentv1.CommandState_COMMAND_STATE_NEVER_RECEIVED}
	case e.result == nil:
		return &agentv1.CommandRecord{CommandId: id, State: agentv1.CommandState_COMMAND_STATE_BEGUN, BegunAt: timestamppb.New(e.begun), Running: true}
	}
	return &agentv1.CommandRecord{CommandId: id, State: agentv1.CommandState_COMMAND_STATE_FINISHED, BegunAt: timestamppb.New(e.begun), Result: e.result}
}

const puppetToken = "not-a-real-token"

// serve serves HTTP until the test ends, and gives the base URL.
func (p *puppet) serve() string {
	other := newPuppet(p.t, "", p.breaks) // with a journal of its own
	admitted := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer "+puppetToken || p.does("asks for no token") {
			return true
		}
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	answer := func(w http.ResponseWriter, status int, m proto.Message) {
		w.Header().Set("Content-Type", mediaJSON)
		w.WriteHeader(status)
		body, _ := protojson.Marshal(m)
		_, _ = w.Write(body)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /agent/v1/ping", func(w http.ResponseWriter, r *http.Request) {
		if !p.does("asks a ping for the token") || admitted(w, r) {
			answer(w, http.StatusOK, &agentv1.PingResponse{Name: testName})
		}
	})
	mux.HandleFunc("POST /agent/v1/commands", func(w http.ResponseWriter, r *http.Request) {
		if !admitted(w, r) {
			return
		}
		receivedAt := time.Now()
		body, _ := io.ReadAll(r.Body)
		p.moves()
		if p.does("counts from when the body was read") {
			receivedAt = time.Now()
		}
		cmd := &agentv1.Command{}
		switch err := decode(r.Header.Get("Content-Type"), body, cmd); {
		case err == nil:
		case p.does("takes any body"):
		case json.Valid(body) || r.Header.Get("Content-Type") == mediaJSON:
			w.WriteHeader(http.StatusBadRequest)
			return
		default:
			w.WriteHeader(http.StatusUnsupportedMediaType)
			return
		}
		from := p
		if p.does("has a journal for each transport") {
			from = other
		}
		result, status := from.answer(cmd, receivedAt, time.Hour), http.StatusOK
		if p.does("refuses by status") && result.GetOutcome() == agentv1.Outcome_OUTCOME_REFUSED {
			status = http.StatusForbidden
		}
		if p.does("answers HTTP without a result") {
			status = http.StatusAccepted
		}
		answer(w, status, result)
	})
	mux.HandleFunc("GET /agent/v1/commands/{id}", func(w http.ResponseWriter, r *http.Request) {
		if !admitted(w, r) {
			return
		}
		ask, record := &agentv1.GetCommand{CommandId: r.PathValue("id")}, p.record(r.PathValue("id"))
		switch {
		case protovalidate.Validate(ask) != nil:
			w.WriteHeader(http.StatusBadRequest)
		case record.GetState() == agentv1.CommandState_COMMAND_STATE_NEVER_RECEIVED && p.does("answers 404 to what it never had"):
			w.WriteHeader(http.StatusNotFound)
		default:
			answer(w, http.StatusOK, record)
		}
	})
	server := httptest.NewServer(mux)
	p.t.Cleanup(server.Close)
	return server.URL
}

func mustMarshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	body, err := (proto.MarshalOptions{Deterministic: true}).Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
