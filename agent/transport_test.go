package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/commandcenter/fleet/agent/host/simulated"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

// patience bounds what must happen, so that a failure does not hang; nothing waits for it to pass.
const patience = 2 * time.Minute

// entities are the product's own, with a subscription per agent for one of them.
func entities() emu.Config {
	session := emu.SubscriptionProperties{RequiresSession: true}
	return emu.Config{UserConfig: emu.UserConfig{Namespaces: []emu.Namespace{{Topics: []emu.Topic{
		{Name: "agent-state", Subscriptions: []emu.Subscription{{Name: "commandcenter"}}},
		{Name: "agent-commands", Subscriptions: []emu.Subscription{
			{Name: "agents", Properties: session},
			{Name: "own", Rules: []emu.Rule{{Name: "to", Properties: emu.RuleProperties{
				FilterType: "Correlation", CorrelationFilter: &emu.CorrelationFilter{To: "BM-OWN"},
			}}}},
		}},
		{Name: "agent-replies", Subscriptions: []emu.Subscription{{Name: "gateways", Properties: session}}},
	}}}}}
}

// gateway is the other end of both transports.
type gateway struct {
	t        *testing.T
	emulator *emu.Emulator
	client   *azservicebus.Client
	commands *azservicebus.Sender
	replies  *azservicebus.SessionReceiver
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	e, err := emu.Start(entities(), emu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	g := &gateway{t: t, emulator: e}
	if g.client, err = azservicebus.NewClientFromConnectionString(e.ConnectionString(), &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{RetryDelay: 10 * time.Millisecond},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.within(func(ctx context.Context) { _ = g.client.Close(ctx) }) })
	if g.commands, err = g.client.NewSender("agent-commands", nil); err != nil {
		t.Fatal(err)
	}
	g.within(func(ctx context.Context) {
		if g.replies, err = g.client.AcceptSessionForSubscription(ctx, "agent-replies", "gateways", "gw-1", nil); err != nil {
			t.Fatal(err)
		}
	})
	return g
}

func (g *gateway) within(do func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	do(ctx)
}

// run makes an agent and runs it until the test ends, and waits until it takes commands.
func (g *gateway) run(cfg Config) *Agent {
	g.t.Helper()
	bus, err := NewBus(BusConfig{ConnectionString: g.emulator.ConnectionString(), LockRenewalInterval: time.Second})
	if err != nil {
		g.t.Fatal(err)
	}
	cfg.Bus = bus
	if cfg.Name == "" {
		cfg.Name = "BM-1"
	}
	a, err := New(cfg)
	if err != nil {
		g.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	g.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			g.t.Error("run:", err)
		}
		g.within(func(ctx context.Context) { _ = bus.Close(ctx) })
	})
	select {
	case <-a.Ready():
	case <-time.After(patience):
		g.t.Fatal("the agent takes no commands")
	}
	return a
}

// send sends a command over the bus, addressed to the session of that name.
func (g *gateway) send(cmd *agentv1.Command, session string, e encoding) {
	g.t.Helper()
	body, err := e.marshal(cmd)
	if err != nil {
		g.t.Fatal(err)
	}
	g.sendBody(body, cmd.GetCommandId(), session, string(e))
}

func (g *gateway) sendBody(body []byte, id, session, contentType string) {
	g.t.Helper()
	replyTo, replySession, ttl := "agent-replies", "gw-1", time.Minute
	g.within(func(ctx context.Context) {
		if err := g.commands.SendMessage(ctx, &azservicebus.Message{
			Body: body, ContentType: &contentType, MessageID: &id, To: &session, SessionID: &session,
			ReplyTo: &replyTo, ReplyToSessionID: &replySession, TimeToLive: &ttl,
		}, nil); err != nil {
			g.t.Fatal(err)
		}
	})
}

