package rpc

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

const (
	// verdictsTimeout is how long a list of agents waits for verdicts.
	verdictsTimeout = time.Second
	// missedInterval is how often the log says at most that lists go without.
	missedInterval = time.Minute
)

// Verdicts reads what the availability service makes of the servers in a list of agents or servers, which does without where it must.
type Verdicts struct {
	service availabilityv1.AvailabilityClient
	logger  *slog.Logger
	missing prometheus.Counter

	mu     sync.Mutex
	toldAt time.Time
}

// NewVerdicts makes one, and registers its metric.
func NewVerdicts(service availabilityv1.AvailabilityClient, logger *slog.Logger, metrics prometheus.Registerer) *Verdicts {
	missing := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "commandcenter_gateway_lists_without_availability_total",
		Help: "Lists of agents and servers that were answered without availability, since the availability service did not give it in time.",
	})
	metrics.MustRegister(missing)
	return &Verdicts{service: service, logger: logger, missing: missing}
}

// of reads the verdicts on the agents' servers, by server key; empty where they cannot be had.
func (v *Verdicts) of(ctx context.Context, agents []*registryv1.Agent) map[int64]*availabilityv1.ServerAvailability {
	var keys []int64
	for _, agent := range agents {
		if key := agent.GetServer().GetServerKey(); key != 0 {
			keys = append(keys, key)
		}
	}
	verdicts := v.ofKeys(ctx, keys)
	for _, agent := range agents {
		if verdict := verdicts[agent.GetServer().GetServerKey()]; verdict != nil && heard[verdict.GetReason()] {
			verdict.HeardAt = newest(agent.GetLastBusHeartbeatAt(), agent.GetLastDirectHeartbeatAt())
		}
	}
	return verdicts
}

// heard are the reasons of verdicts that heartbeats decide. Of those the registry, which was just read, knows the newest.
var heard = map[string]bool{"heartbeat fresh": true, "heartbeat silent": true}

func newest(a, b *timestamppb.Timestamp) *timestamppb.Timestamp {
	if a == nil || (b != nil && b.AsTime().After(a.AsTime())) {
		return b
	}
	return a
}

// states puts into servers how they stand, where that can be had.
func (v *Verdicts) states(ctx context.Context, servers ...*registryv1.Server) {
	keys := make([]int64, 0, len(servers))
	for _, server := range servers {
		keys = append(keys, server.GetServerKey())
	}
	verdicts := v.ofKeys(ctx, keys)
	for _, server := range servers {
		server.State = verdicts[server.GetServerKey()].GetState()
	}
}

// ofKeys reads the verdicts on servers; empty where they cannot be had.
func (v *Verdicts) ofKeys(ctx context.Context, keys []int64) map[int64]*availabilityv1.ServerAvailability {
	if len(keys) == 0 {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, verdictsTimeout)
	defer cancel()
	page, err := v.service.ListAvailability(asking, &availabilityv1.ListAvailabilityRequest{ServerKeys: keys, PageSize: int32(len(keys))})
	if err != nil {
		v.missed(ctx, err)
		return nil
	}
	verdicts := make(map[int64]*availabilityv1.ServerAvailability, len(page.GetServers()))
	for _, server := range page.GetServers() {
		verdicts[server.GetServerKey()] = server
	}
	return verdicts
}

// missed counts a list that goes without, and says so now and then. A caller who went away is no failure of the service.
func (v *Verdicts) missed(ctx context.Context, err error) {
	if errors.Is(err, errNoAvailability) || ctx.Err() != nil {
		return
	}
	v.missing.Inc()
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Since(v.toldAt) < missedInterval {
		return
	}
	v.toldAt = time.Now()
	v.logger.WarnContext(ctx, "agents and servers are listed without availability, since the availability service does not give it", "error", err)
}
