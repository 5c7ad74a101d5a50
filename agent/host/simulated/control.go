package simulated

import (
	"context"
	"slices"

	"github.com/commandcenter/fleet/agent/host"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

const (
	servicesKind = "service"
	poolsKind    = "application pool"
)

// Services implements host.Services.
func (h *Host) Services(context.Context) ([]*agentv1.Service, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*agentv1.Service, len(h.services))
	for i, u := range h.services {
		h.observe(u, h.options.Clock.Now())
		out[i] = &agentv1.Service{
			Name: u.name, DisplayName: u.displayName, StartType: u.startType, Pid: u.pid,
			Status: [...]agentv1.ServiceStatus{
				stopped:  agentv1.ServiceStatus_SERVICE_STATUS_STOPPED,
				starting: agentv1.ServiceStatus_SERVICE_STATUS_START_PENDING,
				running:  agentv1.ServiceStatus_SERVICE_STATUS_RUNNING,
				stopping: agentv1.ServiceStatus_SERVICE_STATUS_STOP_PENDING,
			}[u.phase],
		}
	}
	return out, nil
}

// StartService implements host.Services.
func (h *Host) StartService(ctx context.Context, name string) ([]*agentv1.Change, error) {
	return h.through(ctx, h.services, servicesKind, name, running)
}

// StopService implements host.Services.
func (h *Host) StopService(ctx context.Context, name string) ([]*agentv1.Change, error) {
	return h.through(ctx, h.services, servicesKind, name, stopped)
}

// RestartService implements host.Services. A stopped service is started.
func (h *Host) RestartService(ctx context.Context, name string) ([]*agentv1.Change, error) {
	changes, err := h.through(ctx, h.services, servicesKind, name, stopped, running)
	if err == nil && h.RestartsAgent(name) && h.options.RestartAgent != nil {
		h.options.RestartAgent()
	}
	return changes, err
}

// RestartsAgent implements host.Services.
func (h *Host) RestartsAgent(name string) bool {
	return h.options.AgentService != "" && fold(name) == fold(h.options.AgentService)
}

// AppPools implements host.AppPools.
func (h *Host) AppPools(context.Context) ([]*agentv1.AppPool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*agentv1.AppPool, len(h.pools))
	for i, u := range h.pools {
		h.observe(u, h.options.Clock.Now())
		out[i] = &agentv1.AppPool{
			Name: u.name, RuntimeVersion: u.runtimeVersion, PipelineMode: u.pipelineMode, Identity: u.identity,
			State: [...]agentv1.AppPoolState{
				stopped:  agentv1.AppPoolState_APP_POOL_STATE_STOPPED,
				starting: agentv1.AppPoolState_APP_POOL_STATE_STARTING,
				running:  agentv1.AppPoolState_APP_POOL_STATE_STARTED,
				stopping: agentv1.AppPoolState_APP_POOL_STATE_STOPPING,
			}[u.phase],
		}
	}
	return out, nil
}

// StartAppPool implements host.AppPools.
func (h *Host) StartAppPool(ctx context.Context, name string) ([]*agentv1.Change, error) {
	return h.through(ctx, h.pools, poolsKind, name, running)
}

// StopAppPool implements host.AppPools.
func (h *Host) StopAppPool(ctx context.Context, name string) ([]*agentv1.Change, error) {
	return h.through(ctx, h.pools, poolsKind, name, stopped)
}

// RecycleAppPool implements host.AppPools. As in IIS, only a started pool can be recycled.
func (h *Host) RecycleAppPool(ctx context.Context, name string) ([]*agentv1.Change, error) {
	h.mu.Lock()
	u := find(h.pools, name)
	if u != nil {
		h.observe(u, h.options.Clock.Now())
	}
	isStopped := u != nil && u.phase == stopped
	h.mu.Unlock()
	if isStopped {
		return nil, &host.StateError{Subject: u.subject(), Detail: "it is stopped, and only a started pool can be recycled"}
	}
	return h.through(ctx, h.pools, poolsKind, name, stopped, running)
}

// through moves the named unit through phases, and stops at the first that fails.
func (h *Host) through(ctx context.Context, of []*unit, kind, name string, phases ...phase) ([]*agentv1.Change, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := find(of, name)
	if u == nil {
		return nil, &host.NotFoundError{Kind: kind, Name: name}
	}
	if err := h.ready(ctx, u, phases); err != nil {
		return nil, err
	}
	var made []*agentv1.Change
	for _, to := range phases {
		changes, err := h.move(ctx, u, to)
		made = append(made, changes...)
		if err != nil {
			return made, err
		}
	}
	return made, nil
}

func find(units []*unit, name string) *unit {
	i := slices.IndexFunc(units, func(u *unit) bool { return fold(u.name) == fold(name) })
	if i < 0 {
		return nil
	}
	return units[i]
}
