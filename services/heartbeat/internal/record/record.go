// Package record has the registry store heartbeats, whichever way they came: the one call, how much goes into it, and what its
// failure says of the heartbeats.
package record

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

const (
	// MaxItems is the registry's limit; MaxBytes keeps a call under its 8 MiB, whatever the size of the heartbeats,
	// which are smaller in the call than as they came.
	MaxItems = 1000
	MaxBytes = 3 << 20
	// timeout bounds one call to the registry, lastTimeout one that begins at the stop.
	timeout, lastTimeout = 10 * time.Second, 3 * time.Second
)

// Registry is what is called; registryv1.AgentRegistryClient is one but for its options.
type Registry interface {
	RecordHeartbeats(ctx context.Context, request *registryv1.RecordHeartbeatsRequest) (*registryv1.RecordHeartbeatsResponse, error)
}

// Recorder makes the call, and shows it in the metrics of its caller.
type Recorder struct {
	Registry Registry
	Duration prometheus.Observer
	Failures prometheus.Counter
}

// Call stores heartbeats, and returns the registry's answer to each. A call that is under way is not cut off by the end of ctx: its
// answer tells what is stored.
func (r Recorder) Call(ctx context.Context, heartbeats []*registryv1.ObservedHeartbeat) ([]*registryv1.RecordedHeartbeat, error) {
	limit := timeout
	if ctx.Err() != nil {
		limit = lastTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	began := time.Now()
	answered, err := r.Registry.RecordHeartbeats(ctx, &registryv1.RecordHeartbeatsRequest{Heartbeats: heartbeats})
	r.Duration.Observe(time.Since(began).Seconds())
	if err == nil {
		err = complete(answered.GetResults(), len(heartbeats))
	}
	if err != nil {
		r.Failures.Inc()
		return nil, err
	}
	return answered.GetResults(), nil
}

// complete tells whether every heartbeat was answered. What was not counts as not stored.
func complete(results []*registryv1.RecordedHeartbeat, items int) error {
	if len(results) != items {
		return status.Errorf(codes.Internal, "the registry answered %d of %d heartbeats", len(results), items)
	}
	for i, result := range results {
		if result.GetResult() == registryv1.HeartbeatResult_HEARTBEAT_RESULT_UNSPECIFIED {
			return status.Errorf(codes.Internal, "the registry did not say what became of heartbeat %d of %d", i+1, items)
		}
	}
	return nil
}

// Blame says what a failed call says of its heartbeats.
type Blame int

// Whom a failed call blames.
const (
	Nobody  Blame = iota // the registry cannot be reached, or is too busy
	Suspect              // it failed at its work: perhaps because of one of the heartbeats
	Culprit              // it says that the call itself is at fault
)

// BlameFor reads a failure of Call.
func BlameFor(err error) Blame {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.OutOfRange:
		return Culprit
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return Suspect
	}
	return Nobody
}
