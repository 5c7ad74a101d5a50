package record

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

func TestBlame(t *testing.T) {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		want := Nobody
		switch code {
		case codes.InvalidArgument, codes.OutOfRange:
			want = Culprit
		case codes.Internal, codes.Unknown, codes.DataLoss:
			want = Suspect
		}
		if got := BlameFor(status.Error(code, "x")); got != want {
			t.Errorf("%s: %d", code, got)
		}
	}
	if BlameFor(errors.New("no status")) != Suspect {
		t.Error("an error without a status is the registry's work gone wrong")
	}
}

type registry func(context.Context, *registryv1.RecordHeartbeatsRequest) (*registryv1.RecordHeartbeatsResponse, error)

func (r registry) RecordHeartbeats(ctx context.Context, request *registryv1.RecordHeartbeatsRequest) (*registryv1.RecordHeartbeatsResponse, error) {
	return r(ctx, request)
}

// An answer that leaves a heartbeat out, or says nothing of it, is no answer: nothing may be taken for stored (I-7).
func TestI7_AnIncompleteAnswerIsAFailure(t *testing.T) {
	updated := &registryv1.RecordedHeartbeat{Result: registryv1.HeartbeatResult_HEARTBEAT_RESULT_UPDATED}
	for name, results := range map[string][]*registryv1.RecordedHeartbeat{
		"too few": {updated}, "too many": {updated, updated, updated}, "says nothing": {updated, {}}, "none": nil,
	} {
		recorder := Recorder{
			Registry: registry(func(context.Context, *registryv1.RecordHeartbeatsRequest) (*registryv1.RecordHeartbeatsResponse, error) {
				return &registryv1.RecordHeartbeatsResponse{Results: results}, nil
			}),
			Duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "d"}), Failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "f"}),
		}
		if got, err := recorder.Call(t.Context(), make([]*registryv1.ObservedHeartbeat, 2)); err == nil || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// A drain must not cut off a call under way: its answer tells what is stored.
func TestACallOutlivesItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	recorder := Recorder{
		Registry: registry(func(ctx context.Context, _ *registryv1.RecordHeartbeatsRequest) (*registryv1.RecordHeartbeatsResponse, error) {
			cancel()
			_, bounded := ctx.Deadline()
			if ctx.Err() != nil || !bounded {
				t.Errorf("context: %v, bounded %v", ctx.Err(), bounded)
			}
			return &registryv1.RecordHeartbeatsResponse{}, nil
		}),
		Duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "d"}), Failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "f"}),
	}
	if _, err := recorder.Call(ctx, nil); err != nil {
		t.Error(err)
	}
}
