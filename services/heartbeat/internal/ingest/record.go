package ingest

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/servicebus"
)

const (
	// maxCallItems is the registry's limit; maxCallBytes keeps a call under its 8 MiB, whatever the size of the heartbeats,
	// which are smaller in the call than as they came.
	maxCallItems = 1000
	maxCallBytes = 3 << 20
	// recordTimeout bounds one call to the registry.
	recordTimeout = 10 * time.Second
	// minPause and maxPause bound the pause between tries.
	minPause, maxPause = 100 * time.Millisecond, 5 * time.Second
	// lastTimeout bounds one that begins at the stop.
	lastTimeout = 3 * time.Second
	// defaultRenewInterval is used until the lock's duration is known; 5 s is the shortest that Service Bus has.
	defaultRenewInterval, minRenewInterval = 2 * time.Second, 100 * time.Millisecond
	// triesAlone is how often a heartbeat that fails by itself is tried while others are stored.
	triesAlone = 3
)

// record records until the registry answers, and says what becomes of each heartbeat.
//
// While the registry does not answer, nothing is received: the part itself is tried again until it is stored. At first it stays
// locked, so that a short outage costs nothing. After HoldTimeout it is released once, for other replicas, and yet tried on
// from memory; what comes again later is a duplicate (I-6). So an outage, however long, costs each message one delivery at
// most, and never dead-letters a good heartbeat.
func (l *Loop) record(ctx context.Context, part []item) []servicebus.Settlement {
	held := l.hold(part)
	defer held.end()
	for {
		answered, err := l.call(ctx, part)
		if err == nil {
			settlements := l.settlements(part, answered.GetResults())
			if held.released {
				return nil // they are delivered again, and settled then
			}
			return settlements
		}
		switch held.failed(ctx, err) {
		case halve:
			held.end() // each half stands for itself
			middle := len(part) / 2
			return append(l.record(ctx, part[:middle]), l.record(ctx, part[middle:])...)
		case giveUp:
			return []servicebus.Settlement{deadLetter(part[0].delivery, ReasonInvalid, "heartbeat: the registry refuses it: "+status.Convert(err).Message())}
		}
		if !held.pause(ctx, err) {
			if held.released {
				return nil
			}
			return releaseAll(deliveries(part))
		}
	}
}

func (l *Loop) call(ctx context.Context, part []item) (*registryv1.RecordHeartbeatsResponse, error) {
	request := &registryv1.RecordHeartbeatsRequest{Heartbeats: make([]*registryv1.ObservedHeartbeat, len(part))}
	for i, one := range part {
		request.Heartbeats[i] = one.observed
	}
	timeout := recordTimeout
	if ctx.Err() != nil {
		timeout = lastTimeout
	}
	// A call that is under way is not cut off by a drain: its answer tells what may be settled.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	began := time.Now()
	answered, err := l.Registry.RecordHeartbeats(ctx, request)
	l.Metrics.Registry.Observe(time.Since(began).Seconds())
	if err == nil {
		err = complete(answered.GetResults(), len(part))
	}
	if err != nil {
		l.Metrics.RegistryFailures.Inc()
		return nil, err
	}
	l.stored.Add(1)
	return answered, nil
}

// complete tells whether every heartbeat was answered. What was not is not settled.
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

// blame says what a failed call says of its heartbeats.
type blame int

const (
	nobody  blame = iota // the registry cannot be reached, or cannot do its work
	suspect              // it failed at its work: perhaps for one of the heartbeats
	culprit              // it says that the call itself is at fault
)

func blameFor(code codes.Code) blame {
	switch code {
	case codes.InvalidArgument, codes.OutOfRange:
		return culprit
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return suspect
	}
	return nobody
}

// verdict is what is done about a failure.
type verdict int

const (
	again  verdict = iota // the same once more, after a pause
	halve                 // look for the heartbeat at fault
	giveUp                // this heartbeat is at fault
)

// judge decides. Answers tells that the registry answers other calls, and othersStored that it stored other heartbeats since
// this part first failed: without such proof no good heartbeat is blamed for a registry that fails at all of them.
func judge(blamed blame, size, tries int, answers, othersStored bool) verdict {
	switch {
	case blamed == culprit && size > 1, blamed == suspect && size > 1 && answers:
		return halve
	case blamed == culprit, blamed == suspect && tries >= triesAlone && othersStored:
		return giveUp
	}
	return again
}

