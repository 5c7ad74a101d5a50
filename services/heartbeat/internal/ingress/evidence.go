package ingress

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// canaryKey marks the call that is a canary, in its metadata; its value is known to this process only.
const canaryKey = "commandcenter-canary"

// Evidence is what this control server can show of its listening.
type Evidence struct {
	consumer string // this process start
	secret   string

	mu         sync.Mutex
	cameAt     time.Time // the last canary that came back
	roundTrip  time.Duration
	missing    bool // the last one did not come back
	receivedAt time.Time
	reachedAt  time.Time // a canary was last received by the own listener, whatever became of it then
	overrunAt  time.Time // when an agent was last refused that may be refused again
}

// NewEvidence makes the evidence of this process.
func NewEvidence() *Evidence { return &Evidence{consumer: uuid.NewString(), secret: rand.Text()} }

func (e *Evidence) canary(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, canaryKey, e.secret)
}

func (e *Evidence) isCanary(ctx context.Context) bool {
	presented := metadata.ValueFromIncomingContext(ctx, canaryKey)
	return len(presented) == 1 && subtle.ConstantTimeCompare([]byte(presented[0]), []byte(e.secret)) == 1
}

// reached notes that a canary came to the own listener.
func (e *Evidence) reached() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reachedAt = time.Now()
}

// Reached returns why the own listener is not known to be reached; nil when it is.
func (e *Evidence) Reached() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reachedAt.IsZero() || time.Since(e.reachedAt) >= canaryMaxAge {
		return fmt.Errorf("no call of our own reached the agents' listener within %s", canaryMaxAge)
	}
	return nil
}

// received notes a heartbeat.
func (e *Evidence) received() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.receivedAt = time.Now()
}

// overrun notes that more agents want to connect than can be let in within the longest delay.
func (e *Evidence) overrun() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.overrunAt = time.Now()
}

// overrunFor is how long a control server that was overrun proves nothing: until the agents it refused have come again, a quarter later than they
// were asked to.
const overrunFor = maxDelay + maxDelay/4

// came notes how the newest canary went.
func (e *Evidence) came(roundTrip time.Duration, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.missing = err != nil; e.missing {
		return
	}
	e.cameAt, e.roundTrip = time.Now(), roundTrip
}

// failing tells whether the newest canary did not come back.
func (e *Evidence) failing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.missing
}

// Listening tells why this control server can't show that it hears; nil when it can.
func (e *Evidence) Listening() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cameAt.IsZero() || time.Since(e.cameAt) >= canaryMaxAge {
		return fmt.Errorf("no canary came back through the own listener within %s", canaryMaxAge)
	}
	return nil
}

// request is the evidence for the registry. One that turns agents away, is overrun, or is not in the cloud yet, shows no canary: its agents may live
// and be silent.
func (e *Evidence) request(oldest time.Duration, standing Standing) *registryv1.ReportIngestEvidenceRequest {
	proven := e.Listening() == nil && standing != Joining && standing.turnsAway() == ""
	e.mu.Lock()
	defer e.mu.Unlock()
	request := &registryv1.ReportIngestEvidenceRequest{
		Path: registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT, ConsumerId: e.consumer, OldestMessageAge: durationpb.New(oldest),
	}
	if proven && (e.overrunAt.IsZero() || time.Since(e.overrunAt) >= overrunFor) {
		request.CanaryRoundTrip = durationpb.New(e.roundTrip)
	}
	if !e.receivedAt.IsZero() {
		request.SinceLastReceive = durationpb.New(time.Since(e.receivedAt))
	}
	return request
}
