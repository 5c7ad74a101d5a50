package servicebusemulator

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/broker"
	"github.com/commandcenter/fleet/servicebus-emulator/management"
	"github.com/commandcenter/fleet/servicebus-emulator/node"
	"github.com/commandcenter/fleet/servicebus-emulator/transport"
)

// Options of an emulator. The zero value is good for tests.
type Options struct {
	// Listen is the TCP address; default "127.0.0.1:0", any free port of the loopback interface.
	Listen string
	// AllowRemote permits a Listen address beyond loopback. There is no TLS: whoever can reach the port can read along.
	AllowRemote bool
	// Keys are shared access keys by key name. If there are any, tokens and SASL PLAIN are checked against
	// them; if not, every client may do everything.
	Keys map[string]string
	// Clock tells the time to locks, expiry and tokens; default the system's.
	Clock broker.Clock
	// IdleTimeout is how long a client may be silent, as told to it; default 2 minutes.
	IdleTimeout time.Duration
	// Logger gets connections and refusals; default none.
	Logger *slog.Logger
}

// Counts of the messages of a subscription.
type Counts = broker.Counts

// Emulator is a running emulator. Its methods are safe for concurrent use.
type Emulator struct {
	broker    *broker.Broker
	namespace *node.Namespace
	listener  net.Listener
	options   Options
	running   sync.WaitGroup // the accepting goroutine and one per connection

	mu          sync.Mutex
	connections map[*transport.Conn]struct{}
	closed      bool
}

const (
	developmentKeyName = "RootManageSharedAccessKey"
	developmentKey     = "SAS_KEY_VALUE" // a placeholder: it opens nothing

	maxFrameSize     = 64 << 10 // bytes, as Service Bus
	idleTimeout      = 2 * time.Minute
	handshakeTimeout = 20 * time.Second
	writeTimeout     = 30 * time.Second
	// acceptPause gives a process that has no file descriptors left the time to close some.
	acceptPause = 50 * time.Millisecond
)

// Start makes the entities and listens. It returns once clients can connect.
func Start(cfg Config, opts Options) (*Emulator, error) {
	if opts.Listen == "" {
		opts.Listen = "127.0.0.1:0"
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Clock == nil {
		opts.Clock = broker.SystemClock{}
	}
	if opts.IdleTimeout == 0 {
		opts.IdleTimeout = idleTimeout
	}
	if err := checkListen(opts); err != nil {
		return nil, err
	}
	checked, err := cfg.entities()
	if err != nil {
		return nil, fmt.Errorf("emulator config: %w", err)
	}
	b, err := checked.broker(opts.Clock)
	if err != nil {
		return nil, fmt.Errorf("emulator config: %w", err)
	}
	listener, err := net.Listen("tcp", opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	e := &Emulator{
		broker: b, listener: listener, options: opts,
		namespace:   &node.Namespace{Broker: b, Keys: opts.Keys, Clock: opts.Clock},
		connections: map[*transport.Conn]struct{}{},
	}
	e.running.Go(e.accept)
	return e, nil
}

func checkListen(opts Options) error {
	host, _, err := net.SplitHostPort(opts.Listen)
	if err != nil {
		return fmt.Errorf("emulator: Listen %q: %w", opts.Listen, err)
	}
	if opts.AllowRemote || host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("emulator: Listen %q is not a loopback address; the emulator has no TLS and is not "+
			"for production: set AllowRemote to listen there anyway", opts.Listen)
	}
	return nil
}

func (e *Emulator) accept() {
	for {
		nc, err := e.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			e.options.Logger.Error("a connection could not be accepted", "error", err)
			<-time.After(acceptPause)
			continue
		}
		conn := transport.New(nc, transport.Options{
			ContainerID: "servicebus-emulator", MaxFrameSize: maxFrameSize, IdleTimeout: e.options.IdleTimeout,
			HandshakeTimeout: handshakeTimeout, WriteTimeout: writeTimeout, Authenticate: e.authenticate,
		})
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			conn.Drop()
			return
		}
		e.connections[conn] = struct{}{}
		e.running.Go(func() { e.serve(conn) })
		e.mu.Unlock()
	}
}

func (e *Emulator) serve(conn *transport.Conn) {
	e.options.Logger.Debug("client connected", "remote", conn.RemoteAddr())
	err := conn.Serve(e.namespace.Connect())
	e.mu.Lock()
	delete(e.connections, conn)
	e.mu.Unlock()
	if err != nil {
		e.options.Logger.Info("client connection ended", "remote", conn.RemoteAddr(), "error", err)
		return
	}
	e.options.Logger.Debug("client disconnected", "remote", conn.RemoteAddr())
}

// authenticate checks SASL. Clients that come with a token use one of the two anonymous mechanisms, and put it to $cbs.
func (e *Emulator) authenticate(mechanism string, response []byte) bool {
	switch mechanism {
	case "ANONYMOUS", "MSSBCBS":
		return true
	case "PLAIN":
		return len(e.options.Keys) == 0 || management.Keys(e.options.Keys).Plain(response)
	case "": // no SASL at all
		return len(e.options.Keys) == 0
	}
	return false
}

// Addr is the address that clients connect to, such as 127.0.0.1:5672.
func (e *Emulator) Addr() string { return e.listener.Addr().String() }

// ConnectionString is one that azservicebus.NewClientFromConnectionString takes as it is.
func (e *Emulator) ConnectionString() string {
	name, key := developmentKeyName, developmentKey
	for name, key = range e.options.Keys {
		break
	}
	return fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=%s;UseDevelopmentEmulator=true;",
		e.Addr(), name, key)
}

// Close stops listening, closes all connections and waits for all of the emulator's goroutines.
func (e *Emulator) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	err := e.listener.Close()
	e.DropConnections()
	e.running.Wait()
	e.broker.Stop()
	if errors.Is(err, net.ErrClosed) {
		return nil // closed twice
	}
	return err
}

// DropConnections closes every TCP connection now, without a word to the clients, as a network failure does. New
// ones are taken.
func (e *Emulator) DropConnections() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for conn := range e.connections {
		conn.Drop()
	}
}

// Counts counts the messages of a subscription.
func (e *Emulator) Counts(topic, subscription string) (Counts, error) {
	q, err := e.subscription(topic, subscription)
	if err != nil {
		return Counts{}, err
	}
	return q.Counts(), nil
}

// PauseSubscription holds back every message of a subscription, or ends that. Settling works meanwhile.
func (e *Emulator) PauseSubscription(topic, subscription string, paused bool) error {
	q, err := e.subscription(topic, subscription)
	if err != nil {
		return err
	}
	q.Pause(paused)
	return nil
}

// ExpireLocks ends all locks on messages and sessions of a subscription now, as if their time had come.
func (e *Emulator) ExpireLocks(topic, subscription string) error {
	q, err := e.subscription(topic, subscription)
	if err != nil {
		return err
	}
	q.ExpireLocks()
	return nil
}

func (e *Emulator) subscription(topic, name string) (*broker.Queue, error) {
	q := e.broker.Subscription(topic, name)
	if q == nil {
		return nil, fmt.Errorf("emulator: there is no subscription %q of topic %q", name, topic)
	}
	return q, nil
}
