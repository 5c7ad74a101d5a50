package grpcserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/loopback"
)

const (
	defaultDeadline = 30 * time.Second
	drainGrace      = 10 * time.Second
	maxMessageBytes = 8 << 20
	// streamWorkers go from call to call with the stacks they have grown; calls beyond them get goroutines of their own.
	streamWorkers = 16
)

// Options is what a server is made of. Tokens, Policy and Logger are required.
type Options struct {
	Config ListenConfig
	Tokens *authn.Tokens
	Policy authn.Policy
	Logger *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Deadlines caps each method's time, by full name; 30 s where nothing stands. A caller's shorter deadline wins.
	Deadlines map[string]time.Duration
	// Quiet names calls that come many times a second by design; when they succeed they are in the metrics, and in the log only
	// at debug.
	Quiet []string
	// Reflection lists the services to whoever asks; for local use.
	Reflection bool
	// DrainGrace is how long running calls may go on at the stop; 10 s by default.
	DrainGrace time.Duration
	// MaxMessageBytes is how large a request may be; 8 MiB by default.
	MaxMessageBytes int
	// MaxStreams is how many calls one connection may have under way; without limit by default.
	MaxStreams uint32
}

// Server is one gRPC server.
type Server struct {
	grpc     *grpc.Server
	health   *health.Server
	listener net.Listener
	policy   authn.Policy
	logger   *slog.Logger
	grace    time.Duration
}

// New listens and builds the server; register services on GRPC before Run.
func New(opts Options) (*Server, error) {
	chain, err := newChain(opts)
	if err != nil {
		return nil, err
	}
	listener, err := opts.listen()
	if err != nil {
		return nil, err
	}
	options := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(chain.unary), grpc.ChainStreamInterceptor(chain.stream),
		grpc.MaxRecvMsgSize(cmp.Or(opts.MaxMessageBytes, maxMessageBytes)), grpc.NumStreamWorkers(streamWorkers),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		// Connections end now and then, so that clients find new replicas.
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 30 * time.Minute, MaxConnectionAgeGrace: 5 * time.Minute, Time: 2 * time.Minute}),
	}
	if tlsConfig := opts.Config.TLS.Config(); tlsConfig != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(tlsConfig)))
	}
	if opts.MaxStreams > 0 {
		options = append(options, grpc.MaxConcurrentStreams(opts.MaxStreams))
	}
	server := &Server{
		grpc: grpc.NewServer(options...), health: health.NewServer(), listener: listener,
		policy: opts.Policy, logger: opts.Logger, grace: opts.DrainGrace,
	}
	if server.grace == 0 {
		server.grace = drainGrace
	}
	healthv1.RegisterHealthServer(server.grpc, server.health)
	if opts.Reflection {
		reflection.Register(server.grpc)
	}
	return server, nil
}

// listen opens the listener. Whatever was validated before: without tokens, only loopback.
func (o Options) listen() (net.Listener, error) {
	local, err := loopback.Is(o.Config.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	if !local && !o.Tokens.Remote() {
		return nil, fmt.Errorf("will not listen on %s: it is beyond loopback and no authentication is configured", o.Config.Listen)
	}
	listener, err := net.Listen("tcp", o.Config.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	return listener, nil
}

// GRPC is where services are registered.
func (s *Server) GRPC() *grpc.Server { return s.grpc }

// Addr is where it listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// SetServing answers health checks of a service; the empty name is the whole server.
func (s *Server) SetServing(service string, serving bool) {
	state := healthv1.HealthCheckResponse_NOT_SERVING
	if serving {
		state = healthv1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(service, state)
}

// Run serves until the context ends, then drains: NOT_SERVING, no new calls, running ones within the grace.
func (s *Server) Run(ctx context.Context) error {
	if missing := s.Unlisted(); len(missing) > 0 {
		s.Close()
		return fmt.Errorf("methods without a role in the policy table: %s", strings.Join(missing, ", "))
	}
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("grpc: %w", err)
	case <-ctx.Done():
	}
	s.health.Shutdown()
	drained := make(chan struct{})
	go func() { s.grpc.GracefulStop(); close(drained) }()
	timer := time.NewTimer(s.grace)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C:
		s.logger.Warn("calls still running at the end of the grace were cut off", "grace", s.grace)
		s.grpc.Stop()
	}
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Close ends a server that will not run; after Run it does nothing.
func (s *Server) Close() {
	s.listener.Close()
	s.grpc.Stop()
}

// Unlisted names the registered methods that the policy table lacks.
func (s *Server) Unlisted() []string {
	var missing []string
	for service, info := range s.grpc.GetServiceInfo() {
		if open(service) {
			continue
		}
		for _, method := range info.Methods {
			full := "/" + service + "/" + method.Name
			if _, ok := s.policy[full]; !ok {
				missing = append(missing, full)
			}
		}
	}
	slices.Sort(missing)
	return missing
}

// open tells the services that anybody may call: health checks and, where it is on, reflection.
func open(service string) bool {
	return strings.HasPrefix(service, "grpc.health.") || strings.HasPrefix(service, "grpc.reflection.")
}
