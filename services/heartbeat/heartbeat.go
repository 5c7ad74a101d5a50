// Package heartbeat hears agents: it consumes the shared subscription of the state topic and turns heartbeats into calls to
// the registry. It stores nothing. Its public face is Config and Run.
package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/heartbeat/internal/ingest"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/grpcclient"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/lifecycle"
	"github.com/commandcenter/fleet/services/internal/servicebus"
	"github.com/commandcenter/fleet/services/internal/telemetry"
)

// HealthService is the name under which health checks ask for the ingest.
const HealthService = "commandcenter.heartbeat"

// Config is all that can be set.
type Config struct {
	GRPC     grpcserver.ListenConfig `config:"grpc"`
	Admin    telemetry.AdminConfig   `config:"admin"`
	Log      telemetry.LogConfig     `config:"log"`
	Registry grpcclient.Config       `config:"registry"`
	Bus      servicebus.Config       `config:"bus"`
	Ingest   IngestConfig            `config:"ingest"`

	Logger *slog.Logger    `config:"-"`
	Ready  func(Endpoints) `config:"-"` // called once when serving, with the bound addresses
}

// IngestConfig sizes the ingest.
type IngestConfig struct {
	// Batch is how many heartbeats are taken at once, 1 to 1,000.
	Batch int `config:"batch"`
	// Receivers is how many batches are under way side by side, 1 to 16.
	Receivers int `config:"receivers"`
}

// Endpoints are the bound addresses.
type Endpoints struct{ GRPC, Admin string }

// DefaultConfig listens on loopback and calls a registry there; only the bus must be set.
func DefaultConfig() Config {
	return Config{
		GRPC:     grpcserver.ListenConfig{Listen: "127.0.0.1:7420"},
		Admin:    telemetry.AdminConfig{Listen: "127.0.0.1:7421"},
		Log:      telemetry.DefaultLogConfig(),
		Registry: grpcclient.Config{Target: "127.0.0.1:7410"},
		Bus:      servicebus.DefaultConfig(),
		Ingest:   IngestConfig{Batch: 500, Receivers: 2},
	}
}

// Validate names every key that is wrong.
func (c Config) Validate() error {
	var problems config.Problems
	problems.AddError(c.GRPC.Validate("grpc"))
	problems.AddError(c.Admin.Validate("admin"))
	problems.AddError(c.Registry.Validate("registry"))
	problems.AddError(c.Bus.Validate("bus"))
	if c.Ingest.Batch < 1 || c.Ingest.Batch > 1000 {
		problems.Add("ingest.batch", "must be 1 to 1000, is %d", c.Ingest.Batch)
	}
	if c.Ingest.Receivers < 1 || c.Ingest.Receivers > 16 {
		problems.Add("ingest.receivers", "must be 1 to 16, is %d", c.Ingest.Receivers)
	}
	return problems.Err()
}

// stopGrace is how long a part may take to stop: a batch under way is recorded and settled first.
const stopGrace = 25 * time.Second

// Run consumes until the context ends.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	conn, err := grpcclient.Dial(cfg.Registry)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	defer conn.Close()
	bus, err := servicebus.Dial(cfg.Bus, servicebus.DialOptions{})
	if err != nil {
		return err
	}
	defer closeBus(bus, cfg.Logger)
	if err := checkBus(ctx, bus, cfg); err != nil {
		return err
	}
	metrics := telemetry.NewMetrics()
	tokens := authn.Local()
	if cfg.GRPC.TokenFile != "" {
		if tokens, err = authn.Open(cfg.GRPC.TokenFile, cfg.Logger); err != nil {
			return fmt.Errorf("grpc.tokenFile: %w", err)
		}
	}
	server, err := grpcserver.New(grpcserver.Options{Config: cfg.GRPC, Tokens: tokens, Policy: authn.Policy{}, Logger: cfg.Logger, Metrics: metrics})
	if err != nil {
		return err
	}
	health := &health{server: server, evidence: ingest.NewEvidence()}
	admin, err := telemetry.NewAdmin(cfg.Admin, metrics, health.ready)
	if err != nil {
		return err
	}
	parts, err := ingestParts(cfg, bus, registry{registryv1.NewAgentRegistryClient(conn)}, health, ingest.NewMetrics(metrics))
	if err != nil {
		return err
	}
	if cfg.Ready != nil {
		cfg.Ready(Endpoints{GRPC: server.Addr(), Admin: admin.Addr()})
	}
	cfg.Logger.Info("consuming", "topic", cfg.Bus.Topics.State, "subscription", cfg.Bus.Subscriptions.State, "consumer", health.evidence.Consumer)
	return lifecycle.Run(ctx, cfg.Logger, stopGrace, append([]lifecycle.Part{
		{Name: "admin", Run: admin.Run},
		{Name: "tokens", Run: tokens.Run},
		{Name: "grpc", Run: server.Run},
	}, parts...)...)
}

