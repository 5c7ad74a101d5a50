package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/commandcenter/fleet/agent"
	"github.com/commandcenter/fleet/agent/fleet"
	"github.com/commandcenter/fleet/deploy/entities"
	servicebusemulator "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
	operatorgateway "github.com/commandcenter/fleet/services/operator-gateway"
	"github.com/commandcenter/fleet/services/registry"
)

// Config says what runs and where. All of it listens on loopback only.
type Config struct {
	// Dir holds the database; it is made if need be. One system at a time runs in it.
	Dir string
	// Claim is the right to Dir, which the caller took and releases; nil: Start takes it, and Close releases it.
	Claim *Claim
	// REST is the gateway's address, host:port.
	REST string
	// AnyPorts lets everything but REST listen where there is room, instead of on its usual port.
	AnyPorts bool
	// HeartbeatInterval is the agents', and three of them the age from which a heartbeat is stale. Zero: 30 s.
	HeartbeatInterval time.Duration
	// ControlServers is how many replicas the heartbeat service has, each a control server that direct agents may work with. Zero: one.
	ControlServers int
	// WithoutIngest leaves the heartbeat service to whoever runs it elsewhere, with the registry's and the bus's address and the enrolment
	// key of the system.
	WithoutIngest bool
	// Cloud are the times of the cloud of control servers. Nil: the usual ones.
	Cloud *registry.CloudConfig
	// Failover says how direct agents go from one control server to another; the zero value is good.
	Failover agent.FailoverConfig
	// SweepInterval is how often the availability service judges the fleet. Zero: 15 s.
	SweepInterval time.Duration
	// AvailabilityReplicas compete for the availability job. Less than one: one.
	AvailabilityReplicas int
	// WriteBudget is how long a write may take. Zero: the gateway's default.
	WriteBudget time.Duration
	// BrokerClock is the emulator's clock. Nil: this machine's.
	BrokerClock broker.Clock
	// Agents are the simulated agents.
	Agents []fleet.Agent
	// Log receives the services' log.
	Log io.Writer
	// LogLevel is debug, info, warn or error.
	LogLevel string
}

// System is what runs.
type System struct {
	// REST is the gateway's base URL, GRPC its address for callers over gRPC, and Metrics the admin address of each service.
	REST, GRPC string
	Metrics    map[string]string
	// Bus is the connection string of the emulator, for agents of your own. It holds no real key.
	Bus      string
	Database string
	// Found is what an earlier system left in the folder.
	Found Found
	Fleet *fleet.Fleet
	// Registry is the registry's gRPC address, and EnrolmentKey the file of the key that direct agents enrol with, made for this system.
	Registry, EnrolmentKey string

	claim    *Claim
	ownClaim bool // else it is the caller's to release
	emulator *servicebusemulator.Emulator
	ingest   Ingest
	replicas map[string]running // of the availability service
	cancel   context.CancelFunc
	failed   chan error // as many as there may be services
	services sync.WaitGroup
}

