package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/heartbeat/internal/record"
	"github.com/commandcenter/fleet/services/internal/servicebus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSource is a subscription in memory: a message comes again when it is released.
type fakeSource struct {
	mu         sync.Mutex
	waiting    []*servicebus.ReceivedMessage
	deliveries map[string]int
	settled    map[string]string // "" completed, otherwise the reason
	renewed    map[string]int
	failing    int // renewals that fail yet
	lock       time.Duration
}

func newSource(bodies ...string) *fakeSource {
	s := &fakeSource{deliveries: map[string]int{}, settled: map[string]string{}, renewed: map[string]int{}, lock: time.Minute}
	for i, body := range bodies {
		s.add(fmt.Sprint(i), body)
	}
	return s
}

func (s *fakeSource) add(id, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, &servicebus.ReceivedMessage{MessageID: id, Body: []byte(body)})
}

func (s *fakeSource) Receive(ctx context.Context, most int) []servicebus.Delivery {
	s.mu.Lock()
	n := min(most, len(s.waiting))
	taken := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	for _, message := range taken {
		s.deliveries[message.MessageID]++
	}
	s.mu.Unlock()
	if n == 0 {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	all := make([]servicebus.Delivery, n)
	for i, message := range taken {
		all[i] = servicebus.Delivery{ReceivedMessage: message}
	}
	return all
}

func (s *fakeSource) Settle(_ context.Context, settlements []servicebus.Settlement) servicebus.Settled {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range settlements {
		if one.Release {
			s.waiting = append(s.waiting, one.ReceivedMessage)
			continue
		}
		s.settled[one.MessageID] = one.DeadLetterReason
	}
	return servicebus.Settled{}
}

func (s *fakeSource) Renew(_ context.Context, deliveries []servicebus.Delivery) (failed []servicebus.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing > 0 {
		s.failing--
		return deliveries
	}
	for _, one := range deliveries {
		s.renewed[one.MessageID]++
	}
	return nil
}

func (s *fakeSource) LockDuration() time.Duration { return s.lock }

func (s *fakeSource) most() (most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.deliveries {
		most = max(most, n)
	}
	return most
}

func (s *fakeSource) done() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := map[string]string{}
	for id, reason := range s.settled {
		done[id] = reason
	}
	return done
}

// registryFunc answers in the place of the registry.
type registryFunc func(names []string) error

func (f registryFunc) RecordHeartbeats(_ context.Context, request *registryv1.RecordHeartbeatsRequest) (*registryv1.RecordHeartbeatsResponse, error) {
	var names []string
	answer := &registryv1.RecordHeartbeatsResponse{}
	for _, one := range request.GetHeartbeats() {
		names = append(names, one.GetHeartbeat().GetName())
		answer.Results = append(answer.Results, &registryv1.RecordedHeartbeat{Result: registryv1.HeartbeatResult_HEARTBEAT_RESULT_UPDATED})
	}
	if err := f(names); err != nil {
		if errors.Is(err, errShort) {
			answer.Results = answer.Results[1:]
			return answer, nil
		}
		return nil, err
	}
	return answer, nil
}

var errShort = errors.New("answers too little")

func newLoop(source Source, registry record.Registry) *Loop {
	return &Loop{
		Source: source, Registry: registry, Evidence: NewEvidence(&servicebus.Clock{}), Logger: slog.New(slog.DiscardHandler),
		Metrics: NewMetrics(prometheus.NewRegistry(), func() int64 { return 0 }),
		Answers: func(context.Context) error { return nil }, Most: 500, Workers: 2, HoldTimeout: 15 * time.Second,
	}
}

// during runs the loop while f looks on, and ends it.
func during(t *testing.T, loop *Loop, f func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	f()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// pass lets time go by in a synctest bubble, until everybody waits again.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func named(names ...string) []string {
	for i, name := range names {
		names[i] = `{"name":"` + name + `"}`
	}
	return names
}

