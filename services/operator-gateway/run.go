package operatorgateway

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
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
	"github.com/commandcenter/fleet/services/internal/loopback"
	"github.com/commandcenter/fleet/services/internal/telemetry"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/command"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/rest"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/routing"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/rpc"
	transporthttp "github.com/commandcenter/fleet/services/operator-gateway/internal/transport/http"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/verification"
)

const (
	// drainMargin is what a drain has beyond the longest budget.
	drainMargin = 5 * time.Second
	// inProcessBuffer is the size of the in-memory connection between REST and gRPC, and maxAnswerBytes bounds what passes it:
	// more than an agent may answer, since JSON became a message on the way.
	inProcessBuffer = 1 << 20
	maxAnswerBytes  = 16 << 20
)

// Run serves until the context ends; commands under way are then answered first, within the write budget.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	conn, err := grpcclient.Dial(cfg.Registry)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	defer conn.Close()
	tokens, err := authn.ForFile("tokenFile", cfg.TokenFile, cfg.Logger)
	if err != nil {
		return err
	}
	metrics := telemetry.NewMetrics()
	overBus, closeBus, err := openBus(ctx, cfg, metrics)
	if err != nil {
		return err
	}
	defer closeBus()
	registry := rpc.Registry{Agents: registryv1.NewAgentRegistryClient(conn), Servers: registryv1.NewServerCatalogClient(conn)}
	work, err := newWork(cfg, registry, overBus, metrics)
	if err != nil {
		return err
	}
	return serve(ctx, cfg, conn, tokens, metrics, work)
}

// work is what carries out commands and decisions, behind both faces.
type work struct {
	bus        busTransport
	verifier   *verification.Verifier
	operations *rpc.Operations
	agents     *rpc.Agents
	servers    *rpc.Servers
}

func newWork(cfg Config, registry rpc.Registry, overBus busTransport, metrics prometheus.Registerer) (*work, error) {
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
	budget := max(cfg.Budgets.Read, cfg.Budgets.Write)
	server, err := grpcserver.New(grpcserver.Options{
		Config: listen, Tokens: tokens, Policy: rpc.Policy(), Logger: cfg.Logger.With("face", face), Listener: listener,
		Metrics:    prometheus.WrapRegistererWith(prometheus.Labels{"face": face}, metrics),
		Deadlines:  rpc.Deadlines(budget),
		Reflection: cfg.Reflection, DrainGrace: budget + drainMargin,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", face, err)
	}
	operatorv1.RegisterAgentOperationsServer(server.GRPC(), w.operations)
	operatorv1.RegisterAgentConfigServer(server.GRPC(), w.agents)
	operatorv1.RegisterServerConfigServer(server.GRPC(), w.servers)
	return server, nil
}

func serve(ctx context.Context, cfg Config, registry *grpc.ClientConn, tokens *authn.Tokens, metrics *prometheus.Registry, work *work) error {
	front, err := newFront(cfg)
	if err != nil {
		return err
	}
	defer front.listener.Close()
	inProcess := bufconn.Listen(inProcessBuffer)
	behind, err := work.newServer(cfg, grpcserver.ListenConfig{}, inProcess, tokens, metrics, "rest")
	if err != nil {
		return err
	}
	loop, err := dialInProcess(inProcess)
	if err != nil {
		return err
	}
	defer loop.Close()
	front.server.Handler, err = rest.NewHandler(ctx, rest.Options{Conn: loop, Logger: cfg.Logger, Metrics: metrics, LoopbackOnly: !tokens.Required()})
	if err != nil {
		return err
	}
	admin, health, server, err := newServers(cfg, registry, tokens, metrics, work)
	if err != nil {
		return err
	}
	cfg.warnOfPlaintext()
	health.look(ctx)
	if cfg.Ready != nil {
		cfg.Ready(Endpoints{REST: front.addr(), GRPC: server.Addr(), Admin: admin.Addr()})
	}
	cfg.Logger.Info("serving", "rest", front.addr(), "grpc", server.Addr(), "admin", admin.Addr())
	defer context.AfterFunc(ctx, health.drain)()
	// The last to start is the first to stop: new requests end before what serves them. Both faces drain at once.
	return lifecycle.Run(ctx, cfg.Logger, max(cfg.Budgets.Read, cfg.Budgets.Write)+2*drainMargin,
		lifecycle.Part{Name: "admin", Run: admin.Run},
		lifecycle.Part{Name: "tokens", Run: tokens.Run},
		lifecycle.Part{Name: "replies", Run: work.bus.Hold},
		lifecycle.Part{Name: "proof", Run: work.bus.Prove},
		lifecycle.Part{Name: "verification", Run: work.verifier.Repeat},
		lifecycle.Part{Name: "health", Run: health.run},
		lifecycle.Part{Name: "grpc behind rest", Run: behind.Run},
		lifecycle.Part{Name: "rest and grpc", Run: together(front.run, server.Run)},
	)
}

func newServers(cfg Config, registry *grpc.ClientConn, tokens *authn.Tokens, metrics *prometheus.Registry, work *work) (*telemetry.Admin, *health, *grpcserver.Server, error) {
	server, err := work.newServer(cfg, cfg.listener(cfg.GRPC), nil, tokens, metrics, "grpc")
	if err != nil {
		return nil, nil, nil, err
	}
	health := &health{server: server, registry: healthv1.NewHealthClient(registry), bus: work.bus, logger: cfg.Logger}
	admin, err := telemetry.NewAdmin(cfg.Admin, metrics, health.ready)
	if err != nil {
		// A server that never ran has nothing else that closes its listener.
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Run(ended)
	}
	return admin, health, server, err
}

// dialInProcess connects REST to the gRPC server behind it.
func dialInProcess(listener *bufconn.Listener) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///in-process", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
}

// together runs parts side by side until the context ends, or one of them.
func together(parts ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, run := range parts {
			group.Go(func() error { return run(ctx) })
		}
		return group.Wait()
	}
}

// warnOfPlaintext tells that tokens can be read on the way, where nothing in front of us ends TLS.
func (c Config) warnOfPlaintext() {
	for key, one := range map[string]ListenConfig{"rest": c.REST, "grpc": c.GRPC} {
		if local, _ := loopback.Is(one.Listen); !local && one.TLS.CertFile == "" {
			c.Logger.Warn("listening beyond loopback without TLS: set "+key+".tls, unless the network protects the tokens or something in front ends TLS", "listen", one.Listen)
		}
	}
}