// reply is the next one on the gateway's session.
func (g *gateway) reply() *agentv1.CommandResult {
	g.t.Helper()
	result := &agentv1.CommandResult{}
	g.within(func(ctx context.Context) {
		for {
			messages, err := g.replies.ReceiveMessages(ctx, 1, nil)
			if err != nil {
				g.t.Fatal("no reply:", err)
			}
			for _, m := range messages {
				e, known := encodingOf(text(m.ContentType))
				if err := e.unmarshal(m.Body, result); err != nil || !known {
					g.t.Fatalf("reply of type %q: %v", text(m.ContentType), err)
				}
				if text(m.CorrelationID) != result.GetCommandId() || text(m.SessionID) != "gw-1" || *m.TimeToLive != replyTTL {
					g.t.Errorf("reply to %s is correlated with %s, session %s", result.GetCommandId(), text(m.CorrelationID), text(m.SessionID))
				}
				if err := g.replies.CompleteMessage(ctx, m, nil); err != nil {
					g.t.Fatal(err)
				}
				return
			}
		}
	})
	return result
}

// heartbeat is the next one of the topic, and the message it came in.
func (g *gateway) heartbeat() (*agentv1.Heartbeat, *azservicebus.ReceivedMessage) {
	g.t.Helper()
	h := &agentv1.Heartbeat{}
	var got *azservicebus.ReceivedMessage
	g.within(func(ctx context.Context) {
		r, err := g.client.NewReceiverForSubscription("agent-state", "commandcenter", nil)
		if err != nil {
			g.t.Fatal(err)
		}
		defer r.Close(ctx)
		for got == nil {
			messages, err := r.ReceiveMessages(ctx, 1, nil)
			if err != nil {
				g.t.Fatal("no heartbeat:", err)
			}
			for _, m := range messages {
				got = m
				if err := protojson.Unmarshal(m.Body, h); err != nil {
					g.t.Fatal(err)
				}
				if err := r.CompleteMessage(ctx, m, nil); err != nil {
					g.t.Fatal(err)
				}
			}
		}
	})
	return h, got
}

// counted waits until a subscription's counts are so.
func (g *gateway) counted(topic, subscription string, want emu.Counts) {
	g.t.Helper()
	var got emu.Counts
	eventually(g.t, func() bool {
		got, _ = g.emulator.Counts(topic, subscription)
		return got == want
	})
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never came to hold")
		}
	}
}

// post sends a command over HTTP.
func post(t *testing.T, a *Agent, e encoding, cmd *agentv1.Command, change ...func(*http.Request)) (*agentv1.CommandResult, int) {
	t.Helper()
	body, err := e.marshal(cmd)
	if err != nil {
		t.Fatal(err)
	}
	status, answer := postBody(t, a, body, append(change, func(r *http.Request) { r.Header.Set("Content-Type", string(e)) })...)
	result := &agentv1.CommandResult{}
	if status == http.StatusOK {
		if err := e.unmarshal(answer, result); err != nil {
			t.Fatal(err)
		}
	}
	return result, status
}

func postBody(t *testing.T, a *Agent, body []byte, change ...func(*http.Request)) (int, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.HTTPBaseURL()+"/agent/v1/commands", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(r)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}

var onHTTP = &HTTPConfig{Listen: "127.0.0.1:0"}

func quick() *machine {
	return newMachine(simulated.Options{StartDuration: -1, StopDuration: -1, WorkDuration: -1})
}

func TestCommandsOverTheBus(t *testing.T) {
	g := newGateway(t)
	m := quick()
	g.run(Config{Host: m})
	for _, e := range []encoding{jsonEncoding, protobufEncoding} {
		cmd := command()
		g.send(cmd, "BM-1", e)
		got := g.reply()
		expect(t, got, succeeded, noReason)
		if got.GetCommandId() != cmd.GetCommandId() || len(got.GetServices().GetServices()) != 8 || got.GetAgent() != "BM-1" {
			t.Errorf("answered %v", got)
		}
		g.send(command(startService(stoppedService)), "BM-1", e)
		expect(t, g.reply(), succeeded, noReason)
	}
	if m.starts.Load() != 2 {
		t.Error("the writes were not run")
	}
	g.counted("agent-commands", "agents", emu.Counts{})
}

func TestI5_AMessageForAnotherAgentInThisSessionIsRefused(t *testing.T) {
	g := newGateway(t)
	m := quick()
	g.run(Config{Host: m})
	g.send(command(target("BM-2"), startService(stoppedService)), "BM-1", jsonEncoding)
	expect(t, g.reply(), refused, wrongAgent)
	if m.starts.Load() != 0 {
		t.Error("a command was run by an agent that it does not name")
	}
}

