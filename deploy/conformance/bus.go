package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"sync"
	"time"

	"buf.build/go/protovalidate"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	servicebusemulator "github.com/commandcenter/fleet/servicebus-emulator"
)

// Entities that agents use.
const (
	stateTopic, stateSubscription       = "agent-state", "commandcenter"
	commandsTopic, commandsSubscription = "agent-commands", "agents"
	repliesTopic, repliesSubscription   = "agent-replies", "gateways"
)

const (
	mediaJSON     = "application/json"
	mediaProtobuf = "application/protobuf"
)

// bus is the control plane's end of the bus.
type bus struct {
	client   *azservicebus.Client
	commands *azservicebus.Sender
	stop     context.CancelFunc
	ended    chan struct{}

	mu    sync.Mutex
	heard []*heard
	news  chan struct{} // closed when a heartbeat comes; each one replaces it
}

// heard is one heartbeat.
type heard struct {
	*agentv1.Heartbeat
	at          time.Time // the broker's
	contentType string
	problem     error // why it can't be read, or which rule of the messages it breaks
}

func openBus(ctx context.Context, o Options) (*bus, error) {
	client, err := azservicebus.NewClientFromConnectionString(o.ConnectionString, &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: 5, RetryDelay: 50 * time.Millisecond, MaxRetryDelay: time.Second},
	})
	if err != nil {
		return nil, fmt.Errorf("conformance: %w", err)
	}
	b := &bus{client: client, ended: make(chan struct{}), news: make(chan struct{})}
	if b.commands, err = client.NewSender(commandsTopic, nil); err != nil {
		return nil, fmt.Errorf("conformance: %w", err)
	}
	hearing, err := client.NewReceiverForSubscription(stateTopic, stateSubscription,
		&azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	if err != nil {
		return nil, fmt.Errorf("conformance: %w", err)
	}
	listening, stop := context.WithCancel(ctx)
	b.stop = stop
	go b.hear(listening, hearing)
	return b, nil
}

func (b *bus) close() {
	b.stop()
	<-b.ended
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = b.client.Close(ctx)
}

// hear collects heartbeats until the context ends.
func (b *bus) hear(ctx context.Context, from *azservicebus.Receiver) {
	defer close(b.ended)
	for ctx.Err() == nil {
		messages, err := from.ReceiveMessages(ctx, 10, nil)
		if err != nil && ctx.Err() == nil { // a connection was lost; the SDK makes another
			pause(ctx, 100*time.Millisecond)
		}
		for _, m := range messages {
			b.note(m)
		}
	}
}

func (b *bus) note(m *azservicebus.ReceivedMessage) {
	h := &heard{Heartbeat: &agentv1.Heartbeat{}, at: time.Now()}
	if m.ContentType != nil {
		h.contentType = *m.ContentType
	}
	if m.EnqueuedTime != nil {
		h.at = *m.EnqueuedTime
	}
	if h.problem = decode(h.contentType, m.Body, h.Heartbeat); h.problem == nil {
		h.problem = protovalidate.Validate(h.Heartbeat)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = append(b.heard, h)
	close(b.news)
	b.news = make(chan struct{})
}

// heartbeats are those heard so far, and a channel that is closed when another comes.
func (b *bus) heartbeats() ([]*heard, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*heard(nil), b.heard...), b.news
}

// awaitHeartbeat waits for one that is wanted.
func (b *bus) awaitHeartbeat(ctx context.Context, patience time.Duration, wanted func(*heard) bool) (*heard, bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		all, more := b.heartbeats()
		for _, h := range all {
			if wanted(h) {
				return h, true
			}
		}
		select {
		case <-more:
		case <-timer.C:
			return nil, false
		case <-ctx.Done():
			return nil, false
		}
	}
}

// firstHeartbeat waits for one of the agent, readable or not.
func (b *bus) firstHeartbeat(ctx context.Context, name string, patience time.Duration) (*heard, error) {
	first, ok := b.awaitHeartbeat(ctx, patience, func(h *heard) bool { return h.problem != nil || sameName(h.GetName(), name) })
	if ok {
		return first, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	others, _ := b.heartbeats()
	if len(others) > 0 {
		return nil, fmt.Errorf("conformance: no heartbeat of %q came within %s, but one of %q did: -name must be the agent's", name, patience, others[0].GetName())
	}
	return nil, fmt.Errorf("conformance: no heartbeat of %q came within %s to the topic %s", name, patience, stateTopic)
}

// decode reads a body as its content type says; without one as JSON. Fields that this version does not know are ignored.
func decode(contentType string, body []byte, into proto.Message) error {
	media := mediaJSON
	if contentType != "" {
		var err error
		if media, _, err = mime.ParseMediaType(contentType); err != nil {
			return fmt.Errorf("content type %q: %w", contentType, err)
		}
	}
	switch media {
	case mediaJSON:
		return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, into)
	case mediaProtobuf:
		return proto.Unmarshal(body, into)
	}
	return fmt.Errorf("content type %q is neither %s nor %s", contentType, mediaJSON, mediaProtobuf)
}

