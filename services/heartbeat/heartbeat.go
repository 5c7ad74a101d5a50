// Package heartbeat hears agents: it consumes the shared subscription of the state topic, is a control server that agents call
// directly, and turns heartbeats into calls to the registry. It stores nothing. Its public face is Config and Run.
package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/heartbeat/internal/ingest"
	"github.com/commandcenter/fleet/services/heartbeat/internal/skew"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/grpcclient"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/lifecycle"
	"github.com/commandcenter/fleet/services/internal/loopback"
	"github.com/commandcenter/fleet/services/internal/servicebus"
	"github.com/commandcenter/fleet/services/internal/telemetry"
)

// HealthService is the name under which health checks ask for the ingest from the bus. It serves while canaries come back and the registry
// answers; it is not readiness.
const HealthService = "commandcenter.heartbeat"

// Config is all that can be set.
type Config struct {
	GRPC     grpcserver.ListenConfig `config:"grpc"`
	Admin    telemetry.AdminConfig   `config:"admin"`
	Log      telemetry.LogConfig     `config:"log"`
	Registry grpcclient.Config       `config:"registry"`
	Bus      servicebus.Config       `config:"bus"`
	Ingest   IngestConfig            `config:"ingest"`
	// Ingress makes this replica a control server; off without a name.
	Ingress IngressConfig `config:"ingress"`

	Logger *slog.Logger    `config:"-"`
	Ready  func(Endpoints) `config:"-"` // called once when serving, with the bound addresses
}

// IngestConfig sizes the ingest.
type IngestConfig struct {
	// Batch is how many heartbeats are taken at once, 1 to 1,000.
	Batch int `config:"batch"`
	// Credit is how many heartbeats the broker may send ahead of being asked for more, 1 to 1,000. A batch is gathered from several
	// such lots. What was sent ahead to a replica that stands still waits until its locks lapse, though others are free.
	Credit int `config:"credit"`
	// Workers is how many batches are recorded and settled side by side, 1 to 16.
	Workers int `config:"workers"`
	// HoldTimeout is how long heartbeats stay locked while the registry does not take them, before they are released to other
	// replicas; 1 s to 5 min. The default is less than the age of the oldest message at which the ingest counts as behind.
	HoldTimeout time.Duration `config:"holdTimeout"`
}

// Endpoints are the bound addresses; those of the ingress are empty where it is off.
type Endpoints struct{ GRPC, Admin, IngressGRPC, IngressREST string }

// DefaultConfig listens on loopback and calls a registry there; only the bus must be set.
func DefaultConfig() Config {
	return Config{
		GRPC:     grpcserver.ListenConfig{Listen: "127.0.0.1:7420"},
		Admin:    telemetry.AdminConfig{Listen: "127.0.0.1:7421"},
		Log:      telemetry.DefaultLogConfig(),
		Registry: grpcclient.Config{Target: "127.0.0.1:7410"},
		Bus:      servicebus.DefaultConfig(),
		Ingest:   IngestConfig{Batch: 500, Credit: 128, Workers: 2, HoldTimeout: 15 * time.Second},
		Ingress:  defaultIngress(),
	}
}

// Validate names every key that is wrong.
func (c Config) Validate() error {
	var problems config.Problems
	problems.AddError(c.GRPC.Validate("grpc"))
	_, err := authn.ForFile("grpc.tokenFile", c.GRPC.TokenFile, slog.New(slog.DiscardHandler))
	problems.AddError(err)
	problems.AddError(c.Admin.Validate("admin"))
	problems.AddError(c.Registry.Validate("registry"))
	problems.AddError(c.Bus.Validate("bus"))
	if c.Ingest.Batch < 1 || c.Ingest.Batch > 1000 {
		problems.Add("ingest.batch", "must be 1 to 1000, is %d", c.Ingest.Batch)
	}
	if c.Ingest.Credit < 1 || c.Ingest.Credit > 1000 {
		problems.Add("ingest.credit", "must be 1 to 1000, is %d", c.Ingest.Credit)
	}
	if c.Ingest.Workers < 1 || c.Ingest.Workers > 16 {
		problems.Add("ingest.workers", "must be 1 to 16, is %d", c.Ingest.Workers)
	}
	if c.Ingest.HoldTimeout < time.Second || c.Ingest.HoldTimeout > 5*time.Minute {
		problems.Add("ingest.holdTimeout", "must be 1s to 5m, is %s", c.Ingest.HoldTimeout)
	}
	c.Ingress.validate(&problems)
	listens := map[string]string{"grpc.listen": c.GRPC.Listen, "admin.listen": c.Admin.Listen}
	if c.Ingress.enabled() {
		listens["ingress.grpc.listen"], listens["ingress.rest.listen"] = c.Ingress.GRPC.Listen, c.Ingress.REST.Listen
	}
	problems.AddError(loopback.Distinct(listens))
	return problems.Err()
}

