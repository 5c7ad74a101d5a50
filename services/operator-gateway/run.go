package operatorgateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/agenthttp"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/grpcclient"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/lifecycle"
	"github.com/commandcenter/fleet/services/internal/servicebus"
	"github.com/commandcenter/fleet/services/internal/telemetry"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/command"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/rest"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/routing"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/rpc"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/transport/bus"
	transporthttp "github.com/commandcenter/fleet/services/operator-gateway/internal/transport/http"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/verification"
)

// Run serves until the context ends; commands under way are then answered first, within the write budget.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	conn, err := grpcclient.Dial(cfg.Registry)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	defer conn.Close()
	clients, err := dialBus(ctx, cfg)
	if err != nil {
		return err
	}
	defer clients.close()
	metrics := telemetry.NewMetrics()
	tokens := authn.Local()
	if cfg.TokenFile != "" {
		if tokens, err = authn.Open(cfg.TokenFile, cfg.Logger); err != nil {
			return fmt.Errorf("tokenFile: %w", err)
		}
	}
	registry := rpc.Registry{Agents: registryv1.NewAgentRegistryClient(conn), Servers: registryv1.NewServerCatalogClient(conn)}
	work, err := newWork(cfg, registry, clients, metrics)
	if err != nil {
		return err
	}
	return serve(ctx, cfg, conn, tokens, metrics, work)
}

// work is what carries out commands and decisions, behind both faces.
type work struct {
	bus        *bus.Transport
	verifier   *verification.Verifier
	operations *rpc.Operations
	agents     *rpc.Agents
	servers    *rpc.Servers
}

