package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	emulator "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/servicebus"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/command"
)

// claimRenewer may outlive its link: when many at once use a link of the SDK that was lost, each opens it anew, and closing ends the
// renewals of claims of the last one only.
const claimRenewer = "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal.(*Namespace).startNegotiateClaimRenewer.func3"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(claimRenewer)) }

// patience bounds what must happen, so that a failure does not hang; nothing waits for it to pass.
const patience = 30 * time.Second

const agentName = "bm-0042"

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("this did not come to be: ", what)
		}
	}
}

func startBus(t testing.TB) *emulator.Emulator {
	t.Helper()
	sessions := emulator.SubscriptionProperties{RequiresSession: true}
	commands := emulator.SubscriptionProperties{RequiresSession: true, DeadLetteringOnMessageExpiration: true} // so that what expired is counted
	bus, err := emulator.Start(emulator.Config{UserConfig: emulator.UserConfig{Namespaces: []emulator.Namespace{{Topics: []emulator.Topic{
		{Name: "agent-commands", Subscriptions: []emulator.Subscription{{Name: "agents", Properties: commands}}},
		{Name: "agent-replies", Subscriptions: []emulator.Subscription{{Name: "gateways", Properties: sessions}}},
	}}}}}, emulator.Options{})
	check(t, err)
	t.Cleanup(func() { check(t, bus.Close()) })
	return bus
}

// log is where a gateway's log goes.
type log struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(line)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// gateway is a transport that runs.
type gateway struct {
	*Transport
	log  *log
	end  func() // again is nothing
	late chan string
}

func startGateway(t testing.TB, bus *emulator.Emulator) *gateway {
	t.Helper()
	cfg := servicebus.DefaultConfig()
	cfg.ConnectionString = config.Secret(bus.ConnectionString())
	var clients []*servicebus.Client
	for _, noRetries := range []bool{true, false} {
		client, err := servicebus.Dial(cfg, servicebus.DialOptions{NoRetries: noRetries})
		check(t, err)
		clients = append(clients, client)
	}
	g := &gateway{log: &log{}, late: make(chan string, 10)}
	var err error
	g.Transport, err = New(Options{
		Commands: clients[0], Replies: clients[1], Config: cfg, Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(g.log, nil)),
		AnsweredLate: func(agent string) { g.late <- agent },
	})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Hold(ctx) })
	running.Go(func() { _ = g.Prove(ctx) })
	g.end = func() {
		cancel()
		running.Wait()
		closing, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, client := range clients {
			_ = client.Close(closing)
		}
	}
	t.Cleanup(func() {
		g.end()
		if t.Failed() {
			t.Log(g.log)
		}
	})
	eventually(t, "the reply path is proven", func() bool { return g.Ready() == nil })
	return g
}

// agent takes the commands of one session, straight from the SDK.
type agent struct {
	t        testing.TB
	client   *azservicebus.Client
	replies  *azservicebus.Sender
	received chan *azservicebus.ReceivedMessage
}

