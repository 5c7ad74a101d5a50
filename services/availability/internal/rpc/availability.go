package rpc

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/watch"
)

// Availability implements availability.v1.Availability.
type Availability struct {
	availabilityv1.UnimplementedAvailabilityServer
	store *store.Store
	mode  availabilityv1.Mode
	feed  *watch.Feed
	// writes returns why nothing can be written to the database; nil while writes work.
	writes func() error
}

// New makes it. Its watches need Run; mode is what this replica's job does, and writes returns why nothing can be written to the database.
func New(opened *store.Store, mode availabilityv1.Mode, writes func() error, logger *slog.Logger, metrics prometheus.Registerer) *Availability {
	return &Availability{
		store: opened, mode: mode, writes: writes, feed: watch.NewFeed(&source{opened, mode, writes}, logger, watch.NewMetrics(metrics)),
	}
}

// Run serves the watches until the context ends. It must end before the gRPC server stops, which waits for running calls.
func (a *Availability) Run(ctx context.Context) error { return a.feed.Run(ctx) }