func newWork(cfg Config, registry rpc.Registry, clients *busClients, metrics prometheus.Registerer) (*work, error) {
	client, err := agenthttp.NewClient(cfg.HTTP)
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	anonymous, err := agenthttp.NewClient(cfg.HTTP.Anonymous())
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	token, err := cfg.HTTP.ReadToken()
	if err != nil {
		return nil, err
	}
	overBus, err := bus.New(bus.Options{Commands: clients.commands, Replies: clients.replies, Config: cfg.Bus, Metrics: metrics, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	verifier := &verification.Verifier{Client: anonymous, Registry: registry, Logger: cfg.Logger, RepeatInterval: cfg.Verification.RepeatInterval}
	policy := routing.Policy{MaxHeartbeatAge: cfg.Routing.MaxHeartbeatAge, MaxVerificationAge: cfg.Routing.MaxVerificationAge}
	executor := &command.Executor{
		Registry: registry, ServiceBus: overBus, HTTP: &transporthttp.Transport{Client: client, Anonymous: anonymous, Token: token}, Policy: policy,
		Budgets: command.Budgets{Read: cfg.Budgets.Read, Write: cfg.Budgets.Write}, Metrics: command.NewMetrics(metrics),
		Logger: cfg.Logger, Unreachable: verifier.Disprove,
	}
	return &work{
		bus: overBus, verifier: verifier,
		operations: &rpc.Operations{Registry: registry, Executor: executor},
		agents:     &rpc.Agents{Registry: registry, Verifier: verifier, Policy: policy, Logger: cfg.Logger},
		servers:    &rpc.Servers{Registry: registry, Logger: cfg.Logger},
	}, nil
}

// newServer makes a gRPC server with all services; REST has one of its own, within the process and without TLS.
func (w *work) newServer(cfg Config, listen grpcserver.ListenConfig, listener net.Listener, tokens *authn.Tokens, metrics prometheus.Registerer, face string) (*grpcserver.Server, error) {
	server, err := grpcserver.New(grpcserver.Options{
		Config: listen, Tokens: tokens, Policy: rpc.Policy(), Logger: cfg.Logger.With("face", face), Listener: listener,
		Metrics: prometheus.WrapRegistererWith(prometheus.Labels{"face": face}, metrics), Deadlines: rpc.Deadlines(max(cfg.Budgets.Read, cfg.Budgets.Write)),
		Reflection: cfg.Reflection, DrainGrace: cfg.Budgets.Write + 5*time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", face, err)
	}
	operatorv1.RegisterAgentOperationsServer(server.GRPC(), w.operations)
	operatorv1.RegisterAgentConfigServer(server.GRPC(), w.agents)
	operatorv1.RegisterServerConfigServer(server.GRPC(), w.servers)
	return server, nil
}

// inProcessBuffer is the size of the in-memory connection between REST and gRPC.
const inProcessBuffer = 1 << 20

func serve(ctx context.Context, cfg Config, registry *grpc.ClientConn, tokens *authn.Tokens, metrics *prometheus.Registry, work *work) error {
	server, err := work.newServer(cfg, cfg.listener(cfg.GRPC), nil, tokens, metrics, "grpc")
	if err != nil {
		return err
	}
	inProcess := bufconn.Listen(inProcessBuffer)
	behind, err := work.newServer(cfg, grpcserver.ListenConfig{}, inProcess, tokens, metrics, "rest")
	if err != nil {
		return err
	}
	loop, err := grpc.NewClient("passthrough:///in-process", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return inProcess.DialContext(ctx) }))
	if err != nil {
		return err
	}
	defer loop.Close()
	front, err := newFront(ctx, cfg, loop, tokens)
	if err != nil {
		return err
	}
	health := &health{server: server, registry: healthv1.NewHealthClient(registry), bus: work.bus, logger: cfg.Logger}
	admin, err := telemetry.NewAdmin(cfg.Admin, metrics, health.ready)
	if err != nil {
		return err
	}
	health.look(ctx)
	if cfg.Ready != nil {
		cfg.Ready(Endpoints{REST: front.listener.Addr().String(), GRPC: server.Addr(), Admin: admin.Addr()})
	}
	cfg.Logger.Info("serving", "rest", front.listener.Addr().String(), "grpc", server.Addr(), "admin", admin.Addr())
	// The last to start is the first to stop: new requests end before what serves them.
	return lifecycle.Run(ctx, cfg.Logger, cfg.Budgets.Write+15*time.Second,
		lifecycle.Part{Name: "admin", Run: admin.Run},
		lifecycle.Part{Name: "tokens", Run: tokens.Run},
		lifecycle.Part{Name: "replies", Run: work.bus.Hold},
		lifecycle.Part{Name: "proof", Run: work.bus.Prove},
		lifecycle.Part{Name: "verification", Run: work.verifier.Repeat},
		lifecycle.Part{Name: "health", Run: health.run},
		lifecycle.Part{Name: "grpc", Run: server.Run},
		lifecycle.Part{Name: "grpc behind rest", Run: behind.Run},
		lifecycle.Part{Name: "rest", Run: front.run},
	)
}

// front is the REST listener.
type front struct {
	listener net.Listener
	server   *http.Server
	tls      bool
	grace    time.Duration
}

func newFront(ctx context.Context, cfg Config, loop *grpc.ClientConn, tokens *authn.Tokens) (*front, error) {
	handler, err := rest.NewHandler(ctx, rest.Options{Conn: loop, Logger: cfg.Logger, LoopbackOnly: !tokens.Required()})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", cfg.REST.Listen)
	if err != nil {
		return nil, fmt.Errorf("rest.listen: %w", err)
	}
	tlsConfig := cfg.REST.TLS.Config()
	return &front{listener: listener, tls: tlsConfig != nil, grace: cfg.Budgets.Write + 5*time.Second, server: &http.Server{
		Handler: handler, TLSConfig: tlsConfig, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}}, nil
}

// run serves until the context ends; requests under way are answered first.
func (f *front) run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() {
		if f.tls {
			served <- f.server.ServeTLS(f.listener, "", "")
			return
		}
		served <- f.server.Serve(f.listener)
	}()
	select {
	case err := <-served:
		return fmt.Errorf("rest: %w", err)
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.grace)
	defer cancel()
	if err := f.server.Shutdown(draining); err != nil {
		return errors.Join(err, f.server.Close())
	}
	return nil
}

// busClients are the two connections to the bus: commands are sent without retries, so they have their own.
type busClients struct{ commands, replies *servicebus.Client }

func dialBus(ctx context.Context, cfg Config) (*busClients, error) {
	commands, err := servicebus.Dial(cfg.Bus, servicebus.DialOptions{NoRetries: true})
	if err != nil {
		return nil, err
	}
	replies, err := servicebus.Dial(cfg.Bus, servicebus.DialOptions{})
	if err != nil {
		return nil, err
	}
	clients := &busClients{commands, replies}
	checking, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	err = errors.Join(commands.CheckSend(checking, cfg.Bus.Topics.Commands), replies.CheckSend(checking, cfg.Bus.Topics.Replies))
	var access *servicebus.AccessError
	if errors.As(err, &access) {
		clients.close()
		return nil, err
	}
	if err != nil {
		cfg.Logger.Warn("the bus cannot be reached yet; agents on HTTP are served meanwhile", "error", err)
	}
	return clients, nil
}

func (b *busClients) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = b.commands.Close(ctx)
	_ = b.replies.Close(ctx)
}
