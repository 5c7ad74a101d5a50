// Package bus sends commands over Service Bus and matches the replies. A gateway holds one session of the replies
// subscription, named by its incarnation; nothing is sent unless a message to itself came back lately.
package bus

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/servicebus"
	"github.com/commandcenter/fleet/services/internal/spelling"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/command"
)

const (
	proofProperty = "commandcenter-proof"
	// proofInterval is how often the reply path is proven, and proofMaxAge how long a proof counts.
	proofInterval = 20 * time.Second
	proofMaxAge   = 60 * time.Second
	// proofWait is how long a command waits for the reply path to be proven: after a start, and when the session was lost.
	proofWait     = 2 * time.Second
	proofLifetime = 30 * time.Second
	// proofRetryInterval is how often the path is tried while it is not proven.
	proofRetryInterval = time.Second
	// replyLifetime is how long a reply that an agent sent again may still come.
	replyLifetime = 5 * time.Minute
	// silence is after what time without a message, proofs included, the session is taken anew: two proofs got lost by then.
	silence = 50 * time.Second
)

const (
	jsonType     = "application/json"
	protobufType = "application/protobuf"
)

var readJSON = protojson.UnmarshalOptions{DiscardUnknown: true}

// Options is what a transport is made of. All fields are required.
type Options struct {
	// Commands has its own client, with retries off; Replies is for everything that may be sent twice.
	Commands, Replies *servicebus.Client
	Config            servicebus.Config
	Metrics           prometheus.Registerer
	Logger            *slog.Logger
	// AnsweredLate is told of an agent whose reply to a command of this gateway came after its budget; it must not block.
	AnsweredLate func(agent string)
}

// Transport is the Service Bus transport of one gateway.
type Transport struct {
	options     Options
	incarnation string
	commands    *servicebus.OnceSender
	replies     *servicebus.Sender
	late        *prometheus.CounterVec

	// doubted holds a token when the path must be proven at once.
	doubted chan struct{}

	mu       sync.Mutex
	waiting  map[string][]chan reply // by command id; one command may be asked for twice
	sent     recent
	provenAt time.Time     // zero: never, or not since the session was lost
	proven   chan struct{} // closed by the next proof; nil while there is one
}

type reply struct {
	result *agentv1.CommandResult
	err    error
}

// New prepares a transport; Run makes it work.
func New(options Options) (*Transport, error) {
	replies, err := options.Replies.NewSender(options.Config.Topics.Replies)
	if err != nil {
		return nil, err
	}
	t := &Transport{
		options: options, incarnation: "gateway-" + uuid.NewString(),
		commands: options.Commands.NewOnceSender(options.Config.Topics.Commands), replies: replies,
		late: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_gateway_late_replies_total", Help: "Replies that came after their command was answered, by outcome.",
		}, []string{"outcome"}),
		waiting: map[string][]chan reply{}, proven: make(chan struct{}), doubted: make(chan struct{}, 1),
	}
	options.Metrics.MustRegister(t.late, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "commandcenter_gateway_reply_path_proof_age_seconds", Help: "Age of the last proof that replies reach this gateway.",
	}, func() float64 { return t.proofAge().Seconds() }))
	return t, nil
}

// Hold holds the replies session until the context ends.
func (t *Transport) Hold(ctx context.Context) error {
	session := &servicebus.Session{
		Client: t.options.Replies, Topic: t.options.Config.Topics.Replies, Subscription: t.options.Config.Subscriptions.Replies,
		ID: t.incarnation, Logger: t.options.Logger, Silence: silence, Deliver: t.deliver, Lost: t.lost,
	}
	return session.Run(ctx)
}

// Prove sends a message to ourselves now and then, until the context ends.
func (t *Transport) Prove(ctx context.Context) error {
	for {
		bounded, cancel := context.WithTimeout(ctx, proofInterval)
		id, lifetime := uuid.NewString(), proofLifetime
		err := t.replies.Send(bounded, &servicebus.Message{
			MessageID: &id, SessionID: &t.incarnation, TimeToLive: &lifetime, ApplicationProperties: map[string]any{proofProperty: id},
		})
		cancel()
		if err != nil && ctx.Err() == nil {
			t.options.Logger.Warn("the reply path could not be tested", "error", err)
		}
		pause := proofInterval
		if t.Ready() != nil {
			pause = proofRetryInterval
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-t.doubted:
			timer.Stop()
		}
	}
}