// An outage of an hour costs each message one delivery more, and is over soon after the registry is back.
func TestI7_AnHourWithoutRegistryCostsOneDelivery(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.ResourceExhausted, codes.PermissionDenied} {
		synctest.Test(t, func(t *testing.T) {
			var down atomic.Bool
			source := newSource(named("A")...)
			loop := newLoop(source, registryFunc(func([]string) error {
				if down.Load() {
					return status.Error(code, "down")
				}
				return nil
			}))
			during(t, loop, func() {
				pass(time.Second)
				down.Store(true)
				for i := range 4 {
					source.add(fmt.Sprint("later", i), `{"name":"B"}`)
				}
				pass(time.Hour)
				if got := source.done(); len(got) != 1 || source.most() != 1 {
					t.Errorf("%s: settled %v after an hour without registry, delivered %d times", code, got, source.most())
				}
				if len(source.renewed) != 0 && source.lock > 2*loop.HoldTimeout {
					t.Errorf("%s: %d locks were renewed beyond the release", code, len(source.renewed))
				}
				down.Store(false)
				pass(2 * maxPause)
			})
			if got := source.done(); len(got) != 5 || source.most() > 2 {
				t.Errorf("%s: settled %v, delivered %d times", code, got, source.most())
			}
		})
	}
}

// A registry that never took anything here, but fails at all of it, costs what was released no more deliveries.
func TestI7_WhatIsReleasedIsNotReceivedAgainInTheOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		for i := range 200 {
			source.add(fmt.Sprint(i), `{"name":"A"}`)
		}
		loop := newLoop(source, registryFunc(func([]string) error { return status.Error(codes.Internal, "broken") }))
		loop.HoldTimeout = time.Second
		during(t, loop, func() {
			pass(time.Hour)
			if got := source.done(); len(got) != 0 || source.most() > 1 {
				t.Errorf("settled %v, delivered %d times", got, source.most())
			}
		})
	})
}

// As many heartbeats as there are workers fail alone at the very start: what comes then must still show that the registry takes others.
func TestI7_PoisonAtTheStartDoesNotBlockTheWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		loop := newLoop(source, registryFunc(func(names []string) error {
			if slices.Contains(names, "CRASH") {
				return status.Error(codes.Internal, "panic")
			}
			return nil
		}))
		during(t, loop, func() {
			for i := range 2 * loop.Workers {
				source.add(fmt.Sprint("poison", i), `{"name":"CRASH"}`)
				pass(10 * time.Second)
			}
			source.add("good", `{"name":"A"}`)
			pass(time.Minute)
		})
		done := source.done()
		if len(done) != 2*loop.Workers+1 || done["good"] != "" || done["poison0"] != ReasonInvalid {
			t.Errorf("settled %v", done)
		}
	})
}

// Every heartbeat of a batch gets its turn, however many around it fail.
func TestI7_AGoodHeartbeatAmidPoisonGetsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		for i := range 101 {
			name := "CRASH"
			if i == 50 {
				name = "A"
			}
			source.add(fmt.Sprint(i), `{"name":"`+name+`"}`)
		}
		loop := newLoop(source, registryFunc(func(names []string) error {
			if slices.Contains(names, "CRASH") {
				return status.Error(codes.Internal, "panic")
			}
			return nil
		}))
		during(t, loop, func() { pass(10 * time.Minute) })
		if done := source.done(); len(done) != 101 || done["50"] != "" || done["49"] != ReasonInvalid {
			t.Errorf("%d settled", len(done))
		}
	})
}

func TestI7_WhatWasNotAnsweredIsNotSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource(named("A", "B")...)
		loop := newLoop(source, registryFunc(func([]string) error { return errShort }))
		during(t, loop, func() { pass(time.Minute) })
		if got := source.done(); len(got) != 0 {
			t.Errorf("settled %v", got)
		}
	})
}

// Whatever mixture of good and bad comes, in whatever order: the good is completed, the bad is dead-lettered, nothing is left.
func TestI7_EachPoisonIsFoundAndNothingElse(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"good", "good", "good", "good", "CRASH", "REFUSED"}), 1, 200).Draw(r, "names")
		wrong := ""
		synctest.Test(t, func(t *testing.T) {
			source := newSource(named(slices.Clone(names)...)...)
			source.add("last", `{"name":"good"}`)
			loop := newLoop(source, registryFunc(func(names []string) error {
				switch {
				case slices.Contains(names, "CRASH"):
					return status.Error(codes.Internal, "panic")
				case slices.Contains(names, "REFUSED"):
					return status.Error(codes.InvalidArgument, "no")
				}
				return nil
			}))
			during(t, loop, func() { pass(10 * time.Minute) })
			done := source.done()
			for i, name := range names {
				reason, settled := done[fmt.Sprint(i)]
				if !settled || (reason != "") != (name != "good") {
					wrong = fmt.Sprintf("%d, %s: settled %v, %q", i, name, settled, reason)
				}
			}
		})
		if wrong != "" {
			r.Fatal(wrong)
		}
	})
}

func TestPartsKeepTheLimitsAndTheOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		sizes := rapid.SliceOf(rapid.IntRange(0, 50)).Draw(r, "sizes")
		most, mostBytes := rapid.IntRange(1, 10).Draw(r, "most"), rapid.IntRange(1, 100).Draw(r, "bytes")
		items := make([]item, len(sizes))
		for i, size := range sizes {
			items[i].bytes = size
		}
		var joined []int
		for _, part := range parts(items, most, mostBytes) {
			bytes := 0
			for _, one := range part {
				joined, bytes = append(joined, one.bytes), bytes+one.bytes
			}
			if len(part) == 0 || len(part) > most || (bytes > mostBytes && len(part) > 1) {
				r.Fatalf("a part of %d items and %d bytes", len(part), bytes)
			}
		}
		if !slices.Equal(joined, sizes) {
			r.Fatalf("%v became %v", sizes, joined)
		}
	})
}

func TestBackoffGrowsAndIsBounded(t *testing.T) {
	for rounds := 1; rounds < 100; rounds++ {
		shortest, longest := backoff(rounds, 0), backoff(rounds, 1)
		if shortest < minPause || longest > maxPause || shortest > longest {
			t.Errorf("%d rounds: %s to %s", rounds, shortest, longest)
		}
	}
}

func TestDeadLetterDescriptionsFit(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("ä", maxDescription), "\xff" + strings.Repeat("x", 3*maxDescription)} {
		got := deadLetter(servicebus.Delivery{}, ReasonInvalid, text).Description
		if len(got) > maxDescription || !utf8.ValidString(got) || got == "" {
			t.Errorf("%d bytes became %d, valid %v", len(text), len(got), utf8.ValidString(got))
		}
	}
}

// Canaries count once they went through; another replica's by the broker's clock, as own ones show it.
func TestCanaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		evidence := NewEvidence(&servicebus.Clock{})
		if evidence.Listening() == nil || evidence.request(nil).GetCanaryRoundTrip() != nil || evidence.interval() != seekingInterval {
			t.Error("listening before any canary")
		}
		broker := func() *time.Time { at := time.Now().Add(-time.Minute); return &at } // a minute behind this host's
		evidence.CanaryCame(&servicebus.ReceivedMessage{MessageID: "foreign", EnqueuedTime: broker()})
		if evidence.Listening() != nil || evidence.interval() != seekingInterval {
			t.Error("while none of our own came back the broker's clock is not known, and is sought")
		}
		own := evidence.canary()
		pass(10 * time.Millisecond)
		stamped := broker()
		evidence.confirmed(*own.MessageID)
		pass(30 * time.Millisecond)
		evidence.Stamped(&servicebus.ReceivedMessage{MessageID: *own.MessageID, EnqueuedTime: stamped})
		evidence.CanaryCame(&servicebus.ReceivedMessage{MessageID: *own.MessageID, EnqueuedTime: stamped})
		if got := evidence.request(nil).GetCanaryRoundTrip().AsDuration(); got != 40*time.Millisecond {
			t.Errorf("own canary took %s", got)
		}
		enqueuedAt := broker().Add(-time.Second)
		evidence.CanaryCame(&servicebus.ReceivedMessage{MessageID: "foreign", EnqueuedTime: &enqueuedAt})
		if got := evidence.request(nil).GetCanaryRoundTrip().AsDuration(); got != time.Second {
			t.Errorf("foreign canary took %s", got)
		}
		ahead := time.Now().Add(time.Hour) // the broker's clock stepped ahead since
		evidence.CanaryCame(&servicebus.ReceivedMessage{MessageID: "ahead", EnqueuedTime: &ahead})
		if got := evidence.request(nil).GetCanaryRoundTrip(); got == nil || got.AsDuration() != 0 {
			t.Errorf("canary from the future took %s", got)
		}
		if evidence.Listening() != nil || evidence.interval() != Interval {
			t.Error("not listening after a canary")
		}
		pass(canaryMaxAge)
		if evidence.Listening() == nil || evidence.request(nil).GetCanaryRoundTrip() != nil {
			t.Error("listening 15 s after the last canary")
		}
	})
}

