package operatorgateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/grpcclient"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/rpc"
)

// upstreams are the connections to the services that the gateway asks.
type upstreams struct {
	registry     *grpc.ClientConn
	availability *grpc.ClientConn // nil where none is configured
}

// dialUpstreams prepares the connections, as far as they are configured.
func dialUpstreams(cfg Config) (*upstreams, error) {
	registry, err := grpcclient.Dial(cfg.Registry)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	found := &upstreams{registry: registry}
	if cfg.Availability.Target == "" {
		return found, nil
	}
	if found.availability, err = grpcclient.Dial(cfg.Availability); err != nil {
		found.close()
		return nil, fmt.Errorf("availability: %w", err)
	}
	return found, nil
}

func (u *upstreams) close() {
	u.registry.Close()
	if u.availability != nil {
		u.availability.Close()
	}
}

// asRegistry is the registry as work asks it.
func (u *upstreams) asRegistry() rpc.Registry {
	bounded := rpc.Bounded{ClientConnInterface: u.registry}
	return rpc.Registry{
		Agents: registryv1.NewAgentRegistryClient(bounded), Servers: registryv1.NewServerCatalogClient(bounded),
		Cloud: registryv1.NewControlCloudClient(bounded),
	}
}

// asAvailability is the availability service, or what refuses in its place.
func (u *upstreams) asAvailability() availabilityv1.AvailabilityClient {
	if u.availability == nil {
		return availabilityv1.NewAvailabilityClient(rpc.NoAvailability{})
	}
	return availabilityv1.NewAvailabilityClient(rpc.Bounded{ClientConnInterface: u.availability})
}

// watched are the upstreams as health asks them; the second is nil where none is configured.
func (u *upstreams) watched(logger *slog.Logger) (registry, availability *dependency) {
	registry = newDependency("registry", registryv1.AgentRegistry_ServiceDesc.ServiceName, u.registry, logger)
	if u.availability != nil {
		availability = newDependency("availability service", availabilityv1.Availability_ServiceDesc.ServiceName, u.availability, logger)
	}
	return registry, availability
}

// dependency is a service of ours that is asked now and then whether it serves.
type dependency struct {
	name    string // in texts, after "the"
	service string // as its health checks name it
	health  healthv1.HealthClient
	logger  *slog.Logger
	problem atomic.Pointer[error]
}

func newDependency(name, service string, conn grpc.ClientConnInterface, logger *slog.Logger) *dependency {
	return &dependency{name: name, service: service, health: healthv1.NewHealthClient(conn), logger: logger}
}

// usable returns why it cannot be used; nil when it can, as far as is known, and where none is configured.
func (d *dependency) usable() error {
	if d == nil {
		return nil
	}
	if problem := d.problem.Load(); problem != nil {
		return *problem
	}
	return nil
}

// look asks it whether it serves.
func (d *dependency) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookInterval)
	defer cancel()
	answer, err := d.health.Check(ctx, &healthv1.HealthCheckRequest{Service: d.service})
	if err == nil && answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		err = errors.New("it answers that it is not serving")
	}
	before := d.problem.Load()
	if err != nil {
		err = fmt.Errorf("the %s cannot be used: %w", d.name, err)
		d.problem.Store(&err)
	} else {
		d.problem.Store(nil)
	}
	if (before == nil) != (err == nil) {
		d.logger.Warn("whether the "+d.name+" can be used changed", "problem", err)
	}
}