func TestI17_WhatCanNotBeReadIsDeadLetteredAndAnswered(t *testing.T) {
	g := newGateway(t)
	g.run(Config{Host: quick()})
	const id = "7a5c1e34-57cf-4a1c-8a5e-6d0b4f0d1f76"
	for _, body := range []string{
		"not JSON", "",
		`{"commandId": "` + id + `", "budget": "9s", "launchRockets": {}}`, // a command, but not one that can be run
	} {
		g.sendBody([]byte(body), id, "BM-1", "text/plain")
		got := g.reply()
		expect(t, got, refused, invalid)
		if got.GetCommandId() != id {
			t.Errorf("%q is answered with %v", body, got)
		}
	}
	g.counted("agent-commands", "agents", emu.Counts{DeadLetter: 2})
}

func TestI3_TheSameCommandOverBothTransportsAtOnceRunsOnce(t *testing.T) {
	g := newGateway(t)
	m := newMachine(simulated.Options{StartDuration: 20 * time.Millisecond})
	a := g.run(Config{Host: m, HTTP: onHTTP})
	cmd := command(startService(stoppedService))
	const each = 4
	var all sync.WaitGroup
	var mu sync.Mutex
	var results []*agentv1.CommandResult
	for range each {
		all.Go(func() { g.send(cmd, "BM-1", jsonEncoding) })
		all.Go(func() {
			result, _ := post(t, a, jsonEncoding, cmd)
			mu.Lock()
			defer mu.Unlock()
			results = append(results, result)
		})
	}
	all.Wait()
	for range each {
		results = append(results, g.reply())
	}
	for _, r := range results {
		expect(t, r, succeeded, noReason)
		if r.GetStartedAt().AsTime() != results[0].GetStartedAt().AsTime() {
			t.Error("the answers are of different runs")
		}
	}
	if m.starts.Load() != 1 {
		t.Errorf("it ran %d times", m.starts.Load())
	}
}

func TestWritesOfBothTransportsRunOneAtATimeAndReadsBesideThem(t *testing.T) {
	g := newGateway(t)
	m := newMachine(simulated.Options{StartDuration: time.Millisecond})
	a := g.run(Config{Host: m, HTTP: onHTTP})
	m.Hang(stoppedService)
	write := command(startService(stoppedService))
	g.send(write, "BM-1", jsonEncoding)
	eventually(t, func() bool { return m.starts.Load() == 1 })

	g.send(command(), "BM-1", jsonEncoding) // a read overtakes it, in the same session
	expect(t, g.reply(), succeeded, noReason)
	result, _ := post(t, a, jsonEncoding, command())
	expect(t, result, succeeded, noReason)
	result, _ = post(t, a, jsonEncoding, command(startService("Spooler"), budget(50*time.Millisecond)))
	expect(t, result, refused, busy)
	result, _ = post(t, a, jsonEncoding, command(startService("Spooler")))
	expect(t, result, refused, busy)
	g.send(command(startService("Spooler")), "BM-1", jsonEncoding)
	expect(t, g.reply(), refused, busy)
	if m.starts.Load() != 1 {
		t.Error("a second write was started beside the first")
	}
	m.Release(stoppedService)
	if got := g.reply(); got.GetCommandId() != write.GetCommandId() || got.GetOutcome() != succeeded {
		t.Errorf("the first write ended as %v", got)
	}
}

func TestASubscriptionPerAgentInsteadOfASession(t *testing.T) {
	g := newGateway(t)
	m := newMachine(simulated.Options{})
	g.run(Config{Name: "BM-OWN", CommandSubscription: "own", Host: m})
	m.Hang(stoppedService)
	g.send(command(target("bm-own"), startService(stoppedService)), "BM-OWN", jsonEncoding)
	g.send(command(target("bm-own")), "BM-OWN", jsonEncoding)
	if got := g.reply(); got.GetServices() == nil {
		t.Errorf("a read waited behind a write: %v", got)
	}
	m.Release(stoppedService)
	expect(t, g.reply(), succeeded, noReason)
	g.counted("agent-commands", "own", emu.Counts{})
}

