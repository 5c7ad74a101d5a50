// Package registry owns TblAgent, the catalog of servers, and the cloud of control servers, and answers for them over gRPC. Its public face
// is Config, Run and Migrate.
package registry

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/dbclock"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/lifecycle"
	"github.com/commandcenter/fleet/services/internal/loopback"
	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/internal/telemetry"
	"github.com/commandcenter/fleet/services/registry/internal/partition"
	"github.com/commandcenter/fleet/services/registry/internal/rpc"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// Config is all that can be set.
type Config struct {
	GRPC     grpcserver.ListenConfig `config:"grpc"`
	Admin    telemetry.AdminConfig   `config:"admin"`
	Log      telemetry.LogConfig     `config:"log"`
	Database DatabaseConfig          `config:"database"`
	Cloud    CloudConfig             `config:"cloud"`
	Returns  ReturnsConfig           `config:"returns"`
	// Reflection lists the services to whoever asks.
	Reflection bool `config:"reflection"`

	Logger *slog.Logger    `config:"-"`
	Ready  func(Endpoints) `config:"-"` // called once when serving, with the bound addresses
}

// DatabaseConfig says where the data is.
type DatabaseConfig struct {
	sqldb.Config
	// ServerDefaults are values for required columns of TblServer that we don't know, by column name.
	ServerDefaults map[string]string `config:"serverDefaults"`
}

// Endpoints are the bound addresses.
type Endpoints struct{ GRPC, Admin string }

// DefaultConfig listens on loopback; only the database must be set.
func DefaultConfig() Config {
	return Config{
		GRPC:    grpcserver.ListenConfig{Listen: "127.0.0.1:7410"},
		Admin:   telemetry.AdminConfig{Listen: "127.0.0.1:7411"},
		Log:     telemetry.DefaultLogConfig(),
		Cloud:   defaultCloudConfig(),
		Returns: defaultReturnsConfig(),
	}
}

// Validate names every key that is wrong.
func (c Config) Validate() error {
	var problems config.Problems
	problems.AddError(c.GRPC.Validate("grpc"))
	problems.AddError(authn.CheckFile("grpc.tokenFile", c.GRPC.TokenFile, rpc.Policy()))
	problems.AddError(c.Admin.Validate("admin"))
	problems.AddError(loopback.Distinct(map[string]string{"grpc.listen": c.GRPC.Listen, "admin.listen": c.Admin.Listen}))
	c.Cloud.validate(&problems)
	c.Returns.validate(&problems)
	problems.AddError(c.Database.Validate(store.Migrations().Command))
	return problems.Err()
}

func (c DatabaseConfig) open() (*store.Store, *sqldb.DB, error) {
	db, err := c.Open(store.Statements())
	if err != nil {
		return nil, nil, err
	}
	return store.New(db, c.ServerDefaults), db, nil
}

// Migrate brings the database's schema up to what this binary needs. It waits for a database that does not answer until the context ends.
func Migrate(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	opened, _, err := cfg.Database.open()
	if err != nil {
		return err
	}
	defer opened.Close()
	err = sqldb.AwaitMigration(ctx, cfg.Logger, func(ctx context.Context) error {
		before, after, err := opened.Migrate(ctx)
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		cfg.Logger.Info("schema migrated", "before", before, "after", after)
		return opened.Check(ctx)
	})
	return cfg.Database.Named(err)
}

const (
	// stopGrace is how long the service may take to stop. The parts of it, one by one, take less.
	stopGrace = 9 * time.Second
	// drainGrace is how long calls under way may go on at the stop.
	drainGrace = 4 * time.Second
	// partGrace is how long any other part may take to stop. What it does then is a read, or a transaction that is whole or not at all.
	partGrace = time.Second
)

// Run serves until the context ends. It waits for a database that does not answer, and refuses one whose schema or legacy tables do not
// fit. The admin listener is there all the while.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	opened, db, err := cfg.Database.open()
	if err != nil {
		return err
	}
	defer opened.Close()
	metrics := telemetry.NewMetrics()
	readiness := telemetry.NewReadiness("registry", metrics)
	admin, err := telemetry.NewAdmin(cfg.Admin, metrics, readiness)
	if err != nil {
		return err
	}
	cfg.Logger.Info("starting", "admin", admin.Addr())
	serve := func(ctx context.Context) error {
		err := sqldb.Await(ctx, cfg.Logger, readiness.Waiting, func(ctx context.Context) error { return cfg.prepare(ctx, opened) })
		if err != nil {
			return cfg.Database.Named(err)
		}
		return cfg.serve(ctx, opened, db, metrics, readiness, admin.Addr())
	}
	return lifecycle.Run(ctx, cfg.Logger, stopGrace, lifecycle.Part{Name: "admin", Run: admin.Run}, lifecycle.Part{Run: serve})
}

// prepare makes sure that the database fits.
func (c Config) prepare(ctx context.Context, opened *store.Store) error {
	if c.Database.Migrate {
		if _, _, err := opened.Migrate(ctx); err != nil {
			return fmt.Errorf("database.migrate: %w", err)
		}
	}
	return opened.Check(ctx)
}

// serve serves with a database that fits.
func (c Config) serve(ctx context.Context, opened *store.Store, db *sqldb.DB, metrics *prometheus.Registry, readiness *telemetry.Readiness, admin string) error {
	tokens, err := authn.ForFile("grpc.tokenFile", c.GRPC.TokenFile, c.Logger)
	if err != nil {
		return err
	}
	own := rpc.NewMetrics(metrics)
	server, err := grpcserver.New(grpcserver.Options{
		Config: c.GRPC, Tokens: tokens, Policy: rpc.Policy(), Logger: c.Logger, Metrics: metrics, Reflection: c.Reflection,
		Quiet: rpc.Quiet(), DrainGrace: drainGrace,
	})
	if err != nil {
		return err
	}
	defer server.Close()
	health := sqldb.NewHealth(db, sqldb.HealthOptions{Logger: c.Logger, Serving: serving(server)})
	control := opened.Cloud(c.Cloud.limits())
	partitions := partition.New(control, c.Cloud.Debounce, c.Returns.returns(), partition.NewMetrics(metrics), c.Logger)
	partitions.Look(ctx, time.Now())
	registryv1.RegisterAgentRegistryServer(server.GRPC(), &rpc.Agents{Store: opened, Metrics: own, Lists: partitions, Returns: partitions.Returns})
	registryv1.RegisterServerCatalogServer(server.GRPC(), &rpc.Servers{Store: opened})
	registryv1.RegisterControlCloudServer(server.GRPC(), &rpc.Cloud{Store: control, Lists: partitions})
	health.Look(ctx)
	counts := newCounts(opened, own, c.Logger)
	counts.look(ctx)
	readiness.Serve(health.Checks()...)
	if c.Ready != nil {
		c.Ready(Endpoints{GRPC: server.Addr(), Admin: admin})
	}
	c.Logger.Info("serving", "grpc", server.Addr(), "admin", admin)
	return lifecycle.Run(ctx, c.Logger, partGrace,
		lifecycle.Part{Name: "tokens", Run: tokens.Run},
		lifecycle.Part{Name: "health", Run: health.Run},
		lifecycle.Part{Name: "counts", Run: counts.run},
		lifecycle.Part{Name: "clock", Run: dbclock.NewWatch(opened.LookAtClock, metrics, c.Logger).Run},
		lifecycle.Part{Name: "partition", Run: partitions.Run},
		lifecycle.Part{Name: "grpc", Run: server.Run, Grace: drainGrace + partGrace},
	)
}
