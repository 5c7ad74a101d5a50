package local

import (
	"context"
	"fmt"
	"strings"

	"github.com/commandcenter/fleet/services/availability"
)

// startAvailability starts the replicas, and returns the address of the last: any of them answers, whichever holds the job.
func (s *System) startAvailability(ctx, runCtx context.Context, cfg Config, registryAddress string) (address string, err error) {
	s.replicas = map[string]running{}
	for replica := range cfg.AvailabilityReplicas {
		name := "availability"
		if replica > 0 {
			name, cfg.AnyPorts = fmt.Sprintf("availability-%d", replica+1), true
		}
		settings := cfg.availability(name)
		settings.Database.URL.Set("sqlite:" + s.Database)
		settings.Registry.Target = registryAddress
		ready := make(chan availability.Endpoints, 1)
		settings.Ready = func(at availability.Endpoints) { ready <- at }
		ownCtx, one := newRunning(runCtx)
		s.replicas[name] = one
		at, err := launch(ctx, s, name, ready, func() error {
			defer close(one.ended)
			return availability.Run(ownCtx, settings)
		})
		if err != nil {
			return "", err
		}
		address, s.Metrics[name] = at.GRPC, at.Admin
	}
	return address, nil
}

// availability are the settings of a replica: it owns Online, since nobody else writes it here.
func (c Config) availability(replica string) availability.Config {
	settings := availability.DefaultConfig()
	settings.GRPC.Listen, settings.Admin.Listen = c.address(settings.GRPC.Listen), c.address(settings.Admin.Listen)
	settings.Database.Migrate = true
	settings.Mode, settings.Replica = availability.ModeOwn, replica
	if c.HeartbeatInterval > 0 {
		settings.HeartbeatInterval, settings.MaxHeartbeatAge = c.HeartbeatInterval, 3*c.HeartbeatInterval
	}
	if c.SweepInterval > 0 {
		settings.SweepInterval, settings.LeaseDuration = c.SweepInterval, 2*c.SweepInterval
		settings.Probes.Timeout = min(settings.Probes.Timeout, c.SweepInterval)
	}
	settings.Logger = c.logger(replica)
	return settings
}

// StopAvailability stops one replica, by the name under which it holds the lease.
func (s *System) StopAvailability(ctx context.Context, holder string) error {
	name, _, _ := strings.Cut(holder, "/")
	replica, known := s.replicas[name]
	if !known {
		return fmt.Errorf("no replica of the availability service is called %q", name)
	}
	return replica.Stop(ctx)
}