func TestI3_ACommandIsSettledBeforeItRuns(t *testing.T) {
	g := newGateway(t)
	m := newMachine(simulated.Options{})
	g.run(Config{Host: m})
	m.Hang(stoppedService)
	g.send(command(startService(stoppedService)), "BM-1", jsonEncoding)
	eventually(t, func() bool { return m.starts.Load() == 1 })
	// A crash now would find nothing left to deliver again.
	if counts, err := g.emulator.Counts("agent-commands", "agents"); err != nil || counts != (emu.Counts{}) {
		t.Errorf("while it runs, the subscription holds %+v, %v", counts, err)
	}
	m.Release(stoppedService)
	expect(t, g.reply(), succeeded, noReason)
}

func TestHeartbeatsOverTheBus(t *testing.T) {
	g := newGateway(t)
	a := g.run(Config{Host: quick(), HTTP: onHTTP, Heartbeat: HeartbeatConfig{Interval: 100 * time.Millisecond}})
	first, message := g.heartbeat()
	if text(message.ContentType) != "application/json" || message.ApplicationProperties["agent"] != "BM-1" {
		t.Errorf("type %q, properties %v", text(message.ContentType), message.ApplicationProperties)
	}
	second, _ := g.heartbeat()
	if first.GetSequence() != 1 || second.GetSequence() != 2 || first.GetBootId() != a.BootID() {
		t.Errorf("%v, then %v", first, second)
	}
	if len(first.GetIisBindings().GetBindings()) != 10 || second.GetIisBindings() != nil || first.GetHttpBaseUrl() != a.HTTPBaseURL() {
		t.Errorf("%v, then %v", first, second)
	}
}

func TestSilenceAndMutedAnswers(t *testing.T) {
	g := newGateway(t)
	faults := &Faults{}
	faults.Silence()
	m := quick()
	a := g.run(Config{Host: m, HTTP: onHTTP, Faults: faults, Heartbeat: HeartbeatConfig{Interval: 100 * time.Millisecond}})
	faults.Mute()
	cmd := command(startService(stoppedService))
	g.send(cmd, "BM-1", jsonEncoding)
	ctx, giveUp := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, a.HTTPBaseURL()+"/agent/v1/commands", strings.NewReader(protojson.Format(command())))
		if response, err := http.DefaultTransport.RoundTrip(r); err == nil {
			t.Error("a muted agent answered over HTTP")
			_ = response.Body.Close()
		}
	}()
	eventually(t, func() bool { return m.starts.Load() == 1 && m.reads.Load() == 1 }) // both taken and run
	giveUp()
	<-over
	if a.Stats().HeartbeatsSent != 0 {
		t.Error("a silent agent sent heartbeats")
	}
	g.counted("agent-replies", "gateways", emu.Counts{})
	faults.Answer()
	if got := g.reply(); got.GetCommandId() != cmd.GetCommandId() || got.GetOutcome() != succeeded {
		t.Errorf("the late answer is %v", got)
	}
	faults.Wake()
	if h, _ := g.heartbeat(); h.GetSequence() != 1 {
		t.Errorf("the first heartbeat after waking is %v", h)
	}
}

func TestTheBusIsTakenUpAgainAfterFaults(t *testing.T) {
	g := newGateway(t)
	a := g.run(Config{Host: quick(), Heartbeat: HeartbeatConfig{Interval: 100 * time.Millisecond}})
	ask := func(when string) {
		t.Helper()
		g.send(command(), "BM-1", jsonEncoding)
		expect(t, g.reply(), succeeded, noReason)
		sent := a.Stats().HeartbeatsSent
		eventually(t, func() bool { return a.Stats().HeartbeatsSent > sent+1 })
		t.Log(when, "works")
	}
	ask("the start")
	g.emulator.DropConnections()
	ask("after dropped connections")
	if err := g.emulator.ExpireLocks("agent-commands", "agents"); err != nil {
		t.Fatal(err)
	}
	ask("after a lost session lock")
}

func TestASessionOutlivesItsLockDuration(t *testing.T) {
	g := newGateway(t)
	a := g.run(Config{Host: quick()})
	// A second agent of the name does not get the session as long as the first renews it.
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if r, err := g.client.AcceptSessionForSubscription(ctx, "agent-commands", "agents", "BM-1", nil); err == nil {
		_ = r.Close(ctx)
		t.Error("the session was free")
	}
	g.send(command(), "BM-1", jsonEncoding)
	expect(t, g.reply(), succeeded, noReason)
	if a.Stats().BusCommands != 1 {
		t.Error("the command was not counted")
	}
}