func (t *Transport) proofAge() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.provenAt.IsZero() {
		return 24 * time.Hour
	}
	return time.Since(t.provenAt)
}

// Ready tells why no command can be sent over the bus; nil when one can.
func (t *Transport) Ready() error {
	if age := t.proofAge(); age >= proofMaxAge {
		return fmt.Errorf("no message to ourselves came back within %s, so replies may not reach us", proofMaxAge)
	}
	return nil
}

// Prepare makes sure that replies reach us and that the link is open. Both come before anything is sent.
func (t *Transport) Prepare(ctx context.Context) error {
	t.awaitProof(ctx)
	if err := t.Ready(); err != nil {
		return &command.NotSent{Reason: fault.BusUnavailable, Detail: err.Error()}
	}
	if err := t.commands.Open(ctx); err != nil {
		return &command.NotSent{Reason: fault.BusUnavailable, Detail: "the link to the commands topic cannot be opened", Cause: err}
	}
	return nil
}

// awaitProof waits a little for the proof that is on its way after a start or a lost session.
func (t *Transport) awaitProof(ctx context.Context) {
	t.mu.Lock()
	proven := t.proven
	t.mu.Unlock()
	if proven == nil {
		return
	}
	timer := time.NewTimer(proofWait)
	defer timer.Stop()
	select {
	case <-proven:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Send sends one command, once, and waits for its reply. The context's deadline is the command's budget.
func (t *Transport) Send(ctx context.Context, target command.Target, cmd *agentv1.Command, still command.Still) (*agentv1.CommandResult, error) {
	body, err := protojson.Marshal(cmd)
	if err != nil {
		return nil, &command.NotSent{Reason: fault.Internal, Detail: "the command could not be written", Cause: err}
	}
	id, contentType, lifetime := cmd.GetCommandId(), jsonType, cmd.GetBudget().AsDuration()
	replies := t.options.Config.Topics.Replies
	message := &servicebus.Message{
		MessageID: &id, To: &target.Reported, SessionID: &target.Reported, ReplyTo: &replies, ReplyToSessionID: &t.incarnation,
		TimeToLive: &lifetime, ContentType: &contentType, Body: body,
	}
	answered, err := t.await(id, printOf(target, cmd))
	if err != nil {
		return nil, err
	}
	defer t.forget(id, answered)
	if _, err := still(ctx); err != nil { // sending follows at once
		return nil, err
	}
	if err := t.Ready(); err != nil { // lost since Prepare
		return nil, &command.NotSent{Reason: fault.BusUnavailable, Detail: err.Error()}
	}
	err = t.commands.Send(ctx, message)
	var notSent *servicebus.NotSentError
	switch {
	case errors.Is(err, servicebus.ErrNotOpen): // it failed since Prepare; nothing was sent on it
		return nil, &command.NotSent{Expired: true, Cause: err}
	case errors.As(err, &notSent):
		return nil, &command.NotSent{Reason: fault.BusUnavailable, Detail: "the command was not taken by the bus", Cause: err}
	case err != nil: // Anything else is ambiguous. It is treated as sent, and its reply may still come.
		t.options.Logger.Warn("a send ended in doubt; the command is treated as sent", "command_id", id, "error", err)
	}
	select {
	case got := <-answered:
		return got.result, got.err
	case <-ctx.Done():
	}
	// A reply that came this moment is an answer, not a late one.
	t.forget(id, answered)
	select {
	case got := <-answered:
		return got.result, got.err
	default:
		return nil, &command.NoAnswer{RepliesCome: t.Ready() == nil, Cause: context.Cause(ctx)}
	}
}

// print tells whether two commands of one id ask the same of the same agent.
type print [sha256.Size]byte

func printOf(target command.Target, cmd *agentv1.Command) print {
	asked, _ := proto.MarshalOptions{Deterministic: true}.Marshal(&agentv1.Command{TargetAgent: spelling.Fold(target.Reported), Operation: cmd.GetOperation()})
	return sha256.Sum256(asked)
}

// await waits for the reply to a command. Replies are told apart by their ids alone, so another command may not have the same one.
func (t *Transport) await(id string, asks print) (chan reply, error) {
	answered := make(chan reply, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if before, known := t.sent.get(id); known && before.asks != asks {
		return nil, &command.NotSent{Reason: fault.CommandRefused, Detail: "the id " + id + " was used for another command before"}
	}
	t.sent.note(id, sent{asks: asks}, time.Now())
	t.waiting[id] = append(t.waiting[id], answered)
	return answered, nil
}

func (t *Transport) forget(id string, answered chan reply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := slices.DeleteFunc(t.waiting[id], func(one chan reply) bool { return one == answered })
	if t.waiting[id] = left; len(left) == 0 {
		delete(t.waiting, id)
	}
}

// deliver matches one message of our session: a proof, an awaited reply, or a late one.
func (t *Transport) deliver(message *servicebus.ReceivedMessage) {
	if _, proof := message.ApplicationProperties[proofProperty]; proof {
		t.prove()
		return
	}
	if message.CorrelationID == nil {
		t.options.Logger.Warn("a reply without correlation id is dropped", "message_id", message.MessageID)
		return
	}
	id := *message.CorrelationID
	result, err := decode(message)
	if err == nil && result.GetCommandId() != id {
		err = fmt.Errorf("the reply to %s is about command %q", id, result.GetCommandId())
	}
	if t.answer(id, reply{result, err}) {
		return
	}
	t.late.WithLabelValues(outcome(result)).Inc()
	if err == nil {
		t.options.AnsweredLate(result.GetAgent())
	}
	t.options.Logger.Warn("a late reply came: the command's outcome is known now", "command_id", id, "agent", result.GetAgent(),
		"outcome", result.GetOutcome(), "message", result.GetMessage(), "error", err)
}

// outcome is a label, whatever number an agent sent.
func outcome(result *agentv1.CommandResult) string {
	if name, known := agentv1.Outcome_name[int32(result.GetOutcome())]; known {
		return name
	}
	return "unknown"
}

// answer gives a reply to all who wait for it, and tells whether anybody did, or whether it is told already: a reply may come twice.
func (t *Transport) answer(id string, with reply) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	awaited := t.waiting[id]
	for _, answered := range awaited {
		answered <- with // it has room for one, and gets one only
	}
	delete(t.waiting, id)
	before, _ := t.sent.get(id)
	t.sent.note(id, sent{asks: before.asks, answered: true}, time.Now())
	return before.answered || len(awaited) > 0
}

// sent is a command that was sent lately.
type sent struct {
	asks     print
	answered bool // its reply came
}

// recent remembers commands by id, for replyLifetime to twice that.
type recent struct {
	young, old map[string]sent
	turnedAt   time.Time
}

func (r *recent) note(id string, what sent, now time.Time) {
	if before, known := r.get(id); known && before.answered {
		what.answered = true
	}
	if r.young == nil || now.Sub(r.turnedAt) >= replyLifetime {
		r.young, r.old, r.turnedAt = map[string]sent{}, r.young, now
	}
	r.young[id] = what
}

func (r *recent) get(id string) (sent, bool) {
	if found, known := r.young[id]; known {
		return found, true
	}
	found, known := r.old[id]
	return found, known
}

func (t *Transport) prove() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.proven != nil {
		close(t.proven)
		t.proven = nil
	}
	t.provenAt = time.Now()
}

// lost lets nothing be sent until the path is proven again. What is in flight goes on waiting, as long as its budget lasts: its
// reply may be at the broker yet, and comes when the session is taken again. None of it is sent again.
func (t *Transport) lost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Until a message to ourselves comes back again, replies are not known to reach us.
	t.provenAt = time.Time{}
	if t.proven == nil {
		t.proven = make(chan struct{})
	}
	// What took the session is likely to have taken the link of the commands too.
	t.commands.Renew()
	select {
	case t.doubted <- struct{}{}:
	default:
	}
}

func decode(message *servicebus.ReceivedMessage) (*agentv1.CommandResult, error) {
	result := &agentv1.CommandResult{}
	if message.ContentType != nil && *message.ContentType == protobufType {
		return result, proto.Unmarshal(message.Body, result)
	}
	return result, readJSON.Unmarshal(message.Body, result)
}
