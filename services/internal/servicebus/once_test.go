package servicebus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	emulator "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
	"github.com/commandcenter/fleet/servicebus-emulator/node"
	"github.com/commandcenter/fleet/servicebus-emulator/transport"
	"github.com/commandcenter/fleet/services/internal/config"
)

func dialOnce(t testing.TB, connectionString string) *Client {
	t.Helper()
	client, err := Dial(Config{ConnectionString: config.Secret(connectionString)}, DialOptions{NoRetries: true})
	check(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = client.Close(ctx)
	})
	return client
}

// detaching is a bus that takes every message sent to topic "t", and detaches the link instead of confirming it.
type detaching struct {
	listener net.Listener
	// taken counts the messages, attached the links to the topic.
	taken, attached atomic.Int64
	// confirm makes it confirm like any other bus.
	confirm atomic.Bool
	running sync.WaitGroup
	mu      sync.Mutex
	open    []*transport.Conn
}

func startDetaching(t testing.TB) *detaching {
	t.Helper()
	entities := broker.New(broker.SystemClock{})
	check(t, entities.AddTopic(broker.TopicSettings{Name: "t", MaxSize: 1 << 20, MaxMessageSize: 64 << 10}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	d := &detaching{listener: listener}
	namespace := &node.Namespace{Broker: entities, Clock: broker.SystemClock{}}
	d.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			links, authenticate := namespace.Connect()
			served := transport.New(conn, transport.Options{
				ContainerID: "detaching", MaxFrameSize: 64 << 10, IdleTimeout: time.Minute, HandshakeTimeout: patience, WriteTimeout: patience,
				Authenticate: authenticate, Logger: slog.New(slog.DiscardHandler),
			})
			d.mu.Lock()
			d.open = append(d.open, served)
			d.mu.Unlock()
			d.running.Go(func() { _ = served.Serve(&detachingLinks{d, links}) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		d.mu.Lock()
		for _, conn := range d.open {
			conn.Drop()
		}
		d.mu.Unlock()
		d.running.Wait()
		entities.Stop()
	})
	return d
}

func (d *detaching) connectionString() string {
	return fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=name;SharedAccessKey=not-a-key;UseDevelopmentEmulator=true;", d.listener.Addr())
}

type detachingLinks struct {
	*detaching
	others transport.Acceptor
}

func (d *detachingLinks) Attach(link *transport.Link) {
	request := link.Request()
	if request.Role == amqp.RoleReceiver || request.Target == nil || request.Target.Address != "t" {
		d.others.Attach(link)
		return
	}
	d.attached.Add(1)
	link.AcceptSink(&detachingSink{d.detaching, link}, transport.Reply{MaxMessageSize: 64 << 10})
}

type detachingSink struct {
	*detaching
	link *transport.Link
}

func (s *detachingSink) Receive(uint32, []byte) *amqp.Error {
	s.taken.Add(1)
	if !s.confirm.Load() {
		s.link.Detach(amqp.Errorf(amqp.Symbol("amqp:link:detach-forced"), "the link is detached, for a test"))
	}
	return nil
}

// A link that is detached after the message went out leaves in doubt whether it was taken. The SDK alone would send it again.
func TestI3_AMessageWhoseLinkIsDetachedIsNotSentAgain(t *testing.T) {
	bus := startDetaching(t)
	sender := dialOnce(t, bus.connectionString()).NewOnceSender("t")
	const rounds = 20
	doubts := 0
	for range rounds {
		check(t, sender.Open(within(t)))
		// The confirmation comes right behind the detachment, so that either may be seen first.
		err := sender.Send(within(t), &Message{Body: []byte("once")})
		var notSent *NotSentError
		if errors.As(err, &notSent) {
			t.Fatalf("a message that went out is said not to have been sent: %v", err)
		}
		if err != nil {
			doubts++
		}
		sender.Renew() // where the confirmation was seen, the link looks usable still
	}
	// The next send is a round trip behind whatever the others may still have caused.
	bus.confirm.Store(true)
	check(t, sender.Open(within(t)))
	check(t, sender.Send(within(t), &Message{Body: []byte("last")}))
	if taken := bus.taken.Load(); taken != rounds+1 {
		t.Fatalf("the bus was sent %d messages instead of %d", taken, rounds+1)
	}
	if doubts == 0 {
		t.Fatal("no send ended in doubt, so that nothing was tested")
	}
	check(t, sender.Close(within(t)))
}

func TestI4_TheLinkIsOpenedBeforeTheSendAndNeverByIt(t *testing.T) {
	bus := startDetaching(t)
	bus.confirm.Store(true)
	sender := dialOnce(t, bus.connectionString()).NewOnceSender("t")
	if err := sender.Send(within(t), &Message{}); !errors.Is(err, ErrNotOpen) {
		t.Fatalf("a send without a link answered %v", err)
	}
	if attached := bus.attached.Load(); attached != 0 {
		t.Fatalf("a send opened %d links", attached)
	}
	check(t, sender.Open(within(t)))
	if attached, taken := bus.attached.Load(), bus.taken.Load(); attached != 1 || taken != 0 {
		t.Fatalf("opening made %d links and sent %d messages", attached, taken)
	}
	check(t, sender.Send(within(t), &Message{}))
	if attached := bus.attached.Load(); attached != 1 {
		t.Fatalf("the send opened another link: %d", attached)
	}
	check(t, sender.Close(within(t)))
}

func TestOnceSenderOpensAnIdleLinkAnew(t *testing.T) {
	bus := startDetaching(t)
	bus.confirm.Store(true)
	sender := dialOnce(t, bus.connectionString()).NewOnceSender("t")
	check(t, sender.Open(within(t)))
	sender.link.usedAt = time.Now().Add(-refreshAfter)
	check(t, sender.Open(within(t)))
	check(t, sender.Open(within(t)))
	if attached := bus.attached.Load(); attached != 2 {
		t.Fatalf("%d links were opened, the idle one and another make 2", attached)
	}
	sender.Renew()
	check(t, sender.Open(within(t)))
	if attached := bus.attached.Load(); attached != 3 {
		t.Fatalf("%d links were opened; the renewed one makes 3", attached)
	}
	check(t, sender.Close(within(t)))
}

func TestOnceSenderOpensOneLinkForMany(t *testing.T) {
	bus := startDetaching(t)
	bus.confirm.Store(true)
	sender := dialOnce(t, bus.connectionString()).NewOnceSender("t")
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			if err := sender.Open(within(t)); err != nil {
				t.Error(err)
			}
			if err := sender.Send(within(t), &Message{Body: []byte("x")}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if attached, taken := bus.attached.Load(), bus.taken.Load(); attached != 1 || taken != 32 {
		t.Fatalf("%d links, %d messages", attached, taken)
	}
	check(t, sender.Close(within(t)))
}

func TestOnceSenderComesBackAfterADroppedConnection(t *testing.T) {
	bus := start(t, heartbeats(emulator.SubscriptionProperties{}))
	sender := dialOnce(t, bus.ConnectionString()).NewOnceSender("t")
	check(t, sender.Open(within(t)))
	check(t, sender.Send(within(t), &Message{}))
	bus.DropConnections()
	// The first send after it may end in doubt, but what comes next goes through a new connection.
	_ = sender.Send(within(t), &Message{})
	sender.Renew()
	check(t, sender.Open(within(t)))
	check(t, sender.Send(within(t), &Message{}))
	check(t, sender.Close(within(t)))
}

func TestOnceSenderSaysWhatIsMissing(t *testing.T) {
	bus := start(t, heartbeats(emulator.SubscriptionProperties{}))
	sender := dialOnce(t, bus.ConnectionString()).NewOnceSender("other")
	err := sender.Open(within(t))
	var notSent *NotSentError
	if !errors.As(err, &notSent) || !strings.Contains(err.Error(), "topic other") {
		t.Fatalf("opening a missing topic answered %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sender.Open(ended); !errors.As(err, &notSent) {
		t.Fatalf("opening with an ended context answered %v", err)
	}
}

func TestOnceSenderDoesNotSendWhatIsTooLarge(t *testing.T) {
	bus := startDetaching(t)
	sender := dialOnce(t, bus.connectionString()).NewOnceSender("t")
	check(t, sender.Open(within(t)))
	err := sender.Send(within(t), &Message{Body: make([]byte, 65<<10)})
	var notSent *NotSentError
	if !errors.As(err, &notSent) || bus.taken.Load() != 0 {
		t.Fatalf("a message beyond the limit answered %v, and %d were sent", err, bus.taken.Load())
	}
	check(t, sender.Close(within(t)))
}
