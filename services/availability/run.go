package availability

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/availability/internal/probe"
	"github.com/commandcenter/fleet/services/availability/internal/rpc"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/sweep"
	"github.com/commandcenter/fleet/services/internal/agenthttp"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/dbclock"
	"github.com/commandcenter/fleet/services/internal/grpcclient"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/lifecycle"
	"github.com/commandcenter/fleet/services/internal/telemetry"
)

// stopGrace is how long a part may take to stop.
const stopGrace = 20 * time.Second

// Migrate brings the database's schema up to what this binary needs.
func Migrate(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	opened, err := cfg.Database.open()
	if err != nil {
		return err
	}
	defer opened.Close()
	before, after, err := opened.Migrate(ctx)
	if err != nil {
		return fmt.Errorf("%s: migrate: %w", cfg.Database.key(), err)
	}
	cfg.Logger.Info("schema migrated", "before", before, "after", after)
	return cfg.check(ctx, opened)
}

// check refuses a database that does not fit, or that the mode needs more rights in.
func (c Config) check(ctx context.Context, opened *store.Store) error {
	if err := opened.Check(ctx, c.Mode == ModeOwn); err != nil {
		return fmt.Errorf("%s: %w", c.Database.key(), err)
	}
	return nil
}

// Run serves, and competes for the job, until the context ends. It refuses a database whose schema, legacy tables or rights do not
// fit.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	opened, err := cfg.Database.open()
	if err != nil {
		return err
	}
	defer opened.Close()
	if cfg.Database.Migrate {
		if _, _, err := opened.Migrate(ctx); err != nil {
			return fmt.Errorf("%s: database.migrate: %w", cfg.Database.key(), err)
		}
	}
	if err := cfg.check(ctx, opened); err != nil {
		return err
	}
	conn, err := grpcclient.Dial(cfg.Registry)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	defer conn.Close()
	metrics := telemetry.NewMetrics()
	prober, err := cfg.prober(metrics)
	if err != nil {
		return err
	}
	defer prober.Client.CloseIdleConnections()
	defer prober.Anonymous.CloseIdleConnections()
	job := &sweep.Job{
		Store: opened, Registry: registryv1.NewAgentRegistryClient(conn), Prober: prober, Limits: cfg.limits(), LeaseDuration: cfg.LeaseDuration,
		Own: cfg.Mode == ModeOwn, Holder: strings.TrimPrefix(cfg.Replica+"/"+uuid.NewString()[:8], "/"), // a restarted process is another holder
		Metrics: sweep.NewMetrics(metrics), Logger: cfg.Logger,
	}
	return serve(ctx, cfg, opened, job, metrics)
}

// prober pings agents as the gateway does.
func (c Config) prober(metrics prometheus.Registerer) (*probe.Prober, error) {
	settings := c.HTTP
	settings.ConnectTimeout = min(settings.ConnectTimeout, c.Probes.Timeout) // net/http dials on after a ping timed out
	client, err := agenthttp.NewClient(settings)
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	anonymous, err := agenthttp.NewClient(settings.Anonymous())
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	token, err := settings.ReadToken()
	if err != nil {
		return nil, err
	}
	return &probe.Prober{
		Client: client, Anonymous: anonymous, Token: token, Timeout: c.Probes.Timeout, Parallel: c.Probes.Parallel, Metrics: probe.NewMetrics(metrics),
	}, nil
}

func serve(ctx context.Context, cfg Config, opened *store.Store, job *sweep.Job, metrics *prometheus.Registry) error {
	tokens, err := authn.ForFile("grpc.tokenFile", cfg.GRPC.TokenFile, cfg.Logger)
	if err != nil {
		return err
	}
	server, err := grpcserver.New(grpcserver.Options{
		Config: cfg.GRPC, Tokens: tokens, Policy: rpc.Policy(), Logger: cfg.Logger, Metrics: metrics, Reflection: cfg.Reflection,
		Deadlines: rpc.Deadlines(),
	})
	if err != nil {
		return err
	}
	showMode(metrics, cfg.Mode)
	service := rpc.New(opened, modes[cfg.Mode], cfg.Logger, metrics)
	availabilityv1.RegisterAvailabilityServer(server.GRPC(), service)
	health := &health{store: opened, server: server, logger: cfg.Logger}
	health.look(ctx)
	admin, err := telemetry.NewAdmin(cfg.Admin, metrics, health.ready)
	if err != nil {
		return err
	}
	if cfg.Ready != nil {
		cfg.Ready(Endpoints{GRPC: server.Addr(), Admin: admin.Addr()})
	}
	cfg.Logger.Info("serving", "grpc", server.Addr(), "admin", admin.Addr(), "mode", cfg.Mode, "holder", job.Holder)
	parts := []lifecycle.Part{
		{Name: "admin", Run: admin.Run},
		{Name: "tokens", Run: tokens.Run},
		{Name: "health", Run: health.run},
		{Name: "clock", Run: dbclock.NewWatch(func(ctx context.Context) (time.Duration, error) { return opened.LookAtClock(ctx, cfg.LeaseDuration) }, metrics, cfg.Logger).Run},
		{Name: "grpc", Run: server.Run},
		{Name: "watches", Run: service.Run}, // it stops first: the gRPC server waits for them
	}
	if cfg.Mode != ModeOff {
		parts = append(parts, lifecycle.Part{Name: "job", Run: job.Run})
	}
	return lifecycle.Run(ctx, cfg.Logger, stopGrace, parts...)
}

var modes = map[string]availabilityv1.Mode{
	ModeOff: availabilityv1.Mode_MODE_OFF, ModeObserve: availabilityv1.Mode_MODE_OBSERVE, ModeOwn: availabilityv1.Mode_MODE_OWN,
}

func showMode(metrics prometheus.Registerer, mode string) {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "commandcenter_availability_mode", Help: "1, with this replica's mode: off, observe or own.", ConstLabels: prometheus.Labels{"mode": mode},
	})
	gauge.Set(1)
	metrics.MustRegister(gauge)
}