// stopGrace is how long a part may take to stop: a batch under way is recorded and settled first, agents are told to go.
const stopGrace = 25 * time.Second

// wholeGrace is how long all parts may take to stop, one by one: see the comment on terminationGracePeriodSeconds in
// deploy/kubernetes/base/heartbeat.yaml.
const wholeGrace = 2 * time.Minute

// Run consumes until the context ends. The admin listener is there first, and neither bus nor registry is waited for.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	metrics := telemetry.NewMetrics()
	readiness := telemetry.NewReadiness("heartbeat", metrics)
	admin, err := telemetry.NewAdmin(cfg.Admin, metrics, readiness)
	if err != nil {
		return err
	}
	cfg.Logger.Info("starting", "admin", admin.Addr())
	run := func(ctx context.Context) error { return cfg.run(ctx, metrics, readiness, admin.Addr()) }
	return lifecycle.Run(ctx, cfg.Logger, stopGrace,
		lifecycle.Part{Name: "admin", Run: admin.Run}, lifecycle.Part{Run: run, Grace: wholeGrace})
}

// run consumes, beside the admin listener.
func (c Config) run(ctx context.Context, metrics *prometheus.Registry, readiness *telemetry.Readiness, admin string) error {
	conn, err := grpcclient.Dial(c.Registry)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	defer conn.Close()
	bus, err := servicebus.Dial(c.Bus, servicebus.DialOptions{})
	if err != nil {
		return err
	}
	defer closeBus(bus, c.Logger)
	tokens, err := authn.ForFile("grpc.tokenFile", c.GRPC.TokenFile, c.Logger)
	if err != nil {
		return err
	}
	server, err := grpcserver.New(grpcserver.Options{Config: c.GRPC, Tokens: tokens, Policy: authn.Policy{}, Logger: c.Logger, Metrics: faced(metrics, "grpc")})
	if err != nil {
		return err
	}
	defer server.Close()
	consumer := bus.NewConsumer(c.Bus.Topics.State, c.Bus.Subscriptions.State, c.Logger)
	consumer.Credit = c.Ingest.Credit
	defer closeConsumer(consumer, c.Logger)
	health, skews := &health{server: server, evidence: ingest.NewEvidence(consumer.Clock()), sureLock: consumer.SureLock}, skew.NewMetrics(metrics)
	control, err := newControlServer(ctx, c, conn, metrics, skews, health)
	if err != nil {
		return err
	}
	defer control.close()
	prover, loop, err := newIngest(c, bus, consumer, registry{registryv1.NewAgentRegistryClient(conn)}, health, metrics)
	if err != nil {
		return err
	}
	prover.Skews = skews
	health.show()
	readiness.Serve(append(health.checks(), control.checks()...)...)
	if c.Ready != nil {
		grpcAddr, restAddr := control.addresses()
		c.Ready(Endpoints{GRPC: server.Addr(), Admin: admin, IngressGRPC: grpcAddr, IngressREST: restAddr})
	}
	c.Logger.Info("consuming", "topic", c.Bus.Topics.State, "subscription", c.Bus.Subscriptions.State, "consumer", health.evidence.Consumer)
	// They stop from the last to the first: not serving, then the control server, then the ingest with all it holds, then what it needs.
	return lifecycle.Run(ctx, c.Logger, stopGrace, slices.Concat(
		[]lifecycle.Part{
			{Name: "tokens", Run: tokens.Run},
			{Name: "grpc", Run: server.Run},
			{Name: "prover", Run: prover.Run},
			{Name: "ingest", Run: loop.Run},
		},
		control.parts(),
		[]lifecycle.Part{
			{Run: func(ctx context.Context) error { return checkBus(ctx, bus, c) }},
			{Name: "health", Run: health.untilDrain},
		},
	)...)
}

// newIngest makes the loop that takes heartbeats from bus to registry, and the prover that shows it hears.
func newIngest(cfg Config, bus *servicebus.Client, consumer *servicebus.Consumer, registry registry, health *health,
	metrics prometheus.Registerer,
) (*ingest.Prover, *ingest.Loop, error) {
	sender, err := bus.NewSender(cfg.Bus.Topics.State)
	if err != nil {
		return nil, nil, err
	}
	own := ingest.NewMetrics(metrics, consumer.Recreated)
	prover := &ingest.Prover{
		Evidence: health.evidence, Sender: sender, Backlog: consumer, Reporter: registry, Metrics: own, Logger: cfg.Logger,
	}
	loop := &ingest.Loop{
		Source: consumer, Registry: registry, Evidence: health.evidence, Metrics: own, Logger: cfg.Logger, Answers: prover.Report,
		Most: cfg.Ingest.Batch, Workers: cfg.Ingest.Workers, HoldTimeout: cfg.Ingest.HoldTimeout,
	}
	prover.Reported = func(err error) {
		loop.RegistryAnswers(err == nil)
		health.reported(err)
		health.warnOfLock(cfg.Logger)
	}
	return prover, loop, nil
}

