package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// BusConfig says which Service Bus namespace, and its entities. Either ConnectionString, or Namespace and Credential.
type BusConfig struct {
	// ConnectionString of the namespace, a secret.
	ConnectionString string
	// Namespace is the fully qualified name, such as "fleet.servicebus.windows.net", to sign in with Credential.
	Namespace  string
	Credential azcore.TokenCredential

	// StateTopic takes heartbeats; default "agent-state".
	StateTopic string
	// CommandsTopic brings commands; default "agent-commands".
	CommandsTopic string
	// CommandsSubscription is the one of CommandsTopic with sessions, which all agents share; default "agents".
	CommandsSubscription string
	// RepliesTopic takes the answers to commands that do not name another; default "agent-replies".
	RepliesTopic string

	// AgentsPerConnection is how many agents receive over one connection, 1 to 200; default 50. Each takes several
	// links, whose number per connection is limited; and a fault of the connection is one for all of them.
	AgentsPerConnection int
	// LockRenewalInterval is how often a session's lock is renewed; 1 s to 2 min; default 20 s. At most half of the
	// subscription's lock duration.
	LockRenewalInterval time.Duration
}

func (c BusConfig) withDefaults() BusConfig {
	for field, value := range map[*string]string{
		&c.StateTopic: "agent-state", &c.CommandsTopic: "agent-commands",
		&c.CommandsSubscription: "agents", &c.RepliesTopic: "agent-replies",
	} {
		if *field == "" {
			*field = value
		}
	}
	if c.AgentsPerConnection == 0 {
		c.AgentsPerConnection = 50
	}
	standard(&c.LockRenewalInterval, 20*time.Second)
	return c
}

func (c BusConfig) validate() error {
	var problems []error
	if (c.ConnectionString == "") == (c.Namespace == "") {
		problems = append(problems, errors.New("bus config: ConnectionString, Namespace: exactly one is required"))
	}
	if (c.Namespace == "") != (c.Credential == nil) {
		problems = append(problems, errors.New("bus config: Credential: goes with Namespace, and only with it"))
	}
	if n := c.AgentsPerConnection; n < 1 || n > 200 {
		problems = append(problems, fmt.Errorf("bus config: AgentsPerConnection: %d is not within 1 to 200", n))
	}
	if d := c.LockRenewalInterval; d < time.Second || d > 2*time.Minute {
		problems = append(problems, fmt.Errorf("bus config: LockRenewalInterval: %s is not within 1s to 2m", d))
	}
	return errors.Join(problems...)
}

const (
	// acceptsAtOnce per connection: each opens three links and authorises two of them, one after the other.
	acceptsAtOnce = 4
	// maxReplyTopics bounds how many topics commands may ask to be answered on.
	maxReplyTopics = 16

	sendTimeout = 10 * time.Second // one try
	replyTries  = 5
	replyTTL    = 5 * time.Minute
	maxReply    = 240 << 10 // bytes; a message on the Standard tier has 256 KiB, with its header

	firstRetryDelay = 250 * time.Millisecond
	lastRetryDelay  = 30 * time.Second
)

// Bus is the connections to one namespace: one for everything that is sent, and one for each AgentsPerConnection
// agents that receive. Any number of agents of a process share it. Connections are opened when they are first used.
type Bus struct {
	cfg     BusConfig
	sending *azservicebus.Client

	mu          sync.Mutex
	senders     map[string]*azservicebus.Sender // by topic
	connections []*connection                   // for receiving
}

// connection is one that agents receive over.
type connection struct {
	client    *azservicebus.Client
	agents    int           // guarded by Bus.mu
	accepting chan struct{} // holds one token per receiver that is being opened
}

// NewBus makes the bus of a namespace. It connects to nothing yet; errors are those of the configuration.
func NewBus(cfg BusConfig) (*Bus, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	b := &Bus{cfg: cfg, senders: map[string]*azservicebus.Sender{}}
	var err error
	if b.sending, err = b.dial(); err != nil {
		return nil, err
	}
	return b, nil
}

// dial makes a client, which connects when it is first used. Its own retries are few and quick (by default the first
// comes after 4 s): ours go on after them.
func (b *Bus) dial() (*azservicebus.Client, error) {
	options := &azservicebus.ClientOptions{
		ApplicationID: "commandcenter-agent",
		RetryOptions: azservicebus.RetryOptions{
			MaxRetries: 2, RetryDelay: 200 * time.Millisecond, MaxRetryDelay: 2 * time.Second,
		},
	}
	var client *azservicebus.Client
	var err error
	if b.cfg.ConnectionString != "" {
		client, err = azservicebus.NewClientFromConnectionString(b.cfg.ConnectionString, options)
	} else {
		client, err = azservicebus.NewClient(b.cfg.Namespace, b.cfg.Credential, options)
	}
	if err != nil {
		return nil, fmt.Errorf("bus config: %w", err)
	}
	return client, nil
}

