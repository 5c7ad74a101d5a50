package registry

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/commandcenter/fleet/services/internal/dbclock"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// clockTimeout bounds one look. After a step it moves the heartbeats of the whole fleet along.
const clockTimeout = time.Minute

// clock looks whether the database's clock was stepped.
type clock struct {
	store  *store.Store
	logger *slog.Logger
	steps  *prometheus.CounterVec
	failed bool // it is said once
}

func newClock(opened *store.Store, metrics prometheus.Registerer, logger *slog.Logger) *clock {
	c := &clock{store: opened, logger: logger, steps: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "commandcenter_registry_database_clock_steps_total",
		Help: "Steps of the database's clock that this replica was the first to notice, by direction.",
	}, []string{"direction"})}
	for _, direction := range []string{"ahead", "back"} {
		c.steps.WithLabelValues(direction)
	}
	return c
}

func (c *clock) run(ctx context.Context) error {
	ticker := time.NewTicker(dbclock.LookInterval)
	defer ticker.Stop()
	for {
		c.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (c *clock) look(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	step, err := c.store.LookAtClock(bounded)
	if ctx.Err() != nil {
		return
	}
	if err != nil && !c.failed {
		c.logger.Warn("the database's clock cannot be looked at; it is tried again", "error", err)
	}
	if c.failed = err != nil; err != nil || step == 0 {
		return
	}
	direction := "ahead"
	if step < 0 {
		direction = "back"
	}
	c.steps.WithLabelValues(direction).Inc()
	c.logger.Error("the database's clock was stepped; heartbeats keep their ages, and the heartbeat paths have to prove themselves again", "by", step)
}
