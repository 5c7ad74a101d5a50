package operatorgateway

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/agenthttp"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/lifecycle"
	"github.com/commandcenter/fleet/services/internal/loopback"
	"github.com/commandcenter/fleet/services/internal/telemetry"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/aside"
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
)

// Run serves until the context ends; commands under way are then answered first, within the write budget.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	metrics := telemetry.NewMetrics()
	readiness := telemetry.NewReadiness("operator-gateway", metrics)
	admin, err := telemetry.NewAdmin(cfg.Admin, metrics, readiness)
	if err != nil {
		return err
	}
	cfg.Logger.Info("starting", "admin", admin.Addr())
	run := func(ctx context.Context) error { return cfg.run(ctx, metrics, readiness, admin.Addr()) }
	return lifecycle.Run(ctx, cfg.Logger, drainMargin,
		lifecycle.Part{Name: "admin", Run: admin.Run}, lifecycle.Part{Run: run, Grace: 2 * cfg.drainGrace()})
}

// run serves, beside the admin listener.
func (c Config) run(ctx context.Context, metrics *prometheus.Registry, readiness *telemetry.Readiness, admin string) error {
	upstreams, err := dialUpstreams(c)
	if err != nil {
		return err
	}
	defer upstreams.close()
	tokens, err := authn.ForFile("tokenFile", c.TokenFile, c.Logger)
	if err != nil {
		return err
	}
	receivers := &aside.Receivers{Registry: upstreams.asRegistry().Agents, Logger: c.Logger}
	defer receivers.Wait()
	overBus, err := openBus(c, metrics, receivers)
	if err != nil {
		return err
	}
	defer overBus.close()
	work, err := newWork(c, upstreams, overBus, receivers, metrics)
	if err != nil {
		return err
	}
	return serve(ctx, c, base{upstreams: upstreams, tokens: tokens, metrics: metrics, readiness: readiness, admin: admin}, work)
}

// base is what there is before the gateway serves.
type base struct {
	upstreams *upstreams
	tokens    *authn.Tokens
	metrics   *prometheus.Registry
	readiness *telemetry.Readiness
	admin     string
}

// work is what carries out commands and decisions, behind both faces.
type work struct {
	bus          *opened
	verifier     *verification.Verifier
	standStill   *command.StandStill
	operations   *rpc.Operations
	agents       *rpc.Agents
	servers      *rpc.Servers
	availability *rpc.Availability
	cloud        *rpc.Cloud
	stopping     chan struct{} // closed when the faces begin to drain
}

func newWork(cfg Config, upstreams *upstreams, overBus *opened, receivers *aside.Receivers, metrics prometheus.Registerer) (*work, error) {
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
	registry, availability, stopping := upstreams.asRegistry(), upstreams.asAvailability(), make(chan struct{})
	verifier := &verification.Verifier{Client: anonymous, Registry: registry, Logger: cfg.Logger, RepeatInterval: cfg.Verification.RepeatInterval}
	policy := routing.Policy{MaxHeartbeatAge: cfg.Routing.MaxHeartbeatAge, MaxVerificationAge: cfg.Routing.MaxVerificationAge}
	standStill := &command.StandStill{}
	executor := &command.Executor{
		Registry: registry, ServiceBus: overBus, HTTP: &transporthttp.Transport{Client: client, Anonymous: anonymous, Token: token}, Policy: policy,
		Budgets: command.Budgets{Read: cfg.Budgets.Read, Write: cfg.Budgets.Write}, Metrics: command.NewMetrics(metrics),
		Logger: cfg.Logger, Unreachable: verifier.Disprove, Answered: receivers.Answered, StoodStill: standStill.Lost,
	}
	verdicts := rpc.NewVerdicts(availability, cfg.Logger, metrics)
	return &work{
		bus: overBus, verifier: verifier, standStill: standStill, stopping: stopping,
		operations:   &rpc.Operations{Registry: registry, Verdicts: verdicts, Executor: executor, Stopping: stopping},
		agents:       &rpc.Agents{Registry: registry, Verifier: verifier, Policy: policy, Logger: cfg.Logger},
		servers:      &rpc.Servers{Registry: registry, Availability: availability, Verdicts: verdicts, Logger: cfg.Logger},
		availability: &rpc.Availability{Service: availability, Registry: registry, Logger: cfg.Logger, Stopping: stopping},
		cloud:        &rpc.Cloud{Registry: registry, Logger: cfg.Logger},
	}, nil
}