func TestAgentsShareConnections(t *testing.T) {
	bus, err := NewBus(BusConfig{ConnectionString: "Endpoint=sb://localhost;SharedAccessKeyName=n;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true", AgentsPerConnection: 2})
	if err != nil {
		t.Fatal(err)
	}
	var taken []*connection
	for range 5 {
		c, err := bus.join()
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, c)
	}
	if len(bus.connections) != 3 {
		t.Errorf("five agents, two per connection, take %d", len(bus.connections))
	}
	bus.leave(taken[0])
	if again, err := bus.join(); err != nil || again != taken[0] {
		t.Error("a free place is not taken again")
	}
	for i := range maxReplyTopics + 2 {
		_, err = bus.sender(strings.Repeat("t", i+1))
	}
	if err == nil {
		t.Error("commands can have any number of links opened")
	}
}

func TestCommandsOverHTTP(t *testing.T) {
	m := quick()
	a := onlyHTTP(t, m, "")
	for _, e := range []encoding{jsonEncoding, protobufEncoding} {
		result, status := post(t, a, e, command())
		if status != http.StatusOK || len(result.GetServices().GetServices()) != 8 {
			t.Errorf("%d %v", status, result)
		}
	}
	result, _ := post(t, a, jsonEncoding, command(target("BM-2"), startService(stoppedService)))
	expect(t, result, refused, wrongAgent)
	for want, change := range map[int]struct {
		body        string
		contentType string
	}{
		http.StatusBadRequest:            {"{", "application/json"},
		http.StatusUnsupportedMediaType:  {"x", "text/xml"},
		http.StatusRequestEntityTooLarge: {strings.Repeat(" ", maxHTTPBody+1), ""},
	} {
		status, answer := postBody(t, a, []byte(change.body), func(r *http.Request) { r.Header.Set("Content-Type", change.contentType) })
		if status != want || !strings.Contains(string(answer), "nothing was done") {
			t.Errorf("%.20s: %d %s, want %d", change.body, status, answer, want)
		}
	}
	for path, want := range map[string]int{"/agent/v1/commands": http.StatusMethodNotAllowed, "/else": http.StatusNotFound, "/agent/v1/ping": http.StatusOK} {
		if status, _ := get(t, a, path); status != want {
			t.Errorf("GET %s: %d, want %d", path, status, want)
		}
	}
	if m.starts.Load() != 0 {
		t.Error("something was done")
	}
}

