package registry

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/registry/internal/rpc"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// pingInterval is how often the database is asked whether it answers.
const pingInterval = 3 * time.Second

// watch keeps health and the counts of agents up to date.
type watch struct {
	store     *store.Store
	server    *grpcserver.Server
	metrics   *rpc.Metrics
	logger    *slog.Logger
	problem   atomic.Pointer[error]
	countedAt time.Time
}

func (w *watch) ready() error {
	if problem := w.problem.Load(); problem != nil {
		return *problem
	}
	return nil
}

func (w *watch) run(ctx context.Context) error {
	ticker := time.NewTicker(pingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			w.look(ctx)
		}
	}
}

// look asks the database, and answers health checks accordingly: without it the registry can do nothing.
func (w *watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pingInterval)
	defer cancel()
	err := w.store.Ping(ctx)
	if err == nil && time.Since(w.countedAt) >= countInterval {
		w.countedAt = time.Now()
		counts, failed := w.store.CountStates(ctx)
		if err = failed; err == nil {
			w.metrics.SetStates(counts)
		}
		suspects, failed := w.store.CountSuspectReceivers(ctx)
		if err = cmp.Or(err, failed); err == nil {
			w.metrics.SuspectReceivers.Set(float64(suspects))
		}
	}
	before := w.ready()
	if err != nil {
		w.problem.Store(&err)
	} else {
		w.problem.Store(nil)
	}
	if (err == nil) != (before == nil) {
		w.logger.Warn("the database's answer changed", "error", err)
	}
	for _, service := range []string{"", "commandcenter.registry.v1.AgentRegistry", "commandcenter.registry.v1.ServerCatalog", "commandcenter.registry.v1.ControlCloud"} {
		w.server.SetServing(service, err == nil)
	}
}
