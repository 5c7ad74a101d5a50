package sweep

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

// The broker's skew is shown on the path, and not written again with each measurement.
func TestTheBrokersSkewIsShownOnThePath(t *testing.T) {
	w := newWorld(t, 3)
	job := w.replica("a")
	measured := func(ahead time.Duration) verdict.Skew {
		t.Helper()
		w.registry.skew = &registryv1.ClockSkew{Ahead: durationpb.New(ahead), Uncertainty: durationpb.New(100 * time.Millisecond)}
		w.registry.now = w.registry.now.Add(limits.SweepInterval)
		w.beat()
		w.step(job)
		fleet, err := job.Store.Fleet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if other := fleet.Paths[verdict.Direct].Broker; other != (verdict.Skew{}) {
			t.Error("shown on the direct path:", other)
		}
		return fleet.Paths[verdict.Bus].Broker
	}
	if got := measured(time.Second); got != (verdict.Skew{}) {
		t.Error("a second is shown:", got)
	}
	behind := measured(-time.Minute)
	if behind.Ahead != -time.Minute {
		t.Error("a minute behind is shown as", behind)
	}
	if got := measured(-time.Minute - 300*time.Millisecond); got != behind {
		t.Error("measured again it is written again:", got)
	}
	if got := measured(0); got != (verdict.Skew{}) {
		t.Error("set right, and shown:", got)
	}
}
