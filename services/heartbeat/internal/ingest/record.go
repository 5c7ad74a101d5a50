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
	// recordTimeout bounds one call to the registry, lastTimeout one that begins at the stop.
	recordTimeout, lastTimeout = 10 * time.Second, 3 * time.Second
	// minPause and maxPause bound the pause between rounds of tries.
	minPause, maxPause = 100 * time.Millisecond, 5 * time.Second
	// maxFailures in a row end a round: halving 1,000 down to one at fault takes 11.
	maxFailures = 12
	// triesAlone is how often a heartbeat that fails by itself is tried before it is blamed.
	triesAlone = 3
)

// group is heartbeats that are tried in one call.
type group struct {
	items []item
	tries int // failures, counted once it is down to one heartbeat
}

// record records until the registry has answered for every heartbeat, and returns what becomes of those not settled yet.
//
// While the registry does not answer, nothing is received: the part itself is tried again until it is stored. At first it stays
// locked, so that a short outage costs nothing. After HoldTimeout it is released once, for other replicas, and yet tried on
// from memory; what comes again later is a duplicate (I-6). So an outage, however long, costs each message one delivery here at
// most, and never dead-letters a good heartbeat.
func (l *Loop) record(ctx context.Context, part []item) []servicebus.Settlement {
	held := l.hold(part)
	defer held.end()
	groups := []group{{items: part}}
	for {
		settlements, rest, err := l.round(ctx, groups)
		if held.released {
			settlements = nil // they are delivered again, and settled then
		}
		if len(rest) == 0 {
			return settlements
		}
		l.settleNow(ctx, settlements)
		held.failed(rest)
		if !held.pause(ctx, err) {
			if held.released {
				return nil
			}
			return releaseAll(deliveries(held.items))
		}
		groups = rest
	}
}

// round tries each group once, halving those that fail for what may be one heartbeat's fault, and returns what is left and why.
func (l *Loop) round(ctx context.Context, groups []group) (settlements []servicebus.Settlement, rest []group, failure error) {
	failures := 0
	for len(groups) > 0 {
		one := groups[len(groups)-1]
		groups = groups[:len(groups)-1]
		if failures >= maxFailures {
			rest = append(rest, one)
			continue
		}
		results, err := l.call(ctx, one.items)
		if err == nil {
			failures = 0
			settlements = append(settlements, l.settlements(one.items, results)...)
			continue
		}
		failure = err
		failures++
		blamed := blameFor(status.Code(err))
		switch {
		case blamed == nobody:
			failures = maxFailures
			rest = append(rest, one)
		case len(one.items) > 1:
			middle := len(one.items) / 2
			groups = append(groups, group{items: one.items[middle:]}, group{items: one.items[:middle]})
		case blamed == culprit || l.atFault(ctx, &one):
			settlements = append(settlements, deadLetter(one.items[0].delivery, ReasonInvalid, "heartbeat: the registry refuses it: "+status.Convert(err).Message()))
		default:
			rest = append(rest, one)
		}
	}
	return settlements, rest, failure
}

// atFault tells whether a heartbeat that failed alone is to blame. The proof is that right after its failure the registry takes
// once more what it took before: without it no good heartbeat is blamed for a registry that fails at all of them.
func (l *Loop) atFault(ctx context.Context, alone *group) bool {
	alone.tries++
	good := l.good.Load()
	if alone.tries < triesAlone || good == nil {
		return false
	}
	_, err := l.call(ctx, []item{*good})
	return err == nil
}

func (l *Loop) call(ctx context.Context, items []item) ([]*registryv1.RecordedHeartbeat, error) {
	request := &registryv1.RecordHeartbeatsRequest{Heartbeats: make([]*registryv1.ObservedHeartbeat, len(items))}
	for i, one := range items {
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
		err = complete(answered.GetResults(), len(items))
	}
	if err != nil {
		l.Metrics.RegistryFailures.Inc()
		return nil, err
	}
	for i, result := range answered.GetResults() {
		if result.GetResult() != registryv1.HeartbeatResult_HEARTBEAT_RESULT_INVALID {
			l.good.Store(&item{observed: items[i].observed})
			break
		}
	}
	return answered.GetResults(), nil
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
	nobody  blame = iota // the registry cannot be reached, or is too busy
	suspect              // it failed at its work: perhaps because of one of the heartbeats
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

// backoff is the pause after so many rounds; jitter is 0 to 1, so that replicas don't come back in step.
func backoff(rounds int, jitter float64) time.Duration {
	limit := min(maxPause, minPause<<min(rounds, 10))
	return limit/2 + time.Duration(jitter*float64(limit/2))
}

// pause waits before the next round; false when the context has ended.
func (h *held) pause(ctx context.Context, err error) bool {
	pause := backoff(h.rounds, rand.Float64())
	h.loop.Logger.Error("the registry does not take heartbeats; they are tried again", "heartbeats", len(h.items), "rounds", h.rounds,
		"again_in", pause, "receiving", !h.stops, "released", h.released, "error", err)
	if h.stops && !h.released && time.Since(h.since)+pause >= h.loop.HoldTimeout {
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
