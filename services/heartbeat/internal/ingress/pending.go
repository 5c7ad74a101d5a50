package ingress

import (
	"container/list"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

const (
	// maxPending and maxPendingBytes bound the heartbeats that are held in memory. A control server's 2,000 agents send 67 a second,
	// so that a registry which hangs for 10 s, where calls to it end, fills a third.
	maxPending      = 2048
	maxPendingBytes = 64 << 20
)

// call is an agent's heartbeat on its way, or a canary in its place.
type call struct {
	observed *registryv1.ObservedHeartbeat // without its age, which grows; nil: a canary
	bytes    int
	since    time.Time
	answer   chan answer // takes one without anybody reading it: the agent may be gone
	place    *list.Element
}

// aged is the heartbeat as it is recorded now. How long it was held is told by the monotonic clock; this host's own is not asked.
func (c *call) aged(now time.Time) *registryv1.ObservedHeartbeat {
	return &registryv1.ObservedHeartbeat{
		Heartbeat: c.observed.GetHeartbeat(), Path: c.observed.GetPath(), ObservedAt: c.observed.GetObservedAt(), Identity: c.observed.GetIdentity(),
		Age: durationpb.New(max(0, now.Sub(c.since))),
	}
}

// answer is what became of a call.
type answer struct {
	recorded *registryv1.RecordedHeartbeat
	err      error
}

// pending is the calls that are not answered yet, in the order in which they came.
type pending struct {
	mu    sync.Mutex
	calls *list.List
	bytes int
}

func newPending() *pending { return &pending{calls: list.New()} }

// add takes a call in, unless there are too many.
func (p *pending) add(one *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls.Len() >= maxPending || p.bytes+one.bytes > maxPendingBytes {
		return false
	}
	one.place = p.calls.PushBack(one)
	p.bytes += one.bytes
	return true
}

// end answers a call.
func (p *pending) end(one *call, with answer) {
	one.answer <- with
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls.Remove(one.place)
	p.bytes -= one.bytes
}

// count is how many there are, and since when the oldest heartbeat waits; the zero time if none does.
func (p *pending) count() (calls int, oldest time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for place := p.calls.Front(); place != nil; place = place.Next() {
		if one := place.Value.(*call); one.observed != nil {
			return p.calls.Len(), one.since
		}
	}
	return p.calls.Len(), time.Time{}
}