// Start starts everything in order, and returns once the gateway serves. Stop it with Close. An *InUseError says that a system already
// runs in the folder.
func Start(ctx context.Context, cfg Config) (_ *System, err error) {
	ownClaim := cfg.Claim == nil
	if ownClaim {
		if cfg.Claim, err = Take(cfg.Dir, time.Now()); err != nil {
			return nil, err
		}
	}
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cfg.AvailabilityReplicas = max(1, cfg.AvailabilityReplicas)
	s := &System{
		claim: cfg.Claim, ownClaim: ownClaim, cancel: cancel, failed: make(chan error, 4+cfg.AvailabilityReplicas+cfg.ControlServers), Metrics: map[string]string{},
		Database: filepath.Join(cfg.Dir, databaseName),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	usedBefore, err := exists(s.Database)
	if err != nil {
		return nil, err
	}
	if err := s.startEmulator(cfg); err != nil {
		return nil, err
	}
	if s.EnrolmentKey, err = enrolmentKey(cfg.Dir); err != nil {
		return nil, err
	}
	registryAddress, err := s.startRegistry(ctx, runCtx, cfg)
	if err != nil {
		return nil, err
	}
	s.Registry = registryAddress
	if err := s.startIngest(ctx, runCtx, cfg, registryAddress); err != nil {
		return nil, err
	}
	availabilityAddress, err := s.startAvailability(ctx, runCtx, cfg, registryAddress)
	if err != nil {
		return nil, err
	}
	if err := s.startGateway(ctx, runCtx, cfg, registryAddress, availabilityAddress); err != nil {
		return nil, err
	}
	if usedBefore {
		if s.Found, err = s.lookFor(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.startFleet(ctx, cfg); err != nil {
		return nil, err
	}
	if err := s.Fleet.Ready(ctx); err != nil {
		return nil, err
	}
	return s, cfg.Claim.Serves(s)
}

// enrolmentKey is the file of the key that direct agents enrol with. It is made once: agents outside of this process keep it as well.
func enrolmentKey(dir string) (path string, err error) {
	path = filepath.Join(dir, keyName)
	if content, err := os.ReadFile(path); err == nil && len(content) > 0 {
		return path, nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return path, replaceFile(path, []byte(rand.Text()), 0o600)
}

// startFleet starts the agents, each with its journal, token and list in the system's folder.
func (s *System) startFleet(ctx context.Context, cfg Config) (err error) {
	if cfg.Failover.FailoverGrace == 0 {
		cfg.Failover.FailoverGrace = 100 * time.Millisecond // so few agents need not be spread
	}
	journals, states := filepath.Join(cfg.Dir, journalsName), filepath.Join(cfg.Dir, agentsName)
	for _, folder := range []string{journals, states} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return err
		}
	}
	s.Fleet, err = fleet.Start(context.WithoutCancel(ctx), fleet.Config{
		Agents: cfg.Agents, ConnectionString: s.Bus, HeartbeatInterval: cfg.HeartbeatInterval, Logger: cfg.logger("agents"),
		JournalDir: journals, StateDir: states, ControlServers: s.ingest.Addresses(), EnrolmentKeyFile: s.EnrolmentKey,
		Failover: cfg.Failover,
	})
	return err
}

// Failed receives the error of a service that ended by itself.
func (s *System) Failed() <-chan error { return s.failed }

// Close stops everything, agents first, and waits for it.
func (s *System) Close() error {
	var failures error
	if s.Fleet != nil {
		failures = s.Fleet.Close()
	}
	s.cancel()
	s.services.Wait()
	if s.emulator != nil {
		failures = errors.Join(failures, s.emulator.Close())
	}
	if s.ownClaim {
		failures = errors.Join(failures, s.claim.Release())
	}
	return failures
}

func (s *System) startEmulator(cfg Config) error {
	topics, err := entities.Config()
	if err != nil {
		return err
	}
	s.emulator, err = servicebusemulator.Start(topics, servicebusemulator.Options{
		Listen: cfg.address("127.0.0.1:5672"), Logger: cfg.logger("servicebus-emulator"), Clock: cfg.BrokerClock,
	})
	if err != nil {
		return fmt.Errorf("emulator: %w", err)
	}
	s.Bus = s.emulator.ConnectionString()
	return nil
}

func (s *System) startRegistry(ctx, runCtx context.Context, cfg Config) (string, error) {
	settings := registry.DefaultConfig()
	settings.GRPC.Listen, settings.Admin.Listen = cfg.address(settings.GRPC.Listen), cfg.address(settings.Admin.Listen)
	settings.Database.URL.Set("sqlite:" + s.Database)
	settings.Database.Migrate = true
	if cfg.Cloud != nil {
		settings.Cloud = *cfg.Cloud
	}
	if cfg.HeartbeatInterval > 0 { // agents of quick beats come back as quickly, over connections that break at once
		settings.Returns.LongestPause, settings.Returns.BusReconnect = cfg.HeartbeatInterval, cfg.HeartbeatInterval
	}
	settings.Logger = cfg.logger("registry")
	ready := make(chan registry.Endpoints, 1)
	settings.Ready = func(at registry.Endpoints) { ready <- at }
	at, err := launch(ctx, s, "registry", ready, func() error { return registry.Run(runCtx, settings) })
	s.Metrics["registry"] = at.Admin
	return at.GRPC, err
}

func (s *System) startGateway(ctx, runCtx context.Context, cfg Config, registryAddress, availabilityAddress string) error {
	settings := operatorgateway.DefaultConfig()
	settings.REST.Listen = cfg.REST
	settings.GRPC.Listen, settings.Admin.Listen = cfg.address(settings.GRPC.Listen), cfg.address(settings.Admin.Listen)
	settings.Registry.Target, settings.Availability.Target = registryAddress, availabilityAddress
	settings.Bus.ConnectionString.Set(s.Bus)
	settings.Reflection = true // on loopback, so that grpcurl needs no descriptor set
	if cfg.HeartbeatInterval > 0 {
		settings.Routing.MaxHeartbeatAge = 3 * cfg.HeartbeatInterval
	}
	if cfg.WriteBudget > 0 {
		settings.Budgets.Write = cfg.WriteBudget
	}
	settings.Logger = cfg.logger("operator-gateway")
	ready := make(chan operatorgateway.Endpoints, 1)
	settings.Ready = func(at operatorgateway.Endpoints) { ready <- at }
	at, err := launch(ctx, s, "operator-gateway", ready, func() error { return operatorgateway.Run(runCtx, settings) })
	s.REST, s.GRPC, s.Metrics["operator-gateway"] = "http://"+at.REST, at.GRPC, at.Admin
	return err
}

// launch runs a service beside the others and waits until it is ready.
func launch[E any](ctx context.Context, s *System, name string, ready <-chan E, run func() error) (E, error) {
	s.services.Go(func() {
		if err := run(); err != nil {
			s.failed <- fmt.Errorf("%s: %w", name, err)
		}
	})
	var nothing E
	select {
	case at := <-ready:
		return at, nil
	case err := <-s.failed:
		return nothing, err
	case <-ctx.Done():
		return nothing, ctx.Err()
	}
}

// address is where something listens: on its usual port, or wherever there is room.
func (c Config) address(usual string) string {
	if c.AnyPorts {
		return "127.0.0.1:0"
	}
	return usual
}

func (c Config) logger(service string) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	out := c.Log
	if out == nil {
		out = io.Discard
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})).With("service", service)
}
