package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/commandcenter/fleet/services/heartbeat"
)

// running is a service that can be stopped by itself.
type running struct {
	stop  context.CancelFunc
	ended chan struct{}
}

func newRunning(runCtx context.Context) (context.Context, running) {
	ctx, stop := context.WithCancel(runCtx)
	return ctx, running{stop: stop, ended: make(chan struct{})}
}

// Stop drains the service, and waits for that.
func (r running) Stop(ctx context.Context) error {
	r.stop()
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("the service did not stop"), ctx.Err())
	}
}

// ControlServer is one replica of the heartbeat service, which can be stopped and started again while everything else runs.
type ControlServer struct {
	system   *System
	runCtx   context.Context //nolint:containedctx // it outlives each start
	settings heartbeat.Config
	running
}

// Ingest is all of the system's control servers.
type Ingest []*ControlServer

// Ingest is the system's.
func (s *System) Ingest() Ingest { return s.ingest }

// Addresses are where agents reach the control servers for gRPC.
func (i Ingest) Addresses() []string {
	var all []string
	for _, one := range i {
		all = append(all, one.settings.Ingress.GRPC.Listen)
	}
	return all
}

// Start starts all that were stopped.
func (i Ingest) Start(ctx context.Context) error {
	for _, one := range i {
		if err := one.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop drains all of them at once.
func (i Ingest) Stop(ctx context.Context) error {
	for _, one := range i {
		one.stop()
	}
	var failures error
	for _, one := range i {
		failures = errors.Join(failures, one.Stop(ctx))
	}
	return failures
}

// startIngest starts the control servers, each on ports of its own.
func (s *System) startIngest(ctx, runCtx context.Context, cfg Config, registryAddress string) error {
	if cfg.WithoutIngest {
		return nil
	}
	known, err := readAddresses(cfg.Dir)
	if err != nil {
		return fmt.Errorf("where the control servers were is not known: %w; %s starts from nothing", err, fresh(cfg.Dir))
	}
	var names []string
	for n := range max(1, cfg.ControlServers) {
		settings := heartbeat.DefaultConfig()
		usual := func(port int) string { return cfg.address(fmt.Sprintf("127.0.0.1:%d", port+100*n)) }
		settings.GRPC.Listen, settings.Admin.Listen = usual(7420), usual(7421)
		place := placeFor(address{GRPC: usual(7422), REST: usual(7423)}, cfg.AnyPorts, known, names, isFree)
		names = append(names, place.Name)
		settings.Ingress.Name, settings.Ingress.GRPC.Listen, settings.Ingress.REST.Listen = place.Name, place.GRPC, place.REST
		settings.Registry.Target = registryAddress
		settings.Bus.ConnectionString.Set(s.Bus)
		settings.Ingress.EnrolmentKeyFile, settings.Ingress.DrainTimeout = s.EnrolmentKey, 0
		if cfg.HeartbeatInterval > 0 {
			settings.Ingress.HeartbeatInterval = cfg.HeartbeatInterval
		}
		settings.Logger = cfg.logger(settings.Ingress.Name)
		one := &ControlServer{system: s, runCtx: runCtx, settings: settings}
		s.ingest = append(s.ingest, one)
		if err := one.Start(ctx); err != nil {
			return err
		}
		place.GRPC, place.REST = one.settings.Ingress.GRPC.Listen, one.settings.Ingress.REST.Listen
		if err := rememberAddress(cfg.Dir, place); err != nil {
			return err
		}
	}
	return nil
}

// Start starts it and waits until it is ready. It comes back to where it was.
func (c *ControlServer) Start(ctx context.Context) error {
	runCtx, one := newRunning(c.runCtx)
	c.running = one
	settings, ready := c.settings, make(chan heartbeat.Endpoints, 1)
	settings.Ready = func(at heartbeat.Endpoints) { ready <- at }
	at, err := launch(ctx, c.system, settings.Ingress.Name, ready, func() error {
		defer close(one.ended)
		return heartbeat.Run(runCtx, settings)
	})
	if err != nil {
		return err
	}
	c.settings.Ingress.GRPC.Listen, c.settings.Ingress.REST.Listen = at.IngressGRPC, at.IngressREST
	c.system.Metrics[settings.Ingress.Name] = at.Admin
	return nil
}
