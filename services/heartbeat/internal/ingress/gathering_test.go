package ingress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// fakeRegistry stores names, and fails as told.
type fakeRegistry struct {
	mu     sync.Mutex
	stored map[string]int
	calls  int
	before func(context.Context, []*registryv1.ObservedHeartbeat) error
}

func (f *fakeRegistry) RecordHeartbeats(ctx context.Context, request *registryv1.RecordHeartbeatsRequest) (*registryv1.RecordHeartbeatsResponse, error) {
	f.mu.Lock()
	f.calls++
	before := f.before
	f.mu.Unlock()
	if before != nil {
		if err := before(ctx, request.GetHeartbeats()); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := &registryv1.RecordHeartbeatsResponse{}
	for _, one := range request.GetHeartbeats() {
		f.stored[one.GetHeartbeat().GetName()]++
		answer.Results = append(answer.Results, &registryv1.RecordedHeartbeat{
			Result: registryv1.HeartbeatResult_HEARTBEAT_RESULT_UPDATED, Description: one.GetHeartbeat().GetName(),
		})
	}
	return answer, nil
}

func (f *fakeRegistry) set(before func(context.Context, []*registryv1.ObservedHeartbeat) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = before
}

func observed(name string) *registryv1.ObservedHeartbeat {
	return &registryv1.ObservedHeartbeat{Heartbeat: &agentv1.Heartbeat{Name: name}, Identity: &registryv1.DirectIdentity{Enrols: true}}
}

func newTestGathering(registry *fakeRegistry, report func(context.Context) error) *Gathering {
	registry.stored = map[string]int{}
	return NewGathering(registry, report, NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
}

// during runs a gathering in a bubble, where time passes when all wait.
func during(t *testing.T, registry *fakeRegistry, report func(context.Context) error, f func(t *testing.T, g *Gathering, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newTestGathering(registry, report)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = g.Run(ctx) })
		f(t, g, cancel)
		cancel()
		running.Wait()
		if calls, _ := g.pending.count(); calls != 0 {
			t.Errorf("%d calls are left pending", calls)
		}
	})
}

func fine(context.Context) error { return nil }

// While the registry hangs, calls end when their time does, and no more are held than may be.
func TestAHangingRegistryHoldsNoMoreThanItMay(t *testing.T) {
	registry := &fakeRegistry{}
	registry.set(func(ctx context.Context, _ []*registryv1.ObservedHeartbeat) error {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	})
	during(t, registry, fine, func(t *testing.T, g *Gathering, _ func()) {
		var all sync.WaitGroup
		var mu sync.Mutex
		got := map[string]int{}
		for i := range maxPending + 100 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second) // longer than a call to the registry
				defer cancel()
				_, err := g.Record(ctx, observed(fmt.Sprint(i)))
				mu.Lock()
				defer mu.Unlock()
				got[fmt.Sprint(err)]++
			})
		}
		synctest.Wait()
		if calls, _ := g.pending.count(); calls != maxPending {
			t.Errorf("%d calls are held", calls)
		}
		time.Sleep(9 * time.Second) // of the bubble's time
		if age := g.Oldest(); age != 9*time.Second {
			t.Errorf("the oldest waits for %s", age)
		}
		all.Wait()
		if got[errFull.Error()] != 100 || got[errAway.Error()]+got[context.DeadlineExceeded.Error()] != maxPending || !g.Failing() {
			t.Errorf("answered %v, failing %v", got, g.Failing())
		}
		registry.set(nil)
		if _, err := g.Record(t.Context(), observed("late")); err != nil || g.Failing() {
			t.Errorf("after the outage: %v, failing %v", err, g.Failing())
		}
	})
}

