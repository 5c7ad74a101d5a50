package availability

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
)

// pingInterval is how often the database is asked whether it answers.
const pingInterval = 3 * time.Second

// health answers for the database alone: a path that is frozen or braked, or a registry that does not answer, is no reason to stop
// serving what is known.
type health struct {
	store   *store.Store
	server  *grpcserver.Server
	logger  *slog.Logger
	problem atomic.Pointer[error]
}

func (h *health) ready() error {
	if problem := h.problem.Load(); problem != nil {
		return *problem
	}
	return nil
}

func (h *health) run(ctx context.Context) error {
	ticker := time.NewTicker(pingInterval)
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
	ctx, cancel := context.WithTimeout(ctx, pingInterval)
	defer cancel()
	err := h.store.Ping(ctx)
	before := h.ready()
	if err != nil {
		h.problem.Store(&err)
	} else {
		h.problem.Store(nil)
	}
	if (err == nil) != (before == nil) {
		h.logger.Warn("the database's answer changed", "error", err)
	}
	for _, service := range []string{"", availabilityv1.Availability_ServiceDesc.ServiceName} {
		h.server.SetServing(service, err == nil)
	}
}