func startAgent(t testing.TB, bus *emulator.Emulator, answer func(*agent, *azservicebus.ReceivedMessage)) *agent {
	t.Helper()
	client, err := azservicebus.NewClientFromConnectionString(bus.ConnectionString(), nil)
	check(t, err)
	replies, err := client.NewSender("agent-replies", nil)
	check(t, err)
	a := &agent{t: t, client: client, replies: replies, received: make(chan *azservicebus.ReceivedMessage, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	receiver, err := client.AcceptSessionForSubscription(within(t), "agent-commands", "agents", agentName,
		&azservicebus.SessionReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	check(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			messages, err := receiver.ReceiveMessages(ctx, 256, &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: 1})
			if err != nil {
				return
			}
			for _, message := range messages {
				a.received <- message
				if answer != nil {
					running.Go(func() { answer(a, message) })
				}
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		closing, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = receiver.Close(closing)
		_ = client.Close(closing)
	})
	return a
}

func (a *agent) next() *azservicebus.ReceivedMessage {
	a.t.Helper()
	select {
	case message := <-a.received:
		return message
	case <-time.After(patience):
		a.t.Fatal("the agent got no command")
		return nil
	}
}

// succeed answers a command with success.
func succeed(a *agent, to *azservicebus.ReceivedMessage) {
	body, _ := protojson.Marshal(&agentv1.CommandResult{CommandId: to.MessageID, Outcome: agentv1.Outcome_OUTCOME_SUCCEEDED, Agent: agentName})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = a.replies.SendMessage(ctx, &azservicebus.Message{Body: body, CorrelationID: &to.MessageID, SessionID: to.ReplyToSessionID}, nil)
}

func restart() *agentv1.Command {
	return &agentv1.Command{
		CommandId: uuid.NewString(), TargetAgent: agentName, Budget: durationpb.New(57 * time.Second),
		Operation: &agentv1.Command_RestartService{RestartService: &agentv1.RestartService{Service: "W3SVC"}},
	}
}

func yes(context.Context) (time.Time, error) { return time.Now().Add(patience), nil }

func (g *gateway) send(ctx context.Context, cmd *agentv1.Command) (*agentv1.CommandResult, error) {
	if err := g.Prepare(ctx); err != nil {
		return nil, err
	}
	return g.Send(ctx, command.Target{Name: "BM-0042", Reported: agentName}, cmd, yes)
}

func notSent(t testing.TB, err error) *command.NotSent {
	t.Helper()
	var found *command.NotSent
	if !errors.As(err, &found) {
		t.Fatalf("%v does not say that nothing was sent", err)
	}
	return found
}

func inDoubt(t testing.TB, err error) {
	t.Helper()
	var found *command.NotSent
	if err == nil || errors.As(err, &found) {
		t.Fatalf("%v does not leave in doubt whether the command was sent", err)
	}
}

func TestACommandAndItsReply(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	a := startAgent(t, bus, succeed)
	cmd := restart()
	result, err := g.send(within(t), cmd)
	check(t, err)
	if result.GetCommandId() != cmd.GetCommandId() || result.GetOutcome() != agentv1.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("%v", result)
	}
	message := a.next()
	if message.MessageID != cmd.GetCommandId() || *message.To != agentName || *message.SessionID != agentName ||
		*message.ReplyTo != "agent-replies" || *message.ReplyToSessionID != g.incarnation || *message.ContentType != "application/json" {
		t.Errorf("%+v", message)
	}
	got := &agentv1.Command{}
	check(t, protojson.Unmarshal(message.Body, got))
	if !proto.Equal(got, cmd) {
		t.Errorf("the agent got %v", got)
	}
}

func TestRepliesInBinary(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	startAgent(t, bus, func(a *agent, to *azservicebus.ReceivedMessage) {
		body, _ := proto.Marshal(&agentv1.CommandResult{CommandId: to.MessageID, Outcome: agentv1.Outcome_OUTCOME_FAILED, Message: "binary"})
		kind := "application/protobuf"
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = a.replies.SendMessage(ctx, &azservicebus.Message{Body: body, ContentType: &kind, CorrelationID: &to.MessageID, SessionID: to.ReplyToSessionID}, nil)
	})
	result, err := g.send(within(t), restart())
	check(t, err)
	if result.GetMessage() != "binary" {
		t.Errorf("%v", result)
	}
}

// expires sends a command that no agent gets before its budget is over.
func expires(t *testing.T, bus *emulator.Emulator, g *gateway) {
	t.Helper()
	cmd := restart()
	cmd.Budget = durationpb.New(50 * time.Millisecond)
	check(t, g.Prepare(within(t)))
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, err := g.Send(ctx, command.Target{Name: "BM-0042", Reported: agentName}, cmd, yes)
		answered <- err
	}()
	expired := func() int {
		counts, err := bus.Counts("agent-commands", "agents")
		check(t, err)
		return counts.DeadLetter
	}
	eventually(t, "the command is on the bus", func() bool { return waiting(t, bus)+expired() > 0 })
	cancel()
	inDoubt(t, <-answered)
	eventually(t, "its budget is over", func() bool { return expired() == 1 })
}

