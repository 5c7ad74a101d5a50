package ingest

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/heartbeat/internal/record"
	"github.com/commandcenter/fleet/services/internal/servicebus"
)

const (
	// queued is how many receives may wait for a worker. They gather into one batch, so that batches grow with the load.
	queued = 4
	// maxQueued is more than ever waits.
	maxQueued = (queued + 1) * record.MaxItems
	// leftBehindAfter is how long a stop waits for a receive that is under way.
	leftBehindAfter = 2 * time.Second
)

// Source is the subscription; *servicebus.Consumer is one.
type Source interface {
	Receive(ctx context.Context, most int) []servicebus.Delivery
	Settle(ctx context.Context, settlements []servicebus.Settlement) servicebus.Settled
	Renew(ctx context.Context, deliveries []servicebus.Delivery) (failed []servicebus.Delivery)
	LockDuration() time.Duration
}

// Loop receives, records and settles.
//
//	receive ──► queue ──► workers: decode ──► record ──► settle
//
// One goroutine receives all the time, because the SDK gives back what arrives while nobody does. Workers take all that
// queued up meanwhile, so a batch is one heartbeat when idle and hundreds under load.
type Loop struct {
	Source   Source
	Registry record.Registry
	Evidence *Evidence
	Metrics  *Metrics
	Logger   *slog.Logger
	// Answers asks the registry whether it answers and can write; nil when it does.
	Answers func(context.Context) error
	// Most is the size of a batch, up to 1,000; Workers is how many batches are under way side by side.
	Most, Workers int
	// HoldTimeout is how long heartbeats stay locked here while the registry does not take them.
	HoldTimeout time.Duration

	received   chan []servicebus.Delivery
	locks      *keeper
	stops      gate
	unanswered atomic.Bool          // the registry did not answer another call
	good       atomic.Pointer[item] // a heartbeat the registry has taken
}

// Run goes on until the context ends; then everything held is recorded and settled, or released.
func (l *Loop) Run(ctx context.Context) error {
	l.received = make(chan []servicebus.Delivery, queued)
	l.locks = newKeeper(l.Source)
	var renewals sync.WaitGroup
	defer renewals.Wait()
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx)) // a drain may take longer than a lock
	defer stop()
	renewals.Go(func() { l.locks.run(renewing) })
	var workers sync.WaitGroup
	for range l.Workers {
		workers.Go(func() {
			for deliveries := range l.received {
				l.handle(ctx, gather(deliveries, l.received, l.Most))
			}
		})
	}
	l.receive(ctx)
	close(l.received)
	workers.Wait()
	return nil
}

func (l *Loop) receive(ctx context.Context) {
	for l.stops.wait(ctx) {
		open, leave := l.stops.enter(ctx)
		deliveries, ended := l.receiveOnce(ctx, open)
		leave()
		if !ended {
			l.Logger.Warn("a receive did not end with the stop and is left behind; what it still takes comes again once its locks lapse")
			return
		}
		if len(deliveries) > 0 {
			l.Evidence.Received()
			l.locks.add(deliveries)
			l.received <- deliveries
		}
	}
}

// receiveOnce receives until open ends. It reports false where that did not return within leftBehindAfter once ctx ended: the SDK dials, and
// waits for a peer that says nothing, without its context.
func (l *Loop) receiveOnce(ctx, open context.Context) (deliveries []servicebus.Delivery, ended bool) {
	came := make(chan []servicebus.Delivery, 1)
	go func() { came <- l.Source.Receive(open, l.Most) }()
	select {
	case deliveries = <-came:
		return deliveries, true
	case <-ctx.Done():
	}
	timer := time.NewTimer(leftBehindAfter)
	defer timer.Stop()
	select {
	case deliveries = <-came:
		return deliveries, true
	case <-timer.C:
		return nil, false
	}
}

// RegistryAnswers takes note of whether the registry answered another call. While it does not, nothing is received: what this
// replica took it could only release again, and every release is one of the few deliveries a message has.
func (l *Loop) RegistryAnswers(answers bool) {
	if stops := !answers; l.unanswered.Swap(stops) != stops {
		l.stops.set(stops)
	}
}

// gather adds what is queued, until the batch has its size.
func gather(deliveries []servicebus.Delivery, received <-chan []servicebus.Delivery, most int) []servicebus.Delivery {
	for len(deliveries) < most {
		select {
		case more, open := <-received:
			if !open {
				return deliveries
			}
			deliveries = append(deliveries, more...)
		default:
			return deliveries
		}
	}
	return deliveries
}

// item is one heartbeat on its way.
type item struct {
	delivery   servicebus.Delivery
	observed   *registryv1.ObservedHeartbeat // without its age, which grows
	receivedAt time.Time
	bytes      int
}

// age is how long ago the broker took the heartbeat, by its own clock. Of a message that it did not stamp, it is known how long it has
// been here.
func (i item) age(clock *servicebus.Clock, now time.Time) (time.Duration, bool) {
	if i.observed.GetObservedAt() == nil {
		return max(0, now.Sub(i.receivedAt)), true
	}
	return clock.Age(i.observed.GetObservedAt().AsTime(), now)
}