// stop ends what would go on as long as its caller wants, when the context ends: beside the faces, so that they can drain.
func (w *work) stop(ctx context.Context) error {
	<-ctx.Done()
	close(w.stopping)
	return nil
}

// options are those of a face: gRPC on its listener, and what is behind REST.
func (w *work) options(cfg Config, tokens *authn.Tokens, metrics prometheus.Registerer, face string) grpcserver.Options {
	budget := max(cfg.Budgets.Read, cfg.Budgets.Write)
	return grpcserver.Options{
		Tokens: tokens, Policy: rpc.Policy(), Logger: cfg.Logger.With("face", face), Deadlines: rpc.Deadlines(budget),
		Metrics:    prometheus.WrapRegistererWith(prometheus.Labels{"face": face}, metrics),
		Reflection: cfg.Reflection, DrainGrace: budget + drainMargin,
	}
}

func (w *work) register(face grpc.ServiceRegistrar) {
	operatorv1.RegisterAgentOperationsServer(face, w.operations)
	operatorv1.RegisterAgentConfigServer(face, w.agents)
	operatorv1.RegisterServerConfigServer(face, w.servers)
	operatorv1.RegisterAvailabilityConfigServer(face, w.availability)
	operatorv1.RegisterCloudConfigServer(face, w.cloud)
}

func serve(ctx context.Context, cfg Config, base base, work *work) error {
	front, err := newFront(cfg)
	if err != nil {
		return err
	}
	defer front.listener.Close()
	behind, err := grpcserver.NewInProcess(work.options(cfg, base.tokens, base.metrics, "rest"))
	if err != nil {
		return fmt.Errorf("rest: %w", err)
	}
	work.register(behind)
	front.server.Handler, err = rest.NewHandler(ctx, rest.Options{Conn: behind, Logger: cfg.Logger, Metrics: base.metrics, LoopbackOnly: !base.tokens.Required()})
	if err != nil {
		return err
	}
	server, err := newServer(cfg, base, work)
	if err != nil {
		return err
	}
	defer server.Close()
	registry, availability := base.upstreams.watched(cfg.Logger)
	health := &health{server: server, registry: registry, availability: availability, bus: work.bus, logger: cfg.Logger}
	cfg.warnOfPlaintext()
	health.tell()
	base.readiness.Serve(health.checks()...)
	if cfg.Ready != nil {
		cfg.Ready(Endpoints{REST: front.addr(), GRPC: server.Addr(), Admin: base.admin})
	}
	cfg.Logger.Info("serving", "rest", front.addr(), "grpc", server.Addr(), "admin", base.admin)
	defer context.AfterFunc(ctx, health.drain)()
	// The last to start is the first to stop: new requests end before what serves them. Both faces drain at once.
	return lifecycle.Run(ctx, cfg.Logger, cfg.drainGrace(),
		lifecycle.Part{Name: "tokens", Run: base.tokens.Run},
		lifecycle.Part{Name: "replies", Run: work.bus.Hold},
		lifecycle.Part{Name: "proof", Run: work.bus.Prove},
		lifecycle.Part{Run: work.bus.check},
		lifecycle.Part{Name: "verification", Run: work.verifier.Repeat},
		lifecycle.Part{Name: "stand-still", Run: work.standStill.Run},
		lifecycle.Part{Name: "health", Run: health.run},
		lifecycle.Part{Name: "grpc behind rest", Run: behind.Run},
		lifecycle.Part{Name: "rest and grpc", Run: together(front.run, server.Run, work.stop)},
	)
}

// drainGrace is how long a part may take to stop: the longest command, and a margin.
func (c Config) drainGrace() time.Duration {
	return max(c.Budgets.Read, c.Budgets.Write) + 2*drainMargin
}

func newServer(cfg Config, base base, work *work) (*grpcserver.Server, error) {
	options := work.options(cfg, base.tokens, base.metrics, "grpc")
	options.Config = cfg.listener(cfg.GRPC)
	server, err := grpcserver.New(options)
	if err != nil {
		return nil, fmt.Errorf("grpc: %w", err)
	}
	work.register(server.GRPC())
	return server, nil
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
