package ingest

import (
	"context"
	"time"

	"google.golang.org/grpc/status"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/heartbeat/internal/record"
	"github.com/commandcenter/fleet/services/internal/servicebus"
)

const (
	// maxFailures in a row end a round: halving 1,000 down to one at fault takes 11.
	maxFailures = 12
	// proofsToBlame is how often a heartbeat fails by itself, while the registry takes others, before it is blamed.
	proofsToBlame = 3
)

// group is heartbeats that are tried in one call.
type group struct {
	items []item
	// Once it is down to one heartbeat: how often that failed, and how often of those the registry took another right after.
	tries, proofs int
}

// record records until the registry has answered for every heartbeat, and returns what becomes of those not settled yet.
//
// While the registry does not answer, nothing is received: the part itself is tried again until it is stored. At first it stays
// locked, so that a short outage costs nothing. After HoldTimeout it is released once, for other replicas, and yet tried on
// from memory; what comes again later is a duplicate (I-6). So an outage, however long, costs each message one delivery here at
// most, and never dead-letters a good heartbeat.
func (l *Loop) record(ctx context.Context, part []item) []servicebus.Settlement {
	held := &held{loop: l, since: time.Now()}
	defer held.stop(false)
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
		more, goesOn := held.pause(ctx, err)
		if !goesOn {
			if held.released {
				return nil
			}
			return each(deliveriesOf(held.items), true)
		}
		groups = rest
		items, _ := l.sort(ctx, more)
		for _, part := range parts(items, record.MaxItems, record.MaxBytes) {
			groups = append(groups, group{items: part})
		}
	}
}

// round tries each group once, halving those that fail for what may be one heartbeat's fault, and returns what is left and why.
// What was not tried is at the end of that, where the next round begins.
func (l *Loop) round(ctx context.Context, groups []group) (settlements []servicebus.Settlement, rest []group, failure error) {
	failures := 0
	for len(groups) > 0 && failures < maxFailures {
		one := groups[len(groups)-1]
		groups = groups[:len(groups)-1]
		results, err := l.call(ctx, one.items)
		if err == nil {
			failures = 0
			settlements = append(settlements, l.settlements(one.items, results)...)
			continue
		}
		failure = err
		failures++
		blamed := record.BlameFor(err)
		switch {
		case blamed == record.Nobody:
			failures = maxFailures
			rest = append(rest, one)
		case len(one.items) > 1:
			middle := len(one.items) / 2
			groups = append(groups, group{items: one.items[middle:]}, group{items: one.items[:middle]})
		case blamed == record.Culprit:
			settlements = append(settlements, refused(one.items[0], err))
		default:
			if one.tries++; l.takesAnother(ctx) {
				one.proofs++
				failures = 0
			}
			if one.proofs >= proofsToBlame {
				settlements = append(settlements, refused(one.items[0], err))
			} else {
				rest = append(rest, one)
			}
		}
	}
	return settlements, append(rest, groups...), failure
}

func refused(one item, err error) servicebus.Settlement {
	return deadLetter(one.delivery, ReasonInvalid, "heartbeat: the registry refuses it: "+status.Convert(err).Message())
}

// takesAnother is the proof that a heartbeat which failed alone is to blame: right after its failure the registry takes once more
// what it took before. Without it no good heartbeat is blamed for a registry that fails at all of them.
func (l *Loop) takesAnother(ctx context.Context) bool {
	good := l.good.Load()
	if good == nil {
		return false
	}
	_, err := l.call(ctx, []item{*good})
	return err == nil
}

func (l *Loop) call(ctx context.Context, items []item) ([]*registryv1.RecordedHeartbeat, error) {
	observed, now := make([]*registryv1.ObservedHeartbeat, len(items)), time.Now()
	for i, one := range items {
		observed[i] = one.aged(l.Evidence.Clock, now)
	}
	recorder := record.Recorder{Registry: l.Registry, Duration: l.Metrics.Registry, Failures: l.Metrics.RegistryFailures}
	results, err := recorder.Call(ctx, observed)
	if err != nil {
		return nil, err
	}
	for i, result := range results {
		if result.GetResult() != registryv1.HeartbeatResult_HEARTBEAT_RESULT_INVALID {
			l.good.Store(&item{observed: items[i].observed, receivedAt: items[i].receivedAt})
			break
		}
	}
	return results, nil
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