// A request may wait where nobody sees it, because the process or the machine stood still. When it is seen at last, the
// caller has closed the connection.
func TestI5_ARequestThatWaitedUnseenIsNotStarted(t *testing.T) {
	m := quick()
	a, err := New(Config{Name: "BM-1", Host: m, HTTP: &HTTPConfig{Listen: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	body, err := jsonEncoding.marshal(command(startService(stoppedService)))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", a.listener.Addr().String()) // the kernel takes it, before anybody serves
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /agent/v1/commands HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	_ = conn.Close()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	eventually(t, func() bool { return a.Stats().Expired == 1 })
	if got := m.starts.Load(); got != 0 {
		t.Errorf("%d were started", got)
	}
}

func TestAWriteThatSucceededIsNoFailureForItsLongAnswer(t *testing.T) {
	long := make([]*agentv1.Change, 20_000)
	for i := range long {
		long[i] = &agentv1.Change{Subject: "package", After: "installed"}
	}
	for _, row := range []struct {
		result, want *agentv1.CommandResult
	}{
		{
			&agentv1.CommandResult{Outcome: succeeded, Payload: &agentv1.CommandResult_Changes{Changes: &agentv1.Changes{Changes: long}}},
			&agentv1.CommandResult{Outcome: succeeded, Message: "what was changed is left out"},
		},
		{
			&agentv1.CommandResult{Outcome: failed, Message: "the last one", Payload: &agentv1.CommandResult_Changes{Changes: &agentv1.Changes{Changes: long}}},
			&agentv1.CommandResult{Outcome: failed, Message: "the last one; "},
		},
		{
			&agentv1.CommandResult{Outcome: succeeded, Payload: &agentv1.CommandResult_Services{Services: &agentv1.Services{}}},
			&agentv1.CommandResult{Outcome: failed, Message: "longer than"},
		},
	} {
		got := withoutPayload(row.result, 1<<20)
		if got.GetOutcome() != row.want.GetOutcome() || !strings.Contains(got.GetMessage(), row.want.GetMessage()) || got.GetPayload() != nil {
			t.Errorf("%v", got)
		}
	}
}

func TestI17_HTTPWithoutTheTokenDoesNothing(t *testing.T) {
	m := quick()
	a := onlyHTTP(t, m, "obviously-fake")
	for header, want := range map[string]int{
		"": http.StatusUnauthorized, "Bearer": http.StatusUnauthorized, "Bearer obviously-fake-too": http.StatusUnauthorized,
		"Basic obviously-fake": http.StatusUnauthorized, "Bearer obviously-fake": http.StatusOK, "bearer obviously-fake": http.StatusOK,
	} {
		before := m.reads.Load()
		_, status := post(t, a, jsonEncoding, command(), func(r *http.Request) { r.Header.Set("Authorization", header) })
		if status != want || (m.reads.Load() > before) != (want == http.StatusOK) {
			t.Errorf("%q: %d, want %d", header, status, want)
		}
	}
	status, body := get(t, a, "/agent/v1/ping") // carries none
	ping := &agentv1.PingResponse{}
	if err := protojson.Unmarshal(body, ping); err != nil || status != http.StatusOK || ping.GetName() != "BM-1" || ping.GetBootId() != a.BootID() {
		t.Errorf("%d %v %v", status, ping, err)
	}
}

func TestAStoppingAgentFinishesWhatRunsOverHTTP(t *testing.T) {
	m := newMachine(simulated.Options{})
	a, err := New(Config{Name: "BM-1", Host: m, HTTP: onHTTP})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	m.Hang(stoppedService)
	answer := make(chan *agentv1.CommandResult, 1)
	go func() {
		result, _ := post(t, a, jsonEncoding, command(startService(stoppedService)))
		answer <- result
	}()
	eventually(t, func() bool { return m.starts.Load() == 1 })
	stop()
	eventually(t, func() bool {
		result, _ := post(t, a, jsonEncoding, command())
		return result.GetRefusalReason() == draining
	})
	m.Release(stoppedService)
	expect(t, <-answer, succeeded, noReason)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func onlyHTTP(t *testing.T, m *machine, token string) *Agent {
	t.Helper()
	a, err := New(Config{Name: "BM-1", Host: m, HTTP: &HTTPConfig{Listen: "127.0.0.1:0", Token: token}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return a
}

func get(t *testing.T, a *Agent, path string) (int, []byte) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.HTTPBaseURL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body
}

func TestBaseURLsProposed(t *testing.T) {
	got := []string{
		(&HTTPConfig{}).baseURL("127.0.0.1:7500", "bm1"),
		(&HTTPConfig{}).baseURL("[::]:7500", "bm1"),
		(&HTTPConfig{}).baseURL("[::1]:7500", "bm1"),
		(&HTTPConfig{AdvertisedURL: "https://bm1.example:7501"}).baseURL("[::]:7500", "bm1"),
	}
	want := []string{"http://127.0.0.1:7500", "http://bm1:7500", "http://[::1]:7500", "https://bm1.example:7501"}
	if !slices.Equal(got, want) {
		t.Error(got)
	}
}

// deaf is a machine that heeds no context.
type deaf struct {
	*machine
	started, free chan struct{}
}

// StartService implements host.Services.
func (d deaf) StartService(context.Context, string) ([]*agentv1.Change, error) {
	close(d.started)
	<-d.free
	return nil, nil
}

func TestAnAgentEndsThoughItsHostHeedsNoContext(t *testing.T) {
	g := newGateway(t)
	bus, err := NewBus(BusConfig{ConnectionString: g.emulator.ConnectionString(), LockRenewalInterval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	path, host := newPath(t), deaf{quick(), make(chan struct{}), make(chan struct{})}
	a, err := New(Config{Name: "BM-1", Host: host, Bus: bus, JournalPath: path, Commands: CommandConfig{DrainGrace: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	<-a.Ready()
	g.send(command(startService(stoppedService)), "BM-1", jsonEncoding)
	<-host.started
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("it does not end")
	}
	openOn(t, path, &journalDisk{room: -1}) // it is nobody's
	close(host.free)
	expect(t, g.reply(), succeeded, noReason)
	g.within(func(ctx context.Context) { _ = bus.Close(ctx) })
}