// aged is the heartbeat as it is recorded now.
func (i item) aged(clock *servicebus.Clock, now time.Time) *registryv1.ObservedHeartbeat {
	age, known := i.age(clock, now)
	if !known {
		return i.observed
	}
	return &registryv1.ObservedHeartbeat{
		Heartbeat: i.observed.GetHeartbeat(), Path: i.observed.GetPath(), ObservedAt: i.observed.GetObservedAt(), Age: durationpb.New(age),
	}
}

// handle takes a batch to its end. Nothing is settled before the registry answered for it (I-7).
func (l *Loop) handle(ctx context.Context, deliveries []servicebus.Delivery) {
	l.Metrics.Batch.Observe(float64(len(deliveries)))
	l.Metrics.Held.Add(float64(len(deliveries)))
	defer l.Metrics.Held.Sub(float64(len(deliveries)))
	items, canaries := l.sort(ctx, deliveries)
	for _, part := range parts(items, record.MaxItems, record.MaxBytes) {
		if settlesAfterStore {
			l.settleNow(ctx, l.record(ctx, part))
		} else {
			l.settleNow(ctx, each(deliveriesOf(part), false))
			_, _ = l.call(ctx, part)
		}
	}
	// A canary has come through the whole ingest only if the registry answers, heartbeats or not.
	if len(canaries) > 0 && l.answered(ctx, len(items) > 0) {
		for _, canary := range canaries {
			l.Evidence.CanaryCame(canary)
		}
	}
}

// sort returns the heartbeats, and the canaries, which are completed. What cannot be read is dead-lettered.
func (l *Loop) sort(ctx context.Context, deliveries []servicebus.Delivery) (items []item, canaries []*servicebus.ReceivedMessage) {
	items = make([]item, 0, len(deliveries))
	now := time.Now()
	var settlements []servicebus.Settlement
	for _, delivery := range deliveries {
		if isCanary(delivery.ReceivedMessage) {
			l.Evidence.Stamped(delivery.ReceivedMessage)
			canaries = append(canaries, delivery.ReceivedMessage)
			settlements = append(settlements, servicebus.Settlement{Delivery: delivery})
			continue
		}
		body := bodyOf(delivery.ReceivedMessage)
		heartbeat, err := Decode(body, value(delivery.ContentType))
		if err != nil {
			settlements = append(settlements, deadLetter(delivery, ReasonUndecodable, err.Error()))
			continue
		}
		items = append(items, item{delivery, &registryv1.ObservedHeartbeat{
			Heartbeat: heartbeat, Path: registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS, ObservedAt: enqueued(delivery.ReceivedMessage),
		}, now, len(body)})
	}
	l.settleNow(ctx, settlements)
	return items, canaries
}

// answered tells whether the registry answered for a batch: by having recorded it, or, if there was nothing to record, when
// asked. While other heartbeats cannot be recorded, it does not.
func (l *Loop) answered(ctx context.Context, recorded bool) bool {
	if l.stops.held() || ctx.Err() != nil {
		return false
	}
	return recorded || l.Answers(ctx) == nil
}

// bodyOf is a message's body. A sender may cut it into several data sections, which the SDK leaves to us.
func bodyOf(message *servicebus.ReceivedMessage) []byte {
	if message.Body == nil && message.RawAMQPMessage != nil {
		return bytes.Join(message.RawAMQPMessage.Body.Data, nil)
	}
	return message.Body
}

func enqueued(message *servicebus.ReceivedMessage) *timestamppb.Timestamp {
	if message.EnqueuedTime == nil {
		return nil
	}
	return timestamppb.New(*message.EnqueuedTime)
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// gate stops the receiving while somebody holds it, one receive that is under way too.
type gate struct {
	mu     sync.Mutex
	holds  int
	opened chan struct{}      // closed when the last hold ends; nil while there is none
	leave  context.CancelFunc // ends the receive under way
}

// set holds, or ends one hold.
func (g *gate) set(holds bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if holds {
		if g.holds++; g.holds == 1 {
			g.opened = make(chan struct{})
		}
		if g.leave != nil {
			g.leave()
		}
		return
	}
	if g.holds--; g.holds == 0 {
		close(g.opened)
		g.opened = nil
	}
}

func (g *gate) held() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holds > 0
}

// enter returns a context that ends when somebody holds.
func (g *gate) enter(ctx context.Context) (context.Context, context.CancelFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ctx, g.leave = context.WithCancel(ctx)
	if g.holds > 0 {
		g.leave()
	}
	return ctx, g.leave
}

// wait returns true when nobody holds, and false when the context has ended.
func (g *gate) wait(ctx context.Context) bool {
	for {
		g.mu.Lock()
		opened := g.opened
		g.mu.Unlock()
		if opened == nil || ctx.Err() != nil {
			return ctx.Err() == nil
		}
		select {
		case <-opened:
		case <-ctx.Done():
		}
	}
}
