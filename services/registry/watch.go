package registry

import (
	"context"
	"log/slog"
	"time"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/registry/internal/rpc"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// serving answers health checks by whether the database can be read: without that the registry can do nothing.
func serving(server *grpcserver.Server) func(bool) {
	return func(reads bool) {
		for _, service := range []string{
			"", registryv1.AgentRegistry_ServiceDesc.ServiceName, registryv1.ServerCatalog_ServiceDesc.ServiceName, registryv1.ControlCloud_ServiceDesc.ServiceName,
		} {
			server.SetServing(service, reads)
		}
	}
}

const (
	// countInterval is how often agents are counted for the metrics, and countTimeout bounds one count.
	countInterval = 15 * time.Second
	countTimeout  = 5 * time.Second
)

// counts keeps the metrics of how many agents are in which state, and how many do not answer commands over the bus.
type counts struct {
	store   *store.Store
	metrics *rpc.Metrics
	logger  *slog.Logger
}

func (c *counts) run(ctx context.Context) error {
	ticker := time.NewTicker(countInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			c.look(ctx)
		}
	}
}

func (c *counts) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	states, err := c.store.CountStates(ctx)
	if err != nil {
		c.logger.Debug("agents could not be counted", "error", err)
		return
	}
	c.metrics.SetStates(states)
	suspects, err := c.store.CountSuspectReceivers(ctx)
	if err != nil {
		c.logger.Debug("agents whose receivers are suspect could not be counted", "error", err)
		return
	}
	c.metrics.SuspectReceivers.Set(float64(suspects))
	astray, _, err := c.store.Astray(ctx)
	if err != nil {
		c.logger.Debug("agents that are astray could not be counted", "error", err)
		return
	}
	c.metrics.Astray.Set(float64(astray))
}
