package storm

import (
	"container/heap"
	"time"

	"github.com/commandcenter/fleet/agent/internal/failover"
)

// entry is an event that will happen to an agent.
type entry struct {
	at    time.Duration
	order int // among those of one instant
	agent int
	event failover.Event
}

// agenda of a simulation.
type agenda struct {
	queue queue
	added int
}

func (a *agenda) add(at time.Duration, agent int, event failover.Event) {
	a.added++
	heap.Push(&a.queue, entry{at, a.added, agent, event})
}

// until gives the earliest entry before that instant, and takes it off.
func (a *agenda) until(end time.Duration) (earliest entry, ok bool) {
	if len(a.queue) == 0 || a.queue[0].at >= end {
		return entry{}, false
	}
	return heap.Pop(&a.queue).(entry), true
}

// queue is a heap, the earliest first.
type queue []entry

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *queue) Push(x any) { *q = append(*q, x.(entry)) }

func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}
