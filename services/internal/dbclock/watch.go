package dbclock

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// lookTimeout bounds one look. After a step it moves what is stored of the whole fleet along.
const lookTimeout = time.Minute

// Watch looks at the clock of a service's database all the time, and tells of steps.
type Watch struct {
	look   func(context.Context) (step time.Duration, err error)
	logger *slog.Logger
	steps  *prometheus.CounterVec
	failed bool // that looking fails is said once
}

// NewWatch makes it. Look looks once, and mends what a step made wrong.
func NewWatch(look func(context.Context) (step time.Duration, err error), metrics prometheus.Registerer, logger *slog.Logger) *Watch {
	w := &Watch{look: look, logger: logger, steps: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "commandcenter_database_clock_steps_total",
		Help: "Steps of the database's clock that this replica was the first of its service to notice, by direction: ahead or back.",
	}, []string{"direction"})}
	w.steps.WithLabelValues("ahead")
	w.steps.WithLabelValues("back")
	return w
}

// Run looks until the context ends.
func (w *Watch) Run(ctx context.Context) error {
	ticker := time.NewTicker(LookInterval)
	defer ticker.Stop()
	for {
		w.once(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (w *Watch) once(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	step, err := w.look(bounded)
	if ctx.Err() != nil {
		return
	}
	if err != nil && !w.failed {
		w.logger.Warn("the database's clock cannot be looked at; it is tried again", "error", err)
	}
	if w.failed = err != nil; err != nil || step == 0 {
		return
	}
	direction, what := "ahead", "the database's clock was stepped ahead, or this service's machine stood still while no other replica looked"
	if step < 0 {
		direction, what = "back", "the database's clock was stepped back"
	}
	w.steps.WithLabelValues(direction).Inc()
	w.logger.Error(what+"; what is stored keeps its age, and the heartbeat paths have to prove themselves again", "by", step)
}