// A lone heartbeat waits for others only briefly; large ones do not make a call too large.
func TestBatchesAreBounded(t *testing.T) {
	registry, sizes := &fakeRegistry{}, make(chan int, 1000)
	registry.set(func(_ context.Context, items []*registryv1.ObservedHeartbeat) error { sizes <- len(items); return nil })
	during(t, registry, fine, func(t *testing.T, g *Gathering, _ func()) {
		began := time.Now()
		if _, err := g.Record(t.Context(), observed("alone")); err != nil || time.Since(began) > 2*linger {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		<-sizes
		var all sync.WaitGroup
		for i := range 1200 {
			all.Go(func() {
				if _, err := g.Record(t.Context(), observed(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		total, batches := 0, 0
		for ; total < 1200; batches++ {
			size := <-sizes
			if total += size; size > most {
				t.Errorf("a call of %d", size)
			}
		}
		if batches > 4 {
			t.Errorf("%d calls for 1,200 at once", batches)
		}
		large := observed("large")
		large.Heartbeat.Hostname = string(make([]byte, 1<<20))
		for range 12 {
			all.Go(func() { _, _ = g.Record(t.Context(), large) })
		}
		all.Wait()
		for total = 0; total < 12; {
			size := <-sizes
			if total += size; size > 4 {
				t.Errorf("a call of %d MiB", size)
			}
		}
	})
}

// At the stop what waits is recorded, and who comes after it is told so.
func TestI7_AStoppedGatheringRecordsWhatWaits(t *testing.T) {
	registry := &fakeRegistry{}
	// More than all workers take at once, so that some wait in the queue.
	during(t, registry, fine, func(t *testing.T, g *Gathering, stop func()) {
		hold := make(chan struct{})
		registry.set(func(context.Context, []*registryv1.ObservedHeartbeat) error { <-hold; return nil })
		errs := make(chan error, 3000)
		for i := range 2040 {
			go func() { _, err := g.Record(context.Background(), observed(fmt.Sprint(i))); errs <- err }()
		}
		synctest.Wait()
		stop()
		synctest.Wait()
		close(hold)
		for range 2040 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		<-g.ended
		if _, err := g.Record(context.Background(), observed("late")); !errors.Is(err, errEnded) {
			t.Errorf("after the stop: %v", err)
		}
		if len(registry.stored) != 2040 {
			t.Errorf("%d stored", len(registry.stored))
		}
		g.pending = newPending() // the late one is left pending, since nobody works any more
	})
}

// Whatever mix of poison there is: each heartbeat gets its own answer, good ones are stored, nothing else is answered OK.
func TestI7_EachHeartbeatGetsItsOwnAnswer(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"good", "good", "good", "crash", "refused"}), 1, 60).Draw(r, "names")
		wrong := ""
		registry := &fakeRegistry{}
		during(t, registry, fine, func(t *testing.T, g *Gathering, _ func()) {
			if _, err := g.Record(t.Context(), observed("first")); err != nil {
				wrong = err.Error()
				return
			}
			registry.set(func(_ context.Context, items []*registryv1.ObservedHeartbeat) error {
				for _, one := range items {
					switch one.GetHeartbeat().GetHostname() {
					case "crash":
						return status.Error(codes.Internal, "panic")
					case "refused":
						return status.Error(codes.InvalidArgument, "no")
					}
				}
				return nil
			})
			var all sync.WaitGroup
			var mu sync.Mutex
			for i, kind := range names {
				all.Go(func() {
					one := observed(fmt.Sprint(i))
					one.Heartbeat.Hostname = kind
					recorded, err := g.Record(t.Context(), one)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case kind == "good" && (err != nil || recorded.GetDescription() != fmt.Sprint(i)),
						kind == "crash" && !errors.Is(err, errPoison), kind == "refused" && !errors.Is(err, errRefused):
						wrong = fmt.Sprintf("%d, %s: %v, %v", i, kind, recorded, err)
					}
				})
			}
			all.Wait()
			for i, kind := range names {
				if (registry.stored[fmt.Sprint(i)] > 0) != (kind == "good") {
					wrong = fmt.Sprintf("%d, %s: stored %d times", i, kind, registry.stored[fmt.Sprint(i)])
				}
			}
			if g.Failing() {
				wrong = "the registry is blamed"
			}
		})
		if wrong != "" {
			r.Fatal(wrong)
		}
	})
}

