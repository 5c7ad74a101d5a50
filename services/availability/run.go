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
	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/internal/telemetry"
)

const (
	// stopGrace is how long the service may take to stop. The parts of it, one by one, take less.
	stopGrace = 9 * time.Second
	// drainGrace is how long calls under way may go on at the stop, and leaveGrace how long the job may take to give its lease back.
	drainGrace, leaveGrace = 3 * time.Second, 2 * time.Second
	// partGrace is how long any other part may take to stop. What it does then is a read, or a transaction that is whole or not at all.
	partGrace = time.Second
)

// Migrate brings the database's schema up to what this binary needs. It waits for a database that does not answer until the context ends.
func Migrate(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	db, err := cfg.Database.Open(store.Statements())
	if err != nil {
		return err
	}
	opened := store.New(db)
	defer opened.Close()
	err = sqldb.AwaitMigration(ctx, cfg.Logger, func(ctx context.Context) error {
		before, after, err := opened.Migrate(ctx)
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		cfg.Logger.Info("schema migrated", "before", before, "after", after)
		return opened.Check(ctx, cfg.Mode == ModeOwn)
	})
	return cfg.Database.Named(err)
}

// Run serves, and competes for the job, until the context ends. It waits for a database that does not answer, and refuses one whose
// schema, legacy tables or rights do not fit. The admin listener is there all the while.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	db, err := cfg.Database.Open(store.Statements())
	if err != nil {
		return err
	}
	opened := store.New(db)
	defer opened.Close()
	metrics := telemetry.NewMetrics()
	readiness := telemetry.NewReadiness("availability", metrics)
	admin, err := telemetry.NewAdmin(cfg.Admin, metrics, readiness)
	if err != nil {
		return err
	}
	cfg.Logger.Info("starting", "admin", admin.Addr())
	run := func(ctx context.Context) error {
		err := sqldb.Await(ctx, cfg.Logger, readiness.Waiting, func(ctx context.Context) error { return cfg.prepare(ctx, opened) })
		if err != nil {
			return cfg.Database.Named(err)
		}
		return cfg.run(ctx, base{db: db, store: opened, metrics: metrics, readiness: readiness, admin: admin.Addr()})
	}
	return lifecycle.Run(ctx, cfg.Logger, stopGrace, lifecycle.Part{Name: "admin", Run: admin.Run}, lifecycle.Part{Run: run})
}

// prepare makes sure that the database fits. The mode own needs more rights in it.
func (c Config) prepare(ctx context.Context, opened *store.Store) error {
	if c.Database.Migrate {
		if _, _, err := opened.Migrate(ctx); err != nil {
			return fmt.Errorf("database.migrate: %w", err)
		}
	}
	return opened.Check(ctx, c.Mode == ModeOwn)
}

// base is what there is before the service serves.
type base struct {
	db        *sqldb.DB
	store     *store.Store
	metrics   *prometheus.Registry
	readiness *telemetry.Readiness
	admin     string
}

// run serves with a database that fits.
func (c Config) run(ctx context.Context, base base) error {
	conn, err := grpcclient.Dial(c.Registry)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	defer conn.Close()
	prober, err := c.prober(base.metrics)
	if err != nil {
		return err
	}
	defer prober.Client.CloseIdleConnections()
	defer prober.Anonymous.CloseIdleConnections()
	job := &sweep.Job{
		Store: base.store, Registry: registryv1.NewAgentRegistryClient(conn), Prober: prober, Limits: c.limits(), LeaseDuration: c.LeaseDuration,
		Own: c.Mode == ModeOwn, Holder: strings.TrimPrefix(c.Replica+"/"+uuid.NewString()[:8], "/"), // a restarted process is another holder
		Metrics: sweep.NewMetrics(base.metrics), Logger: c.Logger,
	}
	return c.serve(ctx, base, job)
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

func (c Config) serve(ctx context.Context, base base, job *sweep.Job) error {
	tokens, err := authn.ForFile("grpc.tokenFile", c.GRPC.TokenFile, c.Logger)
	if err != nil {
		return err
	}
	server, err := grpcserver.New(grpcserver.Options{
		Config: c.GRPC, Tokens: tokens, Policy: rpc.Policy(), Logger: c.Logger, Metrics: base.metrics, Reflection: c.Reflection,
		Deadlines: rpc.Deadlines(), DrainGrace: drainGrace,
	})
	if err != nil {
		return err
	}
	defer server.Close()
	health := sqldb.NewHealth(base.db, sqldb.HealthOptions{Logger: c.Logger, Serving: serving(server)})
	showMode(base.metrics, c.Mode)
	service := rpc.New(base.store, modes[c.Mode], health.Writes, c.Logger, base.metrics)
	availabilityv1.RegisterAvailabilityServer(server.GRPC(), service)
	health.Look(ctx)
	base.readiness.Serve(health.Checks()...)
	if c.Ready != nil {
		c.Ready(Endpoints{GRPC: server.Addr(), Admin: base.admin})
	}
	c.Logger.Info("serving", "grpc", server.Addr(), "admin", base.admin, "mode", c.Mode, "holder", job.Holder)
	parts := []lifecycle.Part{
		{Name: "tokens", Run: tokens.Run},
		{Name: "health", Run: health.Run},
		{Name: "clock", Run: dbclock.NewWatch(func(ctx context.Context) (time.Duration, error) { return base.store.LookAtClock(ctx, c.LeaseDuration) }, base.metrics, c.Logger).Run},
		{Name: "grpc", Run: server.Run, Grace: drainGrace + partGrace},
		{Name: "watches", Run: service.Run}, // it stops first: the gRPC server waits for them
	}
	if c.Mode != ModeOff {
		parts = append(parts, lifecycle.Part{Name: "job", Run: job.Run, Grace: leaveGrace})
	}
	return lifecycle.Run(ctx, c.Logger, partGrace, parts...)
}

// serving answers health checks by whether the database can be read. A path that is frozen or braked, or a registry that does not
// answer, is no reason to stop serving what is known.
func serving(server *grpcserver.Server) func(bool) {
	return func(reads bool) {
		for _, service := range []string{"", availabilityv1.Availability_ServiceDesc.ServiceName} {
			server.SetServing(service, reads)
		}
	}
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
