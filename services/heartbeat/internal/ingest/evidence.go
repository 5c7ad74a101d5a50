package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/heartbeat/internal/skew"
	"github.com/commandcenter/fleet/services/internal/lifecycle"
	"github.com/commandcenter/fleet/services/internal/servicebus"
)

const (
	// canaryProperty marks a canary; its value is the consumer that sent it.
	canaryProperty = "commandcenter-canary"
	canaryLifetime = 30 * time.Second
	// Interval is how often a canary is sent and evidence reported.
	Interval = 5 * time.Second
	// seekingInterval is used instead while none came back lately, or none of our own ever: at the start, and when competing replicas
	// got them all.
	seekingInterval = time.Second
	// lateAfter is when a canary has not come back lately.
	lateAfter = 2 * Interval
	// proofTimeout bounds each of the calls that prove something.
	proofTimeout = 5 * time.Second
	// canaryMaxAge is how long a canary that came back counts.
	canaryMaxAge = 15 * time.Second
)

func isCanary(message *servicebus.ReceivedMessage) bool {
	_, found := message.ApplicationProperties[canaryProperty]
	return found
}

// Evidence is what this consumer can show of its listening.
type Evidence struct {
	// Consumer is this process start.
	Consumer string
	// Clock is the broker's clock, which own canaries tell.
	Clock *servicebus.Clock

	mu         sync.Mutex
	sent       map[string]sending // own canaries on their way, by message id
	cameAt     time.Time          // the last canary through the whole ingest
	roundTrip  time.Duration
	receivedAt time.Time
	brokerSkew *registryv1.ClockSkew // measured with the last report; nil: not yet
}

// sending is a canary's way to the broker.
type sending struct {
	began time.Time
	ended time.Time // when the broker had confirmed it; zero: it has not yet
}

// NewEvidence makes the evidence of this process.
func NewEvidence(clock *servicebus.Clock) *Evidence {
	return &Evidence{Consumer: uuid.NewString(), Clock: clock, sent: map[string]sending{}}
}

// Received notes that something was received.
func (e *Evidence) Received() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.receivedAt = time.Now()
}

// Stamped takes from a canary of our own, received just now, what the broker's clock read when it took it.
func (e *Evidence) Stamped(message *servicebus.ReceivedMessage) {
	received := time.Now()
	e.mu.Lock()
	way, own := e.sent[message.MessageID]
	e.mu.Unlock()
	if !own || message.EnqueuedTime == nil {
		return
	}
	if way.ended.IsZero() { // the confirmation comes later than the message itself
		way.ended = received
	}
	e.Clock.Stamped(*message.EnqueuedTime, way.began, way.ended)
}

// CanaryCame notes a canary that went through the whole ingest. Replicas compete, so it may be another's: then its age by the
// broker's clock tells the way, as far as that is known.
func (e *Evidence) CanaryCame(message *servicebus.ReceivedMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cameAt = time.Now()
	if way, own := e.sent[message.MessageID]; own {
		delete(e.sent, message.MessageID)
		e.roundTrip = e.cameAt.Sub(way.began)
	} else if message.EnqueuedTime != nil {
		e.roundTrip, _ = e.Clock.Age(*message.EnqueuedTime, e.cameAt)
	}
}

func (e *Evidence) canary() *servicebus.Message {
	id, lifetime := uuid.NewString(), canaryLifetime
	e.mu.Lock()
	defer e.mu.Unlock()
	for old, way := range e.sent {
		if time.Since(way.began) > canaryLifetime {
			delete(e.sent, old) // another replica got it, or it expired
		}
	}
	e.sent[id] = sending{began: time.Now()}
	return &servicebus.Message{MessageID: &id, TimeToLive: &lifetime, ApplicationProperties: map[string]any{canaryProperty: e.Consumer}}
}

// confirmed notes that the broker has taken a canary.
func (e *Evidence) confirmed(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if way, found := e.sent[id]; found {
		way.ended = time.Now()
		e.sent[id] = way
	}
}

func (e *Evidence) request(oldest *time.Duration) *registryv1.ReportIngestEvidenceRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	request := &registryv1.ReportIngestEvidenceRequest{Path: registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS, ConsumerId: e.Consumer, BrokerSkew: e.brokerSkew}
	if !e.cameAt.IsZero() && time.Since(e.cameAt) < canaryMaxAge {
		request.CanaryRoundTrip = durationpb.New(e.roundTrip)
	}
	if oldest != nil {
		request.OldestMessageAge = durationpb.New(*oldest)
	}
	if !e.receivedAt.IsZero() {
		request.SinceLastReceive = durationpb.New(time.Since(e.receivedAt))
	}
	return request
}