func TestI5_TheMessageExpiresBeforeItsBudgetEnds(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	expires(t, bus, g)
	// The budget is over. Whoever comes for the command now does not get it.
	client, err := azservicebus.NewClientFromConnectionString(bus.ConnectionString(), nil)
	check(t, err)
	defer client.Close(within(t)) //nolint:errcheck // the test is over
	receiver, err := client.AcceptSessionForSubscription(within(t), "agent-commands", "agents", agentName, nil)
	check(t, err)
	late := restart()
	sent := make(chan error, 1)
	lateCtx, stop := context.WithCancel(t.Context())
	go func() { _, err := g.send(lateCtx, late); sent <- err }()
	messages, err := receiver.ReceiveMessages(within(t), 1, nil)
	check(t, err)
	if len(messages) != 1 || messages[0].MessageID != late.GetCommandId() {
		t.Errorf("the agent got %v, though its budget was over", messages)
	}
	if ttl := messages[0].TimeToLive; ttl == nil || *ttl != 57*time.Second {
		t.Errorf("a command to be started within 57s lives for %v", ttl)
	}
	stop()
	<-sent
}

func TestI3_AnAgentThatNeverAnswersIsSentToOnce(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	a := startAgent(t, bus, nil)
	cmd := restart()
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() { _, err := g.send(ctx, cmd); answered <- err }()
	message := a.next()
	cancel()
	silence := <-answered
	inDoubt(t, silence)
	var silent *command.NoAnswer
	if !errors.As(silence, &silent) || !silent.RepliesCome || !errors.Is(silence, context.Canceled) {
		t.Errorf("%v", silence)
	}

	// Its late reply is counted and logged with its outcome and the command's id.
	succeed(a, message)
	eventually(t, "the late reply is counted", func() bool {
		return testutil.ToFloat64(g.Transport.late.WithLabelValues("OUTCOME_SUCCEEDED")) == 1
	})
	if agent := <-g.late; agent != agentName {
		t.Errorf("%q is said to have answered", agent)
	}
	eventually(t, "the late reply is logged", func() bool {
		return strings.Contains(g.log.String(), "late reply") && strings.Contains(g.log.String(), cmd.GetCommandId())
	})

	// A command behind it is the next and only one that the agent gets.
	behind := restart()
	sending, stop := context.WithCancel(t.Context())
	go func() { _, err := g.send(sending, behind); answered <- err }()
	if got := a.next().MessageID; got != behind.GetCommandId() {
		t.Fatalf("the agent got command %s again", got)
	}
	stop()
	<-answered
}

// waiting is how many commands no agent took yet.
func waiting(t testing.TB, bus *emulator.Emulator) int {
	t.Helper()
	counts, err := bus.Counts("agent-commands", "agents")
	check(t, err)
	return int(counts.Active)
}

func TestNothingIsSentWithoutAProvenReplyPath(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	g.mu.Lock()
	g.provenAt = time.Now().Add(-proofMaxAge)
	g.mu.Unlock()
	_, err := g.send(within(t), restart())
	if found := notSent(t, err); found.Reason != fault.BusUnavailable || waiting(t, bus) != 0 {
		t.Errorf("%+v; %d were sent", found, waiting(t, bus))
	}
	g.mu.Lock()
	g.provenAt = time.Now().Add(-proofMaxAge + time.Minute/2)
	g.mu.Unlock()
	check(t, g.Prepare(within(t)))
	// Lost between the preparation and the send: what must not wait is looked at once more.
	cmd := restart()
	_, err = g.Send(within(t), command.Target{Reported: agentName}, cmd, func(context.Context) (time.Time, error) { g.lost(); return time.Now(), nil })
	if found := notSent(t, err); found.Reason != fault.BusUnavailable || waiting(t, bus) != 0 {
		t.Errorf("%+v; %d were sent", found, waiting(t, bus))
	}
}

