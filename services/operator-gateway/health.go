package operatorgateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
)

var registryService = registryv1.AgentRegistry_ServiceDesc.ServiceName

// lookInterval is how often the registry is asked whether it serves.
const lookInterval = 3 * time.Second

// health answers checks: serving while the registry does, since nothing can be decided without it. A bus that is down leaves
// the agents on HTTP, and is only told.
type health struct {
	server   *grpcserver.Server
	registry healthv1.HealthClient
	bus      interface{ Ready() error }
	logger   *slog.Logger
	problem  atomic.Pointer[error]
	draining atomic.Bool
}

var errDraining = errors.New("the gateway is stopping")

// ready tells why no requests should come here just now.
func (h *health) ready() error {
	if h.draining.Load() {
		return errDraining
	}
	if problem := h.problem.Load(); problem != nil {
		return *problem
	}
	return nil
}

// drain turns new requests away, before anything stops.
func (h *health) drain() {
	h.draining.Store(true)
	h.tell()
}

func (h *health) run(ctx context.Context) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	busBefore := h.bus.Ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		h.look(ctx)
		if bus := h.bus.Ready(); (bus == nil) != (busBefore == nil) {
			h.logger.Warn("what can be sent over the bus changed; agents on HTTP are served all the same", "problem", bus)
			busBefore = bus
		}
	}
}

// look asks the registry whether it serves.
func (h *health) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookInterval)
	defer cancel()
	answer, err := h.registry.Check(ctx, &healthv1.HealthCheckRequest{Service: registryService})
	if err == nil && answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		err = errors.New("it answers that it is not serving")
	}
	before := h.problem.Load()
	if err != nil {
		err = fmt.Errorf("the registry cannot be used: %w", err)
		h.problem.Store(&err)
	} else {
		h.problem.Store(nil)
	}
	if (before == nil) != (err == nil) {
		h.logger.Warn("whether the registry can be used changed", "problem", err)
	}
	h.tell()
}

// tell answers gRPC health checks.
func (h *health) tell() {
	for _, service := range []string{
		"", operatorv1.AgentOperations_ServiceDesc.ServiceName, operatorv1.AgentConfig_ServiceDesc.ServiceName, operatorv1.ServerConfig_ServiceDesc.ServiceName,
	} {
		h.server.SetServing(service, h.ready() == nil)
	}
}
