package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/servicebus"
)

const (
	// canaryProperty marks a canary; its value is the consumer that sent it.
	canaryProperty = "commandcenter-canary"
	canaryLifetime = 30 * time.Second
	// Interval is how often a canary is sent and evidence reported.
	Interval = 5 * time.Second
	// seekingInterval is used instead while none came back lately: at the start, and when competing replicas got them all.
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

	mu         sync.Mutex
	sentAt     map[string]time.Time // own canaries on their way, by message id
	cameAt     time.Time            // the last canary through the whole ingest
	roundTrip  time.Duration
	receivedAt time.Time
}

// NewEvidence makes the evidence of this process.
func NewEvidence() *Evidence {
	return &Evidence{Consumer: uuid.NewString(), sentAt: map[string]time.Time{}}
}

// Received notes that something was received.
func (e *Evidence) Received() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.receivedAt = time.Now()
}

// CanaryCame notes a canary that went through the whole ingest. Replicas compete, so it may be another's: then its age by the
// broker's clock tells the way.
func (e *Evidence) CanaryCame(message *servicebus.ReceivedMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cameAt = time.Now()
	if sentAt, own := e.sentAt[message.MessageID]; own {
		delete(e.sentAt, message.MessageID)
		e.roundTrip = e.cameAt.Sub(sentAt)
	} else if message.EnqueuedTime != nil {
		e.roundTrip = max(0, e.cameAt.Sub(*message.EnqueuedTime))
	}
}

func (e *Evidence) canary() *servicebus.Message {
	id, lifetime := uuid.NewString(), canaryLifetime
	e.mu.Lock()
	defer e.mu.Unlock()
	for old, sentAt := range e.sentAt {
		if time.Since(sentAt) > canaryLifetime {
			delete(e.sentAt, old) // another replica got it, or it expired
		}
	}
	e.sentAt[id] = time.Now()
	return &servicebus.Message{MessageID: &id, TimeToLive: &lifetime, ApplicationProperties: map[string]any{canaryProperty: e.Consumer}}
}

func (e *Evidence) request(oldest *time.Duration) *registryv1.ReportIngestEvidenceRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	request := &registryv1.ReportIngestEvidenceRequest{Path: registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS, ConsumerId: e.Consumer}
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
	if e.cameAt.IsZero() || time.Since(e.cameAt) > lateAfter {
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
		p.send(ctx)
		interval := p.Evidence.interval()
		if p.Report(ctx) != nil {
			interval = seekingInterval
		}
		timer.Reset(interval)
	}
}

func (p *Prover) send(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	if err := p.Sender.Send(bounded, p.Evidence.canary()); err != nil && ctx.Err() == nil {
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
	_, err := p.Reporter.ReportIngestEvidence(bounded, request)
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		p.Logger.Warn("evidence could not be reported to the registry", "error", err)
	}
	p.Reported(err)
	return err
}

// oldest is the age of the oldest message, nil if it could not be peeked. It compares our clock with the broker's, which may
// differ by much less than the ages that matter.
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
		age = max(0, time.Since(enqueuedAt))
	}
	return &age
}