// Listening tells why this consumer can't show that it hears; nil when it can.
func (e *Evidence) Listening() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cameAt.IsZero() || time.Since(e.cameAt) >= canaryMaxAge {
		return fmt.Errorf("no canary came back through the bus within %s", canaryMaxAge)
	}
	return nil
}

// interval is the time to the next canary.
func (e *Evidence) interval() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, _, known := e.Clock.Now(time.Now()); !known || e.cameAt.IsZero() || time.Since(e.cameAt) > lateAfter {
		return seekingInterval
	}
	return Interval
}

// Sender sends canaries; *servicebus.Sender is one.
type Sender interface {
	Send(ctx context.Context, message *servicebus.Message) error
}

// Backlog tells the age of the oldest message; *servicebus.Consumer is one.
type Backlog interface {
	Oldest(ctx context.Context) (enqueuedAt time.Time, found bool, err error)
}

// Reporter takes evidence; registryv1.AgentRegistryClient is one.
type Reporter interface {
	ReportIngestEvidence(ctx context.Context, request *registryv1.ReportIngestEvidenceRequest) (*registryv1.ReportIngestEvidenceResponse, error)
}

// Prover sends canaries and reports the evidence.
type Prover struct {
	Evidence *Evidence
	Sender   Sender
	Backlog  Backlog
	Reporter Reporter
	Metrics  *Metrics
	Skews    *skew.Metrics
	Logger   *slog.Logger
	// Reported is called after each report, with its failure if it failed.
	Reported func(error)
}

// Run goes on until the context ends.
func (p *Prover) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		var interval time.Duration
		err := lifecycle.Leave(ctx, func() error { // a bus that hangs holds up no stop
			p.send(ctx)
			interval = p.Evidence.interval()
			return p.Report(ctx)
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			interval = seekingInterval
		}
		timer.Reset(interval)
	}
}

func (p *Prover) send(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	canary := p.Evidence.canary()
	switch err := p.Sender.Send(bounded, canary); {
	case err == nil:
		p.Evidence.confirmed(*canary.MessageID)
	case ctx.Err() == nil:
		p.Logger.Warn("no canary could be sent", "error", err)
	}
}

// Report tells the registry what there is to show, and whether it answers.
func (p *Prover) Report(ctx context.Context) error {
	request := p.Evidence.request(p.oldest(ctx))
	if request.GetCanaryRoundTrip() != nil {
		p.Metrics.Canary.Set(request.GetCanaryRoundTrip().AsDuration().Seconds())
	}
	bounded, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	began := time.Now()
	answered, err := p.Reporter.ReportIngestEvidence(bounded, request)
	if ctx.Err() != nil {
		return err
	}
	if err == nil {
		p.measure(began, time.Now(), answered.GetDatabaseTime())
	}
	if err != nil {
		p.Logger.Warn("evidence could not be reported to the registry", "error", err)
	}
	p.Reported(err)
	return err
}

// measure holds the broker's clock, and this host's, against the database's as it was read during a call.
func (p *Prover) measure(began, ended time.Time, database *timestamppb.Timestamp) {
	p.Skews.Own(began, ended, database)
	early, _, known := p.Evidence.Clock.Now(began)
	late, within, _ := p.Evidence.Clock.Now(ended)
	if !known {
		return
	}
	measured := p.Skews.Broker(early, late.Add(within), database)
	p.Evidence.mu.Lock()
	defer p.Evidence.mu.Unlock()
	p.Evidence.brokerSkew = measured
}

// oldest is the age of the oldest message by the broker's own clock; nil if it could not be peeked, or that clock is not known yet.
func (p *Prover) oldest(ctx context.Context) *time.Duration {
	bounded, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	enqueuedAt, found, err := p.Backlog.Oldest(bounded)
	if err != nil {
		if ctx.Err() == nil {
			p.Logger.Warn("the oldest message could not be peeked", "error", err)
		}
		return nil
	}
	var age time.Duration
	if found {
		var known bool
		if age, known = p.Evidence.Clock.Age(enqueuedAt, time.Now()); !known {
			return nil
		}
	}
	return &age
}