// checkBus opens the links once, so that a missing right or entity ends the service and is named.
func checkBus(ctx context.Context, bus *servicebus.Client, cfg Config) error {
	return servicebus.CheckAtStart(ctx, cfg.Logger, "it is tried again", func(ctx context.Context) error {
		return errors.Join(bus.CheckListen(ctx, cfg.Bus.Topics.State, cfg.Bus.Subscriptions.State), bus.CheckSend(ctx, cfg.Bus.Topics.State))
	})
}

// closeLimit is how long a stop waits for the receiver to close, and a third of it for the connection. What hangs is left behind.
const closeLimit = 3 * time.Second

func closeConsumer(consumer *servicebus.Consumer, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	if err := lifecycle.Leave(ctx, func() error { return consumer.Close(ctx) }); err != nil {
		logger.Debug("the receiver did not close cleanly", "error", err)
	}
}

func closeBus(bus *servicebus.Client, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit/3)
	defer cancel()
	if err := lifecycle.Leave(ctx, func() error { return bus.Close(ctx) }); err != nil {
		logger.Debug("the bus connection did not close cleanly", "error", err)
	}
}

// registry narrows the generated client to what the ingest calls.
type registry struct {
	client registryv1.AgentRegistryClient
}

func (r registry) RecordHeartbeats(ctx context.Context, request *registryv1.RecordHeartbeatsRequest) (*registryv1.RecordHeartbeatsResponse, error) {
	return r.client.RecordHeartbeats(ctx, request, grpc.WaitForReady(false))
}

func (r registry) ReportIngestEvidence(ctx context.Context, request *registryv1.ReportIngestEvidenceRequest) (*registryv1.ReportIngestEvidenceResponse, error) {
	return r.client.ReportIngestEvidence(ctx, request)
}

// health answers checks. The replica is ready while its own listener for agents is; registry and bus are told beside that, since without
// them agents get an answer all the same. The ingest has a health of its own.
type health struct {
	server   *grpcserver.Server
	evidence *ingest.Evidence
	registry atomic.Pointer[error]
	draining atomic.Bool
	ingress  func() error         // why the control server does not do its work; nil where there is none
	sureLock func() time.Duration // how long the subscription locks; 0: not known
	warned   atomic.Bool          // of the lock
}

func (h *health) reported(err error) {
	h.registry.Store(&err)
	h.show()
}

func (h *health) show() {
	ready := h.ready() == nil
	h.server.SetServing("", ready)
	if h.ingress != nil {
		h.server.SetServing(IngressHealthService, ready)
	}
	h.server.SetServing(HealthService, !h.draining.Load() && h.registryAnswers() == nil && h.evidence.Listening() == nil)
}

func (h *health) untilDrain(ctx context.Context) error {
	<-ctx.Done()
	h.draining.Store(true)
	h.show()
	return nil
}

var errStopping = errors.New("stopping")

// ready returns why nothing should be sent here.
func (h *health) ready() error {
	switch {
	case h.draining.Load():
		return errStopping
	case h.ingress != nil:
		return h.ingress()
	}
	return nil
}

func (h *health) registryAnswers() error {
	answered := h.registry.Load()
	switch {
	case answered == nil:
		return errors.New("nothing was reported to the registry yet")
	case *answered != nil:
		return fmt.Errorf("the registry does not answer: %w", *answered)
	}
	return nil
}

// lockLength returns what is wrong with the subscription's lock.
func (h *health) lockLength() error { return ingest.LockProblem(h.sureLock()) }

// warnOfLock says once what is wrong with the subscription's lock. Prover and workers call it side by side.
func (h *health) warnOfLock(logger *slog.Logger) {
	if problem := h.lockLength(); problem != nil && !h.warned.Swap(true) {
		logger.Warn("the subscription's lock is too long", "problem", problem)
	}
}

// checks are what /readyz shows. Only the first decides.
func (h *health) checks() []telemetry.Check {
	return []telemetry.Check{
		{Name: "serving", Problem: h.ready},
		{Name: "registry", Problem: h.registryAnswers, Informs: true},
		{Name: "bus", Problem: h.evidence.Listening, Informs: true},
		{Name: "lock of heartbeats", Problem: h.lockLength, Informs: true},
	}
}
