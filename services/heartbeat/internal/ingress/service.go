package ingress

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

const (
	// answerTimeout is how long a heartbeat waits for the registry, for an agent that names no time: less than the 5 s after which agents
	// take a control server for one that is down. What is stored later is stored; the agent's next heartbeat is another.
	answerTimeout = 4500 * time.Millisecond
	// minBusyDelay and maxBusyDelay bound the time after which an agent comes again while the registry takes nothing, half a heartbeat
	// interval to a whole one: soon enough to be heard again before it counts as silent (90 s), and spread, so that they don't come in step.
	minBusyDelay, maxBusyDelay = 15 * time.Second, 30 * time.Second
	// listTimeout bounds the reading of a list.
	listTimeout = 4500 * time.Millisecond
)

// Causes of being busy, in the metrics.
const (
	busyConnects = "connects"
	busyPending  = "pending"
	busyRegistry = "registry"
)

// Protocols is the versions of the agents' protocol that are spoken, both ends included.
type Protocols struct{ Min, Max int32 }

// Lists reads failover lists; registryv1.ControlCloudClient does but for its options.
type Lists interface {
	GetFailoverList(ctx context.Context, request *registryv1.GetFailoverListRequest) (*registryv1.GetFailoverListResponse, error)
}

// Options is what the service is made of. All fields are required.
type Options struct {
	Name              string
	Protocols         Protocols
	HeartbeatInterval time.Duration
	ConnectsPerSecond int
	Key               *EnrolmentKey
	Gathering         *Gathering
	Lists             Lists
	Membership        *Membership
	Evidence          *Evidence
	Metrics           *Metrics
}

// Service answers agents.
type Service struct {
	heartbeatv1.UnimplementedAgentIngressServer
	Options
	connects *bucket
	present  *presence
	now      func() time.Time
}

// NewService makes it.
func NewService(options Options) *Service {
	s := &Service{
		Options: options, connects: newBucket(options.ConnectsPerSecond, time.Now()), present: options.Membership.present, now: time.Now,
	}
	options.Metrics.agents(func() float64 { return float64(s.present.count(s.now())) })
	options.Metrics.takesAgents(s.TakesAgents)
	return s
}

// Register implements heartbeatv1.AgentIngressServer.
func (s *Service) Register(ctx context.Context, request *heartbeatv1.RegisterRequest) (_ *heartbeatv1.RegisterResponse, err error) {
	defer func() { s.Metrics.answered("Register", err) }()
	if err := s.enrols(request.GetEnrolmentKey()); err != nil {
		return nil, err
	}
	if err := s.Protocols.meet(request.GetProtocols()); err != nil {
		return nil, err
	}
	if err := s.serves(); err != nil {
		return nil, err
	}
	now := s.now()
	if err := s.connect(now); err != nil {
		return nil, err
	}
	recorded, err := s.record(ctx, now, request.GetHeartbeat(), identity(request.GetToken(), request.GetListEtag(), true))
	if err != nil {
		return nil, err
	}
	return &heartbeatv1.RegisterResponse{
		FailoverList: recorded.GetFailoverList(), ControlServer: s.Name, HeartbeatInterval: durationpb.New(s.HeartbeatInterval),
	}, nil
}

// Heartbeat implements heartbeatv1.AgentIngressServer.
func (s *Service) Heartbeat(ctx context.Context, request *heartbeatv1.HeartbeatRequest) (_ *heartbeatv1.HeartbeatResponse, err error) {
	defer func() { s.Metrics.answered("Heartbeat", err) }()
	if err := s.serves(); err != nil {
		return nil, err
	}
	now, who := s.now(), identity(request.GetToken(), request.GetListEtag(), false)
	if !s.present.known(hash(who.GetTokenHash()), now) {
		if err := s.connect(now); err != nil {
			return nil, err
		}
	}
	recorded, err := s.record(ctx, now, request.GetHeartbeat(), who)
	if err != nil {
		return nil, err
	}
	draining := s.Membership.Standing() == Draining
	if draining && s.Membership.stopping.Load() {
		s.present.leave(hash(who.GetTokenHash()))
	}
	return &heartbeatv1.HeartbeatResponse{FailoverList: recorded.GetFailoverList(), Draining: draining}, nil
}

// GetFailoverList implements heartbeatv1.AgentIngressServer. It counts as a connect, since the registry is read for it.
func (s *Service) GetFailoverList(ctx context.Context, request *heartbeatv1.GetFailoverListRequest) (_ *heartbeatv1.GetFailoverListResponse, err error) {
	defer func() { s.Metrics.answered("GetFailoverList", err) }()
	if err := s.enrols(request.GetEnrolmentKey()); err != nil {
		return nil, err
	}
	if err := s.serves(); err != nil {
		return nil, err
	}
	if err := s.connect(s.now()); err != nil {
		return nil, err
	}
	ctx, cancel := withinCall(ctx, listTimeout)
	defer cancel()
	read, err := s.Lists.GetFailoverList(ctx, &registryv1.GetFailoverListRequest{Agent: request.GetName()})
	if err != nil {
		if known := fault.From(err); known.Reason == fault.AgentNotFound || known.Reason == fault.InvalidArgument {
			return nil, known
		}
		return nil, s.busy(busyRegistry, "the registry does not answer").WithCause(err)
	}
	list := read.GetFailoverList()
	if list.GetEtag() == request.GetListEtag() {
		list = nil
	}
	return &heartbeatv1.GetFailoverListResponse{FailoverList: list}, nil
}