func TestI1_NothingIsSentWhenItMayNotGoAnyMore(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	check(t, g.Prepare(within(t)))
	_, err := g.Send(within(t), command.Target{Reported: agentName}, restart(), func(context.Context) (time.Time, error) { return time.Time{}, &command.NotSent{Expired: true} })
	if found := notSent(t, err); !found.Expired || waiting(t, bus) != 0 {
		t.Errorf("%+v; %d were sent", found, waiting(t, bus))
	}
	// A link that failed since is opened by another Prepare, after another decision, never by the send.
	g.commands.Renew()
	_, err = g.Send(within(t), command.Target{Reported: agentName}, restart(), yes)
	if found := notSent(t, err); !found.Expired || waiting(t, bus) != 0 {
		t.Errorf("%+v; %d were sent", found, waiting(t, bus))
	}
}

func TestABusThatIsGoneSendsNothing(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	check(t, bus.Close())
	eventually(t, "the loss is noticed", func() bool { return g.Ready() != nil })
	_, err := g.send(within(t), restart())
	if found := notSent(t, err); found.Reason != fault.BusUnavailable {
		t.Errorf("%+v", found)
	}
}

func TestForeignAndBrokenRepliesHarmNothing(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	first := atomic.Bool{}
	startAgent(t, bus, func(a *agent, to *azservicebus.ReceivedMessage) {
		if first.CompareAndSwap(false, true) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			other := uuid.NewString()
			for _, broken := range []*azservicebus.Message{
				{SessionID: to.ReplyToSessionID},
				{SessionID: to.ReplyToSessionID, CorrelationID: &other, Body: []byte("{")},
				{SessionID: to.ReplyToSessionID, CorrelationID: &other, Body: []byte(`{"commandId":"x"}`)},
			} {
				_ = a.replies.SendMessage(ctx, broken, nil)
			}
		}
		succeed(a, to)
	})
	_, err := g.send(within(t), restart())
	check(t, err)
}

func TestManyAtOnceAreMatchedEachToItsReply(t *testing.T) {
	const many = 256
	bus := startBus(t)
	g := startGateway(t, bus)
	// Nobody is answered before everybody was asked, and the last is answered first.
	var mu sync.Mutex
	var held []*azservicebus.ReceivedMessage
	startAgent(t, bus, func(a *agent, to *azservicebus.ReceivedMessage) {
		mu.Lock()
		held = append(held, to)
		ready := held
		mu.Unlock()
		if len(ready) == many {
			for i := range ready {
				succeed(a, ready[many-1-i])
			}
		}
	})
	ctx := within(t)
	check(t, g.Prepare(ctx))
	var group sync.WaitGroup
	for range many {
		group.Go(func() {
			cmd := restart()
			result, err := g.send(ctx, cmd)
			if err != nil || result.GetCommandId() != cmd.GetCommandId() {
				t.Error(result, err)
			}
		})
	}
	group.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) != 0 {
		t.Errorf("%d are still waited for", len(g.waiting))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("application/json", []byte(`{"commandId":"x","outcome":"OUTCOME_SUCCEEDED","services":{}}`))
	f.Add("application/protobuf", []byte{10, 1, 'x'})
	f.Add("", []byte("{"))
	f.Fuzz(func(_ *testing.T, kind string, body []byte) {
		result, err := decode(&servicebus.ReceivedMessage{ContentType: &kind, Body: body})
		_ = fmt.Sprint(result.GetOutcome(), err)
	})
}

func BenchmarkCommandAndReply(b *testing.B) {
	bus := startBus(b)
	g := startGateway(b, bus)
	startAgent(b, bus, succeed)
	ctx := context.Background()
	check(b, g.Prepare(ctx))
	for b.Loop() {
		if _, err := g.send(ctx, restart()); err != nil {
			b.Fatal(err)
		}
	}
}
