package ingress

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/heartbeat/internal/skew"
	"github.com/commandcenter/fleet/services/internal/fault"
)

const (
	// renewInterval is how often the lease of 15 s is renewed.
	renewInterval = 5 * time.Second
	// cloudTimeout bounds a renewal, leaveTimeout the leave, which takes from the time to stop.
	cloudTimeout, leaveTimeout = 5 * time.Second, 3 * time.Second
)

// Standing is what a control server is in its cloud, as far as it knows.
type Standing int32

// The standings.
const (
	Joining     Standing = iota // the registry did not answer yet; agents are served, since only the registry could take their heartbeats
	Serving                     // agents are taken
	Draining                    // agents are served, and told to go to the next of their list
	Maintenance                 // agents are turned away
	Refused                     // another has its name or endpoint meanwhile: agents are turned away
)

// turnsAway says why agents are turned away; empty when they are not.
func (s Standing) turnsAway() string {
	switch s {
	case Maintenance:
		return "is in maintenance"
	case Refused:
		return "is refused by its cloud"
	}
	return ""
}

// refusals are the reasons for which a control server may not be in the cloud as it is.
var refusals = []fault.Reason{fault.NameTaken, fault.EndpointTaken, fault.ProtocolsApart, fault.InvalidArgument}

// Cloud is where control servers join; registryv1.ControlCloudClient is one but for its options.
type Cloud interface {
	RenewControlServer(ctx context.Context, request *registryv1.RenewControlServerRequest) (*registryv1.RenewControlServerResponse, error)
	LeaveCloud(ctx context.Context, request *registryv1.LeaveCloudRequest) (*registryv1.LeaveCloudResponse, error)
}

// Membership joins the cloud, stays in it, and leaves it at the stop.
//
//	joining ──► serving ◄──► draining ◄──► maintenance    as the registry says; unreachable, it stays as it was
//	               └──► refused ──► (any of them)          while another has the name or the endpoint
type Membership struct {
	cloud        Cloud
	self         *registryv1.RenewControlServerRequest // but for the agents connected
	drainTimeout time.Duration
	logger       *slog.Logger
	present      *presence

	// Skews measures this host's clock at each renewal; nil measures nothing.
	Skews *skew.Metrics

	standing atomic.Int32
	stopping atomic.Bool
	// Only Join and Run touch these: what was logged last, and this host's clock as the last renewal showed it.
	warnings, trouble string
	clockSkew         *registryv1.ClockSkew
}

// NewMembership makes it. Agents count as connected for a lifetime after they were last served, and at the stop have drainTimeout to
// hear that they are to go.
func NewMembership(cloud Cloud, self *registryv1.RenewControlServerRequest, lifetime, drainTimeout time.Duration, logger *slog.Logger) *Membership {
	return &Membership{cloud: cloud, self: self, drainTimeout: drainTimeout, logger: logger, present: newPresence(lifetime)}
}

// Standing is what the control server is now.
func (m *Membership) Standing() Standing {
	standing := Standing(m.standing.Load())
	if m.stopping.Load() && standing.turnsAway() == "" {
		return Draining
	}
	return standing
}

// Join joins the cloud. A refusal is an error; a registry that cannot be reached is not, and is tried again.
func (m *Membership) Join(ctx context.Context) error { return m.renew(ctx) }

// Run renews the lease until the context ends, then leaves the cloud and gives agents the time to hear of it. It returns an error if the
// control server is refused before it was ever in.
func (m *Membership) Run(ctx context.Context) error {
	ticker := time.NewTicker(renewInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			m.leave(context.WithoutCancel(ctx))
			return nil
		case <-ticker.C:
			if err := m.renew(ctx); err != nil {
				return err
			}
		}
	}
}

func (m *Membership) renew(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, cloudTimeout)
	defer cancel()
	request := &registryv1.RenewControlServerRequest{
		Name: m.self.GetName(), GrpcEndpoint: m.self.GetGrpcEndpoint(), RestEndpoint: m.self.GetRestEndpoint(), Version: m.self.GetVersion(),
		ProtocolMin: m.self.GetProtocolMin(), ProtocolMax: m.self.GetProtocolMax(), AgentsConnected: int32(m.present.count(time.Now())),
		ClockSkew: m.clockSkew,
	}
	began := time.Now()
	answered, err := m.cloud.RenewControlServer(bounded, request)
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		if m.Skews != nil {
			m.clockSkew = m.Skews.Own(began, time.Now(), answered.GetDatabaseTime())
		}
		m.trouble = ""
		m.become(answered)
		return nil
	}
	found := fault.From(err)
	if !slices.Contains(refusals, found.Reason) {
		m.complain("the cloud of control servers cannot be reached; the lease is not renewed, and tried again", err)
		return nil
	}
	if Standing(m.standing.Load()) == Joining {
		return fault.New(found.Reason, "the control server %q cannot join the cloud: %s", m.self.GetName(), found.Detail).WithCause(err)
	}
	m.standing.Store(int32(Refused))
	m.complain("the cloud refuses this control server now; agents are turned away until that is resolved", err)
	return nil
}

// become takes over what the registry says.
func (m *Membership) become(answered *registryv1.RenewControlServerResponse) {
	if text := strings.Join(answered.GetWarnings(), "; "); text != m.warnings {
		m.warnings = text
		if text != "" {
			m.logger.Warn("the cloud of control servers is unusual", "warnings", text)
		}
	}
	next := standingOf(answered.GetState())
	if before := Standing(m.standing.Swap(int32(next))); before != next {
		m.logger.Info("standing in the cloud of control servers", "name", m.self.GetName(), "state", answered.GetState().String())
	}
}

// standingOf reads a state. One that just renewed is neither suspect nor evicted; what is newer than we are is taken for normal.
func standingOf(state registryv1.ControlServerState) Standing {
	switch state {
	case registryv1.ControlServerState_CONTROL_SERVER_STATE_DRAINING:
		return Draining
	case registryv1.ControlServerState_CONTROL_SERVER_STATE_MAINTENANCE:
		return Maintenance
	}
	return Serving
}

// complain logs a trouble once.
func (m *Membership) complain(what string, err error) {
	if err.Error() != m.trouble {
		m.trouble = err.Error()
		m.logger.Error(what, "name", m.self.GetName(), "error", err)
	}
}

// leave ends the lease, and waits until every agent was told to go, or for drainTimeout.
func (m *Membership) leave(ctx context.Context) {
	standing := Standing(m.standing.Load())
	m.stopping.Store(true)
	if standing == Joining || standing == Refused {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	_, err := m.cloud.LeaveCloud(bounded, &registryv1.LeaveCloudRequest{Name: m.self.GetName(), GrpcEndpoint: m.self.GetGrpcEndpoint()})
	if err != nil {
		m.logger.Warn("the cloud of control servers could not be told that this one stops; its lease lapses by itself", "error", err)
	}
	timer := time.NewTimer(m.drainTimeout)
	defer timer.Stop()
	select {
	case <-m.present.emptied():
	case <-timer.C:
		m.logger.Info("stopping before every agent was told to go; they go on by themselves", "agents", m.present.count(time.Now()))
	}
}
