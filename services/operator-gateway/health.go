package operatorgateway

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/transport/bus"
)

// lookInterval is how often the registry is asked whether it serves.
const lookInterval = 3 * time.Second

// health answers checks: serving while the registry does, since nothing can be decided without it. A bus that is down leaves
// the agents on HTTP, and is only told.
type health struct {
	server   *grpcserver.Server
	registry healthv1.HealthClient
	bus      *bus.Transport
	logger   *slog.Logger
	problem  atomic.Pointer[error]
}

func (h *health) ready() error {
	if problem := h.problem.Load(); problem != nil {
		return *problem
	}
	return nil
}

func (h *health) run(ctx context.Context) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			h.look(ctx)
		}
	}
}

func (h *health) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookInterval)
	defer cancel()
	answer, err := h.registry.Check(ctx, &healthv1.HealthCheckRequest{Service: "commandcenter.registry.v1.AgentRegistry"})
	if err == nil && answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		err = status.Error(codes.Unavailable, "the registry answers that it is not serving")
	}
	before := h.ready()
	if err != nil {
		err = errors.Join(errors.New("the registry cannot be used"), err)
		h.problem.Store(&err)
	} else {
		h.problem.Store(nil)
	}
	if (before == nil) != (err == nil) {
		h.logger.Warn("the registry's answer changed", "error", err, "bus", h.bus.Ready())
	}
	for _, service := range []string{
		"", "commandcenter.operator.v1.AgentOperations", "commandcenter.operator.v1.AgentConfig", "commandcenter.operator.v1.ServerConfig",
	} {
		h.server.SetServing(service, err == nil)
	}
}
