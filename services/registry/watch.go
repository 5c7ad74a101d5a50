package registry

import (
	"context"
	"log/slog"
	"sync"
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

// counts keeps the metrics of agents. Each is counted alone, so that one that fails leaves no other at its old value.
type counts struct {
	counts map[string]func(context.Context) error // by what is counted
	logger *slog.Logger
}

func newCounts(store *store.Store, metrics *rpc.Metrics, logger *slog.Logger) *counts {
	return &counts{logger: logger, counts: map[string]func(context.Context) error{
		"agents by state": func(ctx context.Context) error {
			states, err := store.CountStates(ctx)
			if err == nil {
				metrics.SetStates(states)
			}
			return err
		},
		"agents whose receivers are suspect": func(ctx context.Context) error {
			suspects, err := store.CountSuspectReceivers(ctx)
			if err == nil {
				metrics.SuspectReceivers.Set(float64(suspects))
			}
			return err
		},
		"agents that are astray": func(ctx context.Context) error {
			astray, _, err := store.Astray(ctx)
			if err == nil {
				metrics.Astray.Set(float64(astray))
			}
			return err
		},
	}}
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
	var looks sync.WaitGroup
	for what, count := range c.counts {
		looks.Go(func() {
			if err := count(ctx); err != nil {
				c.logger.Debug("they could not be counted", "what", what, "error", err)
			}
		})
	}
	looks.Wait()
}