// Ping implements heartbeatv1.AgentIngressServer. This process's own canary goes on to the registry.
func (s *Service) Ping(ctx context.Context, _ *heartbeatv1.PingRequest) (_ *heartbeatv1.PingResponse, err error) {
	defer func() { s.Metrics.answered("Ping", err) }()
	if s.Evidence.isCanary(ctx) {
		s.Evidence.reached()
		if err := s.serves(); err != nil {
			return nil, err
		}
		if err := s.Gathering.Prove(ctx); err != nil {
			return nil, s.failed(ctx, err)
		}
	}
	return &heartbeatv1.PingResponse{
		ControlServer: s.Name, TakesAgents: s.TakesAgents(), Protocols: &heartbeatv1.ProtocolRange{Min: s.Protocols.Min, Max: s.Protocols.Max},
	}, nil
}

// TakesAgents tells agents elsewhere whether to come. What is draining still serves those it has; what cannot reach the registry would
// only keep them waiting.
func (s *Service) TakesAgents() bool {
	return s.Membership.Standing() == Serving && !s.Gathering.Failing() && !s.Evidence.failing()
}

// enrols checks the enrolment key, before anything else is looked at.
func (s *Service) enrols(key string) error {
	if !s.Key.Matches(key) {
		return fault.New(fault.Unauthenticated, "the enrolment key is wrong; nothing was changed")
	}
	return nil
}

// meet checks that agent and control server have a version in common. An agent that names none is taken for one of any.
func (p Protocols) meet(agent *heartbeatv1.ProtocolRange) error {
	switch {
	case agent == nil:
		return nil
	case agent.GetMin() > agent.GetMax():
		return fault.Invalid("/protocols/min", "must not be above max, which is %d", agent.GetMax())
	case agent.GetMax() < p.Min || agent.GetMin() > p.Max:
		return fault.New(fault.ProtocolsApart, "the agent speaks protocol versions %d to %d and this control server %d to %d; nothing was changed. "+
			"Upgrade the one that is behind", agent.GetMin(), agent.GetMax(), p.Min, p.Max)
	}
	return nil
}

// serves turns agents away where the control server is not to serve.
func (s *Service) serves() error {
	if why := s.Membership.Standing().turnsAway(); why != "" {
		return fault.New(fault.Draining, "the control server %s %s; nothing was changed. Ask the next of the list", s.Name, why)
	}
	return nil
}

// connect lets an agent in that was not here lately, at the rate at which that is allowed.
func (s *Service) connect(now time.Time) error {
	if delay, taken := s.connects.take(now, rand.Float64()); !taken {
		if s.connects.isOverrun() {
			s.Evidence.overrun()
		}
		return s.Metrics.busy(busyConnects, delay, "too many agents connect at once")
	}
	return nil
}

func identity(token, etag string, enrols bool) *registryv1.DirectIdentity {
	sum := sha256.Sum256([]byte(token))
	return &registryv1.DirectIdentity{TokenHash: sum[:], Enrols: enrols, ListEtag: etag}
}

// record has a heartbeat stored, and says why if it was not.
func (s *Service) record(ctx context.Context, now time.Time, heartbeat *agentv1.Heartbeat, who *registryv1.DirectIdentity) (*registryv1.RecordedHeartbeat, error) {
	waiting, cancel := withinCall(ctx, answerTimeout)
	defer cancel()
	s.Evidence.received()
	recorded, err := s.Gathering.Record(waiting, &registryv1.ObservedHeartbeat{
		Heartbeat: heartbeat, Path: registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT, ObservedAt: timestamppb.New(now), Identity: who,
	})
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	if refusal := refusalOf(recorded, heartbeat.GetName(), who.GetEnrols()); refusal != nil {
		return nil, refusal
	}
	s.present.add(hash(who.GetTokenHash()), now)
	return recorded, nil
}

// failed is the answer where no result came back. The registry being away is no reason to run around the cloud, whose other control
// servers call the same registry: so agents are asked to wait.
func (s *Service) failed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // nobody waits any more
	case errors.Is(err, errFull):
		return s.busy(busyPending, "too many heartbeats wait for the registry")
	case errors.Is(err, errRefused):
		return fault.Invalid("/heartbeat", "the registry refuses it")
	case errors.Is(err, errPoison):
		return fault.New(fault.Internal, "the registry cannot store this heartbeat, though it takes others; it was not stored. The cause is in the log")
	case errors.Is(err, errEnded):
		return fault.New(fault.Draining, "the control server %s stops; nothing was changed. Ask the next of the list", s.Name)
	}
	return s.busy(busyRegistry, "the registry does not take heartbeats").WithCause(err)
}

func (s *Service) busy(cause, why string) *fault.Error {
	return s.Metrics.busy(cause, busyDelay(), why)
}

func busyDelay() time.Duration { return minBusyDelay + rand.N(maxBusyDelay-minBusyDelay) }

// withinCall leaves a tenth of the caller's time for the answer. An agent whose call runs out hears nothing, and takes a control server
// whose registry hangs for one that is down.
func withinCall(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if deadline, bounded := ctx.Deadline(); bounded {
		limit = min(limit, time.Until(deadline)*9/10)
	}
	return context.WithTimeout(ctx, limit)
}