// A registry that fails at everything is asked a bounded number of times, blames nobody, and what is good is enrolled no second time.
func TestARegistryThatFailsAtEverythingBlamesNobody(t *testing.T) {
	registry := &fakeRegistry{}
	during(t, registry, fine, func(t *testing.T, g *Gathering, _ func()) {
		if _, err := g.Record(t.Context(), observed("first")); err != nil {
			t.Fatal(err)
		}
		registry.set(func(_ context.Context, items []*registryv1.ObservedHeartbeat) error {
			if len(items) == 1 && items[0].GetHeartbeat().GetName() == "first" && items[0].GetIdentity().GetEnrols() {
				t.Error("what was taken is enrolled once more")
			}
			return status.Error(codes.Internal, "broken")
		})
		var all sync.WaitGroup
		for i := range 400 {
			all.Go(func() {
				if _, err := g.Record(t.Context(), observed(fmt.Sprint(i))); !errors.Is(err, errAway) {
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		all.Wait()
		if registry.calls > 5*maxFailures || !g.Failing() {
			t.Errorf("%d calls, failing %v", registry.calls, g.Failing())
		}
	})
}

// A canary comes back only if the registry answers for it and takes heartbeats.
func TestI11_ACanaryProvesNothingWhileHeartbeatsCannotBeStored(t *testing.T) {
	registry := &fakeRegistry{}
	var reported int
	var failure error
	report := func(context.Context) error { reported++; return failure }
	during(t, registry, report, func(t *testing.T, g *Gathering, _ func()) {
		if err := g.Prove(t.Context()); err != nil || reported != 1 || registry.calls != 0 {
			t.Errorf("%v, %d reports, %d calls", err, reported, registry.calls)
		}
		failure = status.Error(codes.Unavailable, "down")
		if err := g.Prove(t.Context()); err == nil {
			t.Error("it came back although the registry is down")
		}
		failure = nil
		registry.set(func(context.Context, []*registryv1.ObservedHeartbeat) error {
			return status.Error(codes.Unavailable, "read only")
		})
		_, _ = g.Record(t.Context(), observed("a"))
		if err := g.Prove(t.Context()); !errors.Is(err, errAway) || reported != 2 {
			t.Errorf("%v, %d reports", err, reported)
		}
		time.Sleep(doubt) // of the bubble's time: with nobody who tries, it cannot be known
		if err := g.Prove(t.Context()); err != nil {
			t.Error(err)
		}
		_, _ = g.Record(t.Context(), observed("a"))
		registry.set(nil)
		_, _ = g.Record(t.Context(), observed("a"))
		if err := g.Prove(t.Context()); err != nil {
			t.Errorf("after the registry took one: %v", err)
		}
	})
}

// Whatever waits grows older, and one that is sent once more, to see whether the registry takes any, does not make its agent live again.
func TestI11_HeartbeatsGrowOlderWhileTheyAreHeld(t *testing.T) {
	registry := &fakeRegistry{}
	ages := map[string][]time.Duration{}
	registry.set(func(_ context.Context, group []*registryv1.ObservedHeartbeat) error {
		for _, one := range group {
			name := one.GetHeartbeat().GetName()
			ages[name] = append(ages[name], one.GetAge().AsDuration())
			if name == "BAD" {
				time.Sleep(3 * time.Second) // of the bubble's time
				return status.Error(codes.Internal, "chokes")
			}
		}
		return nil
	})
	during(t, registry, fine, func(t *testing.T, g *Gathering, _ func()) {
		if _, err := g.Record(t.Context(), observed("GOOD")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if _, err := g.Record(t.Context(), observed("BAD")); !errors.Is(err, errPoison) {
			t.Fatal(err)
		}
	})
	if got := ages["GOOD"]; len(got) != 2 || got[0] > time.Second || got[1] < 10*time.Minute {
		t.Errorf("recorded at the ages %v", got)
	}
}