// Without a registry that answers a canary proves nothing, heartbeats or not.
func TestI11_ACanaryCountsOnlyIfTheRegistryAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		loop := newLoop(source, registryFunc(func([]string) error { return nil }))
		var answers atomic.Bool
		loop.Answers = func(context.Context) error {
			if answers.Load() {
				return nil
			}
			return errors.New("down")
		}
		canary := func() {
			source.mu.Lock()
			defer source.mu.Unlock()
			source.waiting = append(source.waiting, &servicebus.ReceivedMessage{
				MessageID: "canary", ApplicationProperties: map[string]any{canaryProperty: "x"},
			})
		}
		during(t, loop, func() {
			canary()
			pass(2 * time.Second)
			if loop.Evidence.Listening() == nil {
				t.Error("a canary counted although the registry does not answer")
			}
			answers.Store(true)
			canary()
			pass(2 * time.Second)
			if err := loop.Evidence.Listening(); err != nil {
				t.Error(err)
			}
		})
	})
}

// While the registry does not answer other calls, nothing is taken that could only be released again.
func TestI7_NothingIsReceivedWhileTheRegistryIsKnownToBeDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		loop := newLoop(source, registryFunc(func([]string) error { return nil }))
		during(t, loop, func() {
			loop.RegistryAnswers(false)
			loop.RegistryAnswers(false)
			source.add("a", `{"name":"A"}`)
			pass(time.Hour)
			if source.most() != 0 {
				t.Error("received while the registry is down")
			}
			loop.RegistryAnswers(true)
			pass(2 * time.Second)
		})
		if len(source.done()) != 1 {
			t.Error("not received after the registry is back")
		}
	})
}

// agesFunc notes the age that each heartbeat is recorded with, by agent.
type agesFunc func(name string, age *durationpb.Duration) error

func (f agesFunc) RecordHeartbeats(_ context.Context, request *registryv1.RecordHeartbeatsRequest) (*registryv1.RecordHeartbeatsResponse, error) {
	answer := &registryv1.RecordHeartbeatsResponse{}
	for _, one := range request.GetHeartbeats() {
		if err := f(one.GetHeartbeat().GetName(), one.GetAge()); err != nil {
			return nil, err
		}
		answer.Results = append(answer.Results, &registryv1.RecordedHeartbeat{Result: registryv1.HeartbeatResult_HEARTBEAT_RESULT_UPDATED})
	}
	return answer, nil
}

// A heartbeat is as old as the broker's own clock says, each time it is tried, whatever this host's clock reads.
func TestI11_AHeartbeatsAgeIsToldByTheBrokersClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		var mu sync.Mutex
		var ages []time.Duration
		source := newSource(named("A")...)
		enqueued := time.Now().Add(-2*time.Second - time.Minute) // 2 s ago, of a broker a minute behind
		source.waiting[0].EnqueuedTime = &enqueued
		loop := newLoop(source, agesFunc(func(_ string, age *durationpb.Duration) error {
			mu.Lock()
			defer mu.Unlock()
			ages = append(ages, age.AsDuration())
			if down.Load() {
				return status.Error(codes.Unavailable, "down")
			}
			return nil
		}))
		loop.Evidence.Clock.Stamped(time.Now().Add(-time.Minute), time.Now(), time.Now())
		during(t, loop, func() {
			pass(10 * time.Second)
			down.Store(false)
			pass(10 * time.Second)
		})
		if first, last := ages[0], ages[len(ages)-1]; first < 2*time.Second || first > 3*time.Second || last < 12*time.Second || last > 18*time.Second {
			t.Errorf("recorded as %s old at first, %s at last", first, last)
		}
	})
}
