package simulated

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/commandcenter/fleet/agent/host"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// phase is the state of a service or an application pool.
//
//	stopped ──start──► starting ──time──► running ──stop──► stopping ──time──► stopped
type phase int

const (
	stopped phase = iota
	starting
	running
	stopping
)

func (p phase) pending() bool { return p == starting || p == stopping }

// unit is a service or an application pool: something that starts and stops, in its own time. Guarded by Host.mu.
type unit struct {
	kind string // "service" or "application pool"
	name string

	// of services
	displayName string
	startType   agentv1.ServiceStartType
	pid         int32

	// of pools
	runtimeVersion, pipelineMode, identity string

	phase     phase
	settlesAt time.Time     // when a pending phase ends
	hanging   bool          // pending phases do not end
	released  chan struct{} // closed by release; nil unless hanging
}

func (u *unit) subject() string { return u.kind + " " + u.name }

func (u *unit) hang() {
	if !u.hanging {
		u.hanging, u.released = true, make(chan struct{})
	}
}

func (u *unit) release() {
	if u.hanging {
		u.hanging = false
		close(u.released)
	}
}

// observe moves the unit to where it is at now: Windows finishes what was asked of it though nobody waits.
func (h *Host) observe(u *unit, now time.Time) {
	if !u.phase.pending() || u.hanging || now.Before(u.settlesAt) {
		return
	}
	if u.phase == starting {
		u.phase, u.pid = running, 1000+4*h.random.Int32N(8000)
		return
	}
	u.phase, u.pid = stopped, 0
}

// ready waits until the unit is in no pending phase, and says why it then cannot go through the phases. Host.mu is held, but open while it
// waits.
func (h *Host) ready(ctx context.Context, u *unit, phases []phase) error {
	if err := h.settle(ctx, u); err != nil {
		return &host.StateError{Subject: u.subject(), Detail: fmt.Sprintf("it was still in %s when the time to wait for it ended", u.words())}
	}
	if u.startType == agentv1.ServiceStartType_SERVICE_START_TYPE_DISABLED && slices.Contains(phases, running) {
		return &host.StateError{Subject: u.subject(), Detail: "it is disabled, so it can't be started"}
	}
	return nil
}

// move starts or stops the unit and waits until it is there. Host.mu is held, but open while it waits.
func (h *Host) move(ctx context.Context, u *unit, to phase) ([]*agentv1.Change, error) {
	if u.phase == to {
		return nil, nil
	}
	if err := h.failure(u.subject(), u.name); err != nil {
		return nil, err
	}
	before := u.words()
	if to == running {
		u.phase, u.settlesAt = starting, h.options.Clock.Now().Add(h.options.StartDuration)
	} else {
		u.phase, u.settlesAt = stopping, h.options.Clock.Now().Add(h.options.StopDuration)
	}
	err := h.settle(ctx, u)
	return []*agentv1.Change{{Subject: u.subject(), Before: before, After: u.words()}}, err
}

// settle waits until the unit is in no pending phase.
func (h *Host) settle(ctx context.Context, u *unit) error {
	for {
		now := h.options.Clock.Now()
		h.observe(u, now)
		if !u.phase.pending() {
			return nil
		}
		var due <-chan time.Time
		if !u.hanging {
			due = h.options.Clock.After(u.settlesAt.Sub(now))
		}
		released := u.released
		if !u.hanging {
			released = nil
		}
		h.mu.Unlock()
		select {
		case <-due:
		case <-released:
		case <-ctx.Done():
		}
		h.mu.Lock()
		if h.observe(u, h.options.Clock.Now()); u.phase.pending() && ctx.Err() != nil {
			return &host.FailedError{
				Subject: u.subject(), Err: context.Cause(ctx),
				Detail: fmt.Sprintf("it is still in %s, and was no longer waited for", u.words()),
			}
		}
	}
}

func (u *unit) words() string {
	if u.kind == servicesKind {
		return [...]string{"STOPPED", "START_PENDING", "RUNNING", "STOP_PENDING"}[u.phase]
	}
	return [...]string{"Stopped", "Starting", "Started", "Stopping"}[u.phase]
}