// Close closes the connections, once the agents that use them have ended.
func (b *Bus) Close(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	problems := []error{b.sending.Close(ctx)}
	for _, c := range b.connections {
		problems = append(problems, c.client.Close(ctx))
	}
	return errors.Join(problems...)
}

// join gives an agent a connection to receive over; leave gives it back.
func (b *Bus) join() (*connection, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.connections {
		if c.agents < b.cfg.AgentsPerConnection {
			c.agents++
			return c, nil
		}
	}
	client, err := b.dial()
	if err != nil {
		return nil, err
	}
	c := &connection{client: client, agents: 1, accepting: make(chan struct{}, acceptsAtOnce)}
	b.connections = append(b.connections, c)
	return c, nil
}

func (b *Bus) leave(c *connection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.agents--
}

// sender of a topic, one for all agents.
func (b *Bus) sender(topic string) (*azservicebus.Sender, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.senders[topic]; s != nil {
		return s, nil
	}
	if len(b.senders) >= maxReplyTopics {
		return nil, fmt.Errorf("bus: commands asked for answers on more than %d topics; %q is not one of them", maxReplyTopics, topic)
	}
	s, err := b.sending.NewSender(topic, nil)
	if err != nil {
		return nil, fmt.Errorf("bus: topic %q: %w", topic, err)
	}
	b.senders[topic] = s
	return s, nil
}

// send sends what may be sent more than once: heartbeats and replies.
func (b *Bus) send(ctx context.Context, topic string, m *azservicebus.Message, tries int) error {
	s, err := b.sender(topic)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		once, cancel := context.WithTimeout(ctx, sendTimeout)
		err := s.SendMessage(once, m, nil)
		cancel()
		if err == nil {
			return nil
		}
		if try == tries || ctx.Err() != nil {
			return fmt.Errorf("bus: not sent to topic %q, tried %d times: %w", topic, try, err)
		}
		pause(ctx, retryDelay(try))
	}
}

// retryDelay before the try after the given number of failures: up to 250 ms, doubling, up to 30 s; anything between
// that and nothing, so that many agents do not come back at once.
func retryDelay(failures int) time.Duration {
	ceiling := min(lastRetryDelay, firstRetryDelay<<min(failures-1, 10))
	return time.Duration(rand.Int64N(int64(ceiling)))
}

func (b *Bus) sendHeartbeat(ctx context.Context, h *agentv1.Heartbeat) error {
	body, err := jsonEncoding.marshal(h)
	if err != nil {
		return fmt.Errorf("bus: the heartbeat can't be encoded: %w", err)
	}
	contentType := string(jsonEncoding)
	return b.send(ctx, b.cfg.StateTopic, &azservicebus.Message{
		Body: body, ContentType: &contentType, ApplicationProperties: map[string]any{"agent": h.GetName()},
	}, heartbeatTries)
}

// sendReply answers the command that came in the message, in its encoding.
func (b *Bus) sendReply(ctx context.Context, to *azservicebus.ReceivedMessage, result *agentv1.CommandResult) error {
	e, _ := encodingOf(text(to.ContentType))
	body, err := e.marshal(result)
	if err == nil && len(body) > maxReply {
		body, err = e.marshal(withoutPayload(result, len(body)))
	}
	if err != nil {
		return fmt.Errorf("bus: the answer can't be encoded: %w", err)
	}
	topic := text(to.ReplyTo)
	if topic == "" {
		topic = b.cfg.RepliesTopic
	}
	contentType, ttl, id := string(e), replyTTL, to.MessageID
	return b.send(ctx, topic, &azservicebus.Message{
		Body: body, ContentType: &contentType, CorrelationID: &id, SessionID: to.ReplyToSessionID, TimeToLive: &ttl,
	}, replyTries)
}

// withoutPayload is an answer that is too long for one message, without what made it so. Half a list is none, so a read
// has failed then; a write did what it did.
func withoutPayload(result *agentv1.CommandResult, size int) *agentv1.CommandResult {
	return stripped(result, fmt.Sprintf("the answer of %d bytes is longer than the %d that one message takes", size, maxReply))
}

// stripped is a result without its payload, and with a note of why.
func stripped(result *agentv1.CommandResult, note string) *agentv1.CommandResult {
	short := &agentv1.CommandResult{
		CommandId: result.GetCommandId(), Agent: result.GetAgent(), Outcome: result.GetOutcome(), RefusalReason: result.GetRefusalReason(),
		StartedAt: result.GetStartedAt(), FinishedAt: result.GetFinishedAt(), Duration: result.GetDuration(),
	}
	if result.GetChanges() != nil {
		note += "; what was changed is left out"
	} else if result.GetPayload() != nil {
		short.Outcome = agentv1.Outcome_OUTCOME_FAILED
	}
	short.Message = shortened(strings.TrimPrefix(result.GetMessage()+"; "+note, "; "))
	return short
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