// ingestParts are the loops that share the work, and the prover that shows they hear.
func ingestParts(cfg Config, bus *servicebus.Client, registry registry, health *health, metrics *ingest.Metrics) ([]lifecycle.Part, error) {
	sender, err := bus.NewSender(cfg.Bus.Topics.State)
	if err != nil {
		return nil, err
	}
	prover := &ingest.Prover{
		Evidence: health.evidence, Sender: sender, Backlog: bus.NewConsumer(cfg.Bus.Topics.State, cfg.Bus.Subscriptions.State, cfg.Logger),
		Reporter: registry, Metrics: metrics, Logger: cfg.Logger, Reported: health.reported,
	}
	parts := []lifecycle.Part{{Name: "prover", Run: prover.Run}}
	for i := range cfg.Ingest.Receivers {
		loop := &ingest.Loop{
			Source:   bus.NewConsumer(cfg.Bus.Topics.State, cfg.Bus.Subscriptions.State, cfg.Logger),
			Registry: registry, Evidence: health.evidence, Metrics: metrics, Logger: cfg.Logger, Most: cfg.Ingest.Batch,
		}
		parts = append(parts, lifecycle.Part{Name: fmt.Sprintf("ingest %d", i+1), Run: loop.Run})
	}
	return parts, nil
}

// checkBus opens the links once. A missing right or entity ends the start and is named; a bus that can't be reached is waited for.
func checkBus(ctx context.Context, bus *servicebus.Client, cfg Config) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	err := errors.Join(bus.CheckListen(ctx, cfg.Bus.Topics.State, cfg.Bus.Subscriptions.State), bus.CheckSend(ctx, cfg.Bus.Topics.State))
	var access *servicebus.AccessError
	if errors.As(err, &access) {
		return err
	}
	if err != nil {
		cfg.Logger.Warn("the bus cannot be reached yet; it is tried again", "error", err)
	}
	return nil
}

func closeBus(bus *servicebus.Client, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := bus.Close(ctx); err != nil {
		logger.Debug("the bus connection did not close cleanly", "error", err)
	}
}

// registry narrows the generated client to what the ingest calls.
type registry struct{ client registryv1.AgentRegistryClient }

func (r registry) RecordHeartbeats(ctx context.Context, request *registryv1.RecordHeartbeatsRequest) (*registryv1.RecordHeartbeatsResponse, error) {
	return r.client.RecordHeartbeats(ctx, request, grpc.WaitForReady(false))
}

func (r registry) ReportIngestEvidence(ctx context.Context, request *registryv1.ReportIngestEvidenceRequest) (*registryv1.ReportIngestEvidenceResponse, error) {
	return r.client.ReportIngestEvidence(ctx, request)
}

// health answers checks: serving while the registry answers and canaries come back.
type health struct {
	server   *grpcserver.Server
	evidence *ingest.Evidence
	registry atomic.Pointer[error]
}

func (h *health) reported(err error) {
	h.registry.Store(&err)
	serving := h.ready() == nil
	h.server.SetServing("", serving)
	h.server.SetServing(HealthService, serving)
}

func (h *health) ready() error {
	answered := h.registry.Load()
	switch {
	case answered == nil:
		return errors.New("nothing was reported to the registry yet")
	case *answered != nil:
		return fmt.Errorf("the registry does not answer: %w", *answered)
	}
	return h.evidence.Listening()
}