// held is a part the registry has not taken yet.
type held struct {
	loop     *Loop
	part     []item
	since    time.Time
	stored   int64 // the loop's count when this first failed
	tries    int
	stops    bool // it holds the gate
	released bool
	locks    *keeper
}

func (l *Loop) hold(part []item) *held {
	return &held{loop: l, part: part, since: time.Now(), locks: l.keep(part)}
}

// failed takes note of a failure and says what to do about it.
func (h *held) failed(ctx context.Context, err error) verdict {
	if h.tries++; h.tries == 1 {
		h.stored = h.loop.stored.Load()
	}
	blamed := blameFor(status.Code(err))
	answers := blamed == suspect && h.loop.Answers(ctx) == nil
	decided := judge(blamed, len(h.part), h.tries, answers, h.loop.stored.Load() > h.stored)
	// What fails alone must not keep others from showing that they can be stored.
	h.stop(decided == again && !answers)
	return decided
}

// stop stops the receiving, or lets it go on.
func (h *held) stop(stops bool) {
	switch {
	case stops && !h.stops:
		h.loop.stops.hold()
	case !stops && h.stops:
		h.loop.stops.release()
	}
	h.stops = stops
}

// pause waits before the next try; false when the context has ended.
func (h *held) pause(ctx context.Context, err error) bool {
	pause := backoff(h.tries, rand.Float64())
	h.loop.Logger.Error("the registry does not take heartbeats; they are tried again", "heartbeats", len(h.part), "tries", h.tries,
		"again_in", pause, "receiving", !h.stops, "released", h.released, "error", err)
	if !h.released && time.Since(h.since)+pause >= h.loop.HoldTimeout {
		h.release(ctx)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// release lets other replicas have the messages, and if nothing can be recorded those in the queue behind them.
func (h *held) release(ctx context.Context) {
	h.released = true
	h.locks.end()
	settlements := releaseAll(deliveries(h.part))
	if h.stops {
		settlements = append(settlements, releaseAll(gather(nil, h.loop.received, maxQueued))...)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	h.loop.settle(ctx, settlements)
}

func (h *held) end() {
	h.locks.end()
	h.stop(false)
}

// keeper renews the locks of a part that takes longer than half of them.
type keeper struct {
	timer *time.Timer
	stop  context.CancelFunc
	done  chan struct{} // closed when a renewal that began has ended
}

func (l *Loop) keep(part []item) *keeper {
	ctx, stop := context.WithCancel(context.Background())
	k := &keeper{stop: stop, done: make(chan struct{})}
	interval := defaultRenewInterval
	if lock := l.Source.LockDuration(); lock > 0 {
		interval = max(lock/2, minRenewInterval)
	}
	k.timer = time.AfterFunc(interval, func() {
		defer close(k.done)
		for {
			l.Source.Renew(ctx, deliveries(part))
			timer := time.NewTimer(interval)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
	})
	return k
}

// end may be called again.
func (k *keeper) end() {
	k.stop()
	if k.timer.Stop() {
		close(k.done)
	}
	<-k.done
}

// backoff is the pause after so many tries; jitter is 0 to 1, so that replicas don't come back in step.
func backoff(tries int, jitter float64) time.Duration {
	limit := min(maxPause, minPause<<min(tries, 10))
	return limit/2 + time.Duration(jitter*float64(limit/2))
}

// parts cuts a batch so that none is too large for one call.
func parts(items []item, most, mostBytes int) [][]item {
	var cut [][]item
	begin, bytes := 0, 0
	for i, one := range items {
		if i > begin && (i-begin >= most || bytes+one.bytes > mostBytes) {
			cut = append(cut, items[begin:i])
			begin, bytes = i, 0
		}
		bytes += one.bytes
	}
	if begin < len(items) {
		cut = append(cut, items[begin:])
	}
	return cut
}

func deliveries(part []item) []servicebus.Delivery {
	all := make([]servicebus.Delivery, len(part))
	for i, one := range part {
		all[i] = one.delivery
	}
	return all
}
