// Package registry owns TblAgent, the catalog of servers, and the cloud of control servers, and answers for them over gRPC. Its public face
// is Config, Run and Migrate.
package registry

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/dbclock"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/lifecycle"
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

// DatabaseConfig says where the data is. Exactly one of URL and URLFile is set.
type DatabaseConfig struct {
	// URL is sqlite:<path>, or sqlserver://… where it holds no secret.
	URL config.Secret `config:"url"`
	// URLFile holds the URL.
	URLFile string `config:"urlFile"`
	// Migrate brings the schema up at the start; only for SQLite, which one process uses.
	Migrate bool `config:"migrate"`
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
	_, err := authn.ForFile("grpc.tokenFile", c.GRPC.TokenFile, slog.New(slog.DiscardHandler))
	problems.AddError(err)
	problems.AddError(c.Admin.Validate("admin"))
	c.Cloud.validate(&problems)
	c.Returns.validate(&problems)
	url, err := c.Database.url()
	problems.AddError(err)
	if err == nil {
		if err := sqldb.CheckURL(url.Reveal()); err != nil {
			problems.Add(c.Database.key(), "%v", err)
		} else if c.Database.Migrate && len(url) > 6 && url.Reveal()[:7] != "sqlite:" {
			problems.Add("database.migrate", "is for SQLite only, since several replicas share a SQL Server: run `registry migrate` before a rollout")
		}
	}
	return problems.Err()
}

func (c DatabaseConfig) url() (config.Secret, error) {
	switch {
	case (c.URL == "") == (c.URLFile == ""):
		return "", fmt.Errorf("database: exactly one of url and urlFile must be set")
	case c.URLFile != "":
		return config.ReadSecretFile("database.urlFile", c.URLFile)
	}
	return c.URL, nil
}

// key names the setting that says which database it is.
func (c DatabaseConfig) key() string {
	if c.URLFile != "" {
		return "database.urlFile"
	}
	return "database.url"
}

func (c DatabaseConfig) open() (*store.Store, error) {
	url, err := c.url()
	if err != nil {
		return nil, err
	}
	opened, err := store.Open(url.Reveal(), c.ServerDefaults)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.key(), err)
	}
	return opened, nil
}

func (c DatabaseConfig) check(ctx context.Context, opened *store.Store) error {
	if err := opened.Check(ctx); err != nil {
		return fmt.Errorf("%s: %w", c.key(), err)
	}
	return nil
}

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
	return cfg.Database.check(ctx, opened)
}

// countInterval is how often agents are counted for the metrics.
const countInterval = 15 * time.Second

// Run serves until the context ends. It refuses a database whose schema or legacy tables do not fit.
func Run(ctx context.Context, cfg Config) error {
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
	if err := cfg.Database.check(ctx, opened); err != nil {
		return err
	}
	tokens, err := authn.ForFile("grpc.tokenFile", cfg.GRPC.TokenFile, cfg.Logger)
	if err != nil {
		return err
	}
	metrics := telemetry.NewMetrics()
	own := rpc.NewMetrics(metrics)
	server, err := grpcserver.New(grpcserver.Options{
		Config: cfg.GRPC, Tokens: tokens, Policy: rpc.Policy(), Logger: cfg.Logger, Metrics: metrics, Reflection: cfg.Reflection,
		Quiet: rpc.Quiet(),
	})
	if err != nil {
		return err
	}
	control := opened.Cloud(cfg.Cloud.limits())
	partitions := partition.New(control, cfg.Cloud.Debounce, cfg.Returns.returns(), partition.NewMetrics(metrics), cfg.Logger)
	partitions.Look(ctx, time.Now())
	registryv1.RegisterAgentRegistryServer(server.GRPC(), &rpc.Agents{Store: opened, Metrics: own, Lists: partitions, Returns: partitions.Returns})
	registryv1.RegisterServerCatalogServer(server.GRPC(), &rpc.Servers{Store: opened})
	registryv1.RegisterControlCloudServer(server.GRPC(), &rpc.Cloud{Store: control, Lists: partitions})
	watch := &watch{store: opened, server: server, metrics: own, logger: cfg.Logger}
	watch.look(ctx)
	admin, err := telemetry.NewAdmin(cfg.Admin, metrics, watch.ready)
	if err != nil {
		return err
	}
	if cfg.Ready != nil {
		cfg.Ready(Endpoints{GRPC: server.Addr(), Admin: admin.Addr()})
	}
	cfg.Logger.Info("serving", "grpc", server.Addr(), "admin", admin.Addr())
	return lifecycle.Run(ctx, cfg.Logger, 20*time.Second,
		lifecycle.Part{Name: "admin", Run: admin.Run},
		lifecycle.Part{Name: "tokens", Run: tokens.Run},
		lifecycle.Part{Name: "watch", Run: watch.run},
		lifecycle.Part{Name: "clock", Run: dbclock.NewWatch(opened.LookAtClock, metrics, cfg.Logger).Run},
		lifecycle.Part{Name: "partition", Run: partitions.Run},
		lifecycle.Part{Name: "grpc", Run: server.Run},
	)
}