// sent is a command that was sent, and the session that its answer is to come to.
type sent struct {
	id      string
	replies *azservicebus.SessionReceiver
}

// answer is a reply, and when it came in the order of all.
type answer struct {
	*agentv1.CommandResult
	contentType   string
	correlationID string
	problem       error // why it can't be read
}

// message is a command as it goes to the bus.
type message struct {
	id, session, contentType string
	body                     []byte
	ttl                      time.Duration // 0: commandTTL
}

// send opens a session for the answer and sends the command. Each has a session of its own, so that every answer is known to be of it.
func (b *bus) send(ctx context.Context, m message) (*sent, error) {
	replySession := "conformance-" + newID()
	var replies *azservicebus.SessionReceiver
	err := retried(ctx, func() (err error) {
		replies, err = b.client.AcceptSessionForSubscription(ctx, repliesTopic, repliesSubscription, replySession,
			&azservicebus.SessionReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening a session for the answer: %w", err)
	}
	topic, ttl := repliesTopic, cmp.Or(m.ttl, commandTTL)
	out := &azservicebus.Message{
		Body: m.body, MessageID: &m.id, To: &m.session, SessionID: &m.session, ReplyTo: &topic, ReplyToSessionID: &replySession, TimeToLive: &ttl,
	}
	if m.contentType != "" {
		out.ContentType = &m.contentType
	}
	// Whatever a lost connection made of the message before: the same id again is one command.
	if err := retried(ctx, func() error { return b.commands.SendMessage(ctx, out, nil) }); err != nil {
		_ = replies.Close(ctx)
		return nil, fmt.Errorf("sending a command: %w", err)
	}
	return &sent{m.id, replies}, nil
}

// retried tries again after a connection was lost, which the check itself brings about.
func retried(ctx context.Context, do func() error) error {
	const tries = 20
	for try := 1; ; try++ {
		err := do()
		var lost *azservicebus.Error
		if err == nil || try == tries || !errors.As(err, &lost) || lost.Code != azservicebus.CodeConnectionLost {
			return err
		}
		pause(ctx, 250*time.Millisecond)
	}
}

// commandTTL is how long a command may wait on the bus.
const commandTTL = 2 * time.Minute

var errNoAnswer = errors.New("no answer came")

// await waits for the answer.
func (s *sent) await(ctx context.Context, patience time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		messages, err := s.replies.ReceiveMessages(ctx, 1, nil)
		if len(messages) > 0 {
			return answerOf(messages[0]), nil
		}
		if ctx.Err() != nil {
			return answer{}, errNoAnswer
		}
		if err != nil { // the connection was lost
			pause(ctx, 100*time.Millisecond)
		}
	}
}

// done gives the session for the answer up.
func (s *sent) done() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = s.replies.Close(ctx)
}

func answerOf(m *azservicebus.ReceivedMessage) answer {
	a := answer{CommandResult: &agentv1.CommandResult{}}
	if m.ContentType != nil {
		a.contentType = *m.ContentType
	}
	if m.CorrelationID != nil {
		a.correlationID = *m.CorrelationID
	}
	a.problem = decode(a.contentType, m.Body, a.CommandResult)
	return a
}

// robSession ends the lock of a session and takes the session for a moment, so that the receiver which had it can't go on unnoticed. False:
// that one was always faster.
func (b *bus) robSession(ctx context.Context, session string, emulator *servicebusemulator.Emulator) (bool, error) {
	const tries = 20
	for range tries {
		if err := emulator.ExpireLocks(commandsTopic, commandsSubscription); err != nil {
			return false, err
		}
		robbing, cancel := context.WithTimeout(ctx, 10*time.Second)
		receiver, err := b.client.AcceptSessionForSubscription(robbing, commandsTopic, commandsSubscription, session, nil)
		cancel()
		if err == nil {
			pause(ctx, quiet)
			return true, receiver.Close(ctx)
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	return false, nil
}

// deadLettered waits until the dead letters of the agents' commands hold the message.
func (b *bus) deadLettered(ctx context.Context, id string, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dead, err := b.client.NewReceiverForSubscription(commandsTopic, commandsSubscription, &azservicebus.ReceiverOptions{
		ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete, SubQueue: azservicebus.SubQueueDeadLetter,
	})
	if err != nil {
		return false
	}
	defer func() { _ = dead.Close(context.WithoutCancel(ctx)) }()
	for ctx.Err() == nil {
		messages, _ := dead.ReceiveMessages(ctx, 1, nil)
		for _, m := range messages {
			if m.MessageID == id {
				return true
			}
		}
	}
	return false
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
