package servicebusemulator

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/broker"
	"github.com/commandcenter/fleet/servicebus-emulator/faults"
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
	// AdminListen is the TCP address of the administration API, over plain HTTP; default none.
	AdminListen string
	// FaultsListen is the TCP address of the HTTP endpoint that breaks things, on loopback only, such as "127.0.0.1:0"; default
	// none.
	FaultsListen string
	// Logger gets connections and refusals; default none.
	Logger *slog.Logger
}

// Counts of the messages of a subscription.
type Counts = broker.Counts

// Emulator is a running emulator. Its methods are safe for concurrent use.
type Emulator struct {
	broker       *broker.Broker
	namespace    *node.Namespace
	listener     net.Listener
	options      Options
	faults       faults.Faults
	faultsServer *http.Server // nil: none
	faultsAddr   string
	admin        *adminServer   // nil: none
	running      sync.WaitGroup // the accepting goroutine and one per connection

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
	if err := checkListen("Listen", opts.Listen, opts.AllowRemote); err != nil {
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
		broker: b, listener: listener, options: opts, connections: map[*transport.Conn]struct{}{},
	}
	e.namespace = &node.Namespace{Broker: b, Keys: opts.Keys, Clock: opts.Clock, Faults: &e.faults}
	if err := errors.Join(e.serveFaults(), e.serveAdministration(cfg)); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.running.Go(e.accept)
	return e, nil
}

// checkListen refuses an address beyond loopback unless that was asked for; option is where the address comes from.
func checkListen(option, address string, allowRemote bool) error {
	err := checkLoopback(address)
	if errors.Is(err, errRemote) {
		if allowRemote {
			return nil
		}
		return fmt.Errorf("emulator: %s %w; the emulator has no TLS and is not "+
			"for production: set AllowRemote to listen there anyway", option, err)
	}
	if err != nil {
		return fmt.Errorf("emulator: %s %w", option, err)
	}
	return nil
}

var errRemote = errors.New("is not a loopback address")

func checkLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q: %w", address, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q %w", address, errRemote)
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
		links, authenticate := e.namespace.Connect()
		conn := transport.New(nc, transport.Options{
			ContainerID: "servicebus-emulator", MaxFrameSize: maxFrameSize, IdleTimeout: e.options.IdleTimeout,
			HandshakeTimeout: handshakeTimeout, WriteTimeout: writeTimeout, Authenticate: authenticate,
			Hold: e.faults.Hold,
		})
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			conn.Drop()
			return
		}
		e.connections[conn] = struct{}{}
		e.running.Go(func() { e.serve(conn, links) })
		e.mu.Unlock()
	}
}

func (e *Emulator) serve(conn *transport.Conn, links transport.Acceptor) {
	e.options.Logger.Debug("client connected", "remote", conn.RemoteAddr())
	err := conn.Serve(links)
	e.mu.Lock()
	delete(e.connections, conn)
	e.mu.Unlock()
	if err != nil {
		e.options.Logger.Info("client connection ended", "remote", conn.RemoteAddr(), "error", err)
		return
	}
	e.options.Logger.Debug("client disconnected", "remote", conn.RemoteAddr())
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
	if e.faultsServer != nil {
		_ = e.faultsServer.Close()
	}
	if e.admin != nil {
		err = errors.Join(err, e.admin.close())
	}
	e.DropConnections()
	e.running.Wait()
	e.broker.Stop()
	if errors.Is(err, net.ErrClosed) {
		return nil // closed twice
	}
	return err
}

// AdminAddr is where the administration API listens; empty if it does not.
func (e *Emulator) AdminAddr() string {
	if e.admin == nil {
		return ""
	}
	return e.admin.listener.Addr().String()
}

// Counts counts the messages of a subscription.
func (e *Emulator) Counts(topic, subscription string) (Counts, error) {
	q, err := e.subscription(topic, subscription)
	if err != nil {
		return Counts{}, err
	}
	return q.Counts(), nil
}

func (e *Emulator) subscription(topic, name string) (*broker.Queue, error) {
	q := e.broker.Subscription(topic, name)
	if q == nil {
		return nil, &fieldError{"subscription", fmt.Sprintf("there is no subscription %q of topic %q", name, topic)}
	}
	return q, nil
}
