package local

import (
	"context"
	"errors"

	"github.com/commandcenter/fleet/services/heartbeat"
)

// Ingest is the heartbeat service, which can be stopped and started again while everything else runs.
type Ingest struct {
	system   *System
	runCtx   context.Context //nolint:containedctx // it outlives each start
	settings heartbeat.Config
	running
}

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

// Ingest is the system's.
func (s *System) Ingest() *Ingest { return s.ingest }

func (s *System) startIngest(ctx, runCtx context.Context, cfg Config, registryAddress string) error {
	settings := heartbeat.DefaultConfig()
	settings.GRPC.Listen, settings.Admin.Listen = cfg.address(settings.GRPC.Listen), cfg.address(settings.Admin.Listen)
	settings.Registry.Target = registryAddress
	settings.Bus.ConnectionString.Set(s.Bus)
	settings.Logger = cfg.logger("heartbeat")
	s.ingest = &Ingest{system: s, runCtx: runCtx, settings: settings}
	return s.ingest.Start(ctx)
}

// Start starts it and waits until it is ready.
func (i *Ingest) Start(ctx context.Context) error {
	runCtx, one := newRunning(i.runCtx)
	i.running = one
	settings, ready := i.settings, make(chan heartbeat.Endpoints, 1)
	settings.Ready = func(at heartbeat.Endpoints) { ready <- at }
	at, err := launch(ctx, i.system, "heartbeat", ready, func() error {
		defer close(one.ended)
		return heartbeat.Run(runCtx, settings)
	})
	i.system.Metrics["heartbeat"] = at.Admin
	return err
}
