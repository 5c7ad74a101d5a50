package operatorgateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/telemetry"
)

// lookInterval is how often dependencies are asked whether they serve.
const lookInterval = 3 * time.Second

// health answers checks: serving until the drain, whatever it depends on, since without that callers get an answer which says what is
// missing. Registry, availability service and bus are told on /readyz?verbose, by metrics and by the log.
type health struct {
	server       *grpcserver.Server
	registry     *dependency
	availability *dependency // nil where none is configured
	bus          interface{ Ready() error }
	logger       *slog.Logger
	draining     atomic.Bool
	telling      sync.Mutex
}

var errDraining = errors.New("the gateway is stopping")

// ready returns why no requests should come here just now.
func (h *health) ready() error {
	if h.draining.Load() {
		return errDraining
	}
	return nil
}

// checks are what /readyz shows. Only the first decides.
func (h *health) checks() []telemetry.Check {
	checks := []telemetry.Check{
		{Name: "serving", Problem: h.ready},
		{Name: "registry", Problem: h.registry.usable, Informs: true},
		{Name: "bus", Problem: h.bus.Ready, Informs: true},
	}
	if h.availability != nil {
		checks = append(checks, telemetry.Check{Name: "availability service", Problem: h.availability.usable, Informs: true})
	}
	return checks
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
	h.look(ctx)
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

// look asks the dependencies side by side, since one that does not answer must not hide how the other is.
func (h *health) look(ctx context.Context) {
	var looks sync.WaitGroup
	defer looks.Wait()
	for _, one := range []*dependency{h.registry, h.availability} {
		if one != nil {
			looks.Go(func() { one.look(ctx); h.tell() })
		}
	}
}

// tell answers gRPC health checks.
func (h *health) tell() {
	h.telling.Lock() // or what was found before could be told last
	defer h.telling.Unlock()
	for _, service := range []string{
		"", operatorv1.AgentOperations_ServiceDesc.ServiceName, operatorv1.AgentConfig_ServiceDesc.ServiceName, operatorv1.ServerConfig_ServiceDesc.ServiceName,
		operatorv1.CloudConfig_ServiceDesc.ServiceName,
	} {
		h.server.SetServing(service, h.ready() == nil)
	}
	available := h.availability != nil && h.availability.usable() == nil && !h.draining.Load()
	h.server.SetServing(operatorv1.AvailabilityConfig_ServiceDesc.ServiceName, available)
}
