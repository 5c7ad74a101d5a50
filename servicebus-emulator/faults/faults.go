// Package faults is what goes wrong on demand: which faults are on, where they strike, and how often. It only
// decides; the layers that ask it carry out what it says.
package faults

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// Point is where a fault can strike.
type Point uint32

// The points, in the order in which a client meets them.
const (
	Authenticating Point = 1 << iota // a token is put to $cbs
	Attaching                        // a link is attached to anything but $cbs
	Managing                         // a request to an entity's $management has arrived
	Sending                          // a message has arrived and is not stored yet
	Stored                           // a message is stored and not answered yet
	Settled                          // a settlement is carried out and not answered yet
)

// Names of faults that stay on.
const (
	Throttle          = "throttle"
	RejectSends       = "reject-sends"
	RefuseAttaches    = "refuse-attaches"
	RefuseAuth        = "refuse-auth"
	LoseAnswers       = "lose-answers"
	LoseDispositions  = "lose-dispositions"
	Delay             = "delay"
	PauseSubscription = "pause-subscription"
)

// points is where each fault strikes; Delay and PauseSubscription work otherwise.
var points = map[string]Point{
	Throttle:         Attaching | Managing | Sending,
	RejectSends:      Sending,
	RefuseAttaches:   Attaching,
	RefuseAuth:       Authenticating,
	LoseAnswers:      Stored,
	LoseDispositions: Settled,
}

// Always is the count of a fault that lasts until it is ended.
const Always = -1

// Fault is one that is on. There is at most one of each name for each entity.
type Fault struct {
	Name      string      `json:"fault"`
	Entity    string      `json:"entity,omitempty"`    // empty: all
	Condition amqp.Symbol `json:"condition,omitempty"` // what clients are told
	Count     int         `json:"count"`               // how many more times it strikes, or Always
	Delay     string      `json:"delay,omitempty"`     // of Delay, such as 250ms
}

// Faults are those of one emulator. The zero value has none on, and costs an atomic load where it is asked.
type Faults struct {
	points atomic.Uint32 // where any fault strikes
	delay  atomic.Pointer[delay]

	mu    sync.Mutex
	rules []rule
}

type rule struct {
	Fault
	err *amqp.Error
}

type delay struct {
	length time.Duration
	over   chan struct{} // closed when another length is in force
}

// Set turns a fault on, in place of the one of that name and entity. A count of 0 ends it. The description goes with the
// condition.
func (f *Faults) Set(fault Fault, description string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(rule{fault, &amqp.Error{Condition: fault.Condition, Description: description}})
}

func (f *Faults) set(r rule) {
	same := func(other rule) bool { return other.Name == r.Name && strings.EqualFold(other.Entity, r.Entity) }
	f.rules = slices.DeleteFunc(f.rules, same)
	if r.Count != 0 {
		f.rules = append(f.rules, r)
	}
	f.refresh()
}

// refresh notes where faults strike; it needs the mutex.
func (f *Faults) refresh() {
	var all Point
	for _, r := range f.rules {
		all |= points[r.Name]
	}
	f.points.Store(uint32(all))
}

// SetDelay changes for how long frames are held. Those that are held are let go at once.
func (f *Faults) SetDelay(length time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var next *delay
	r := rule{Fault: Fault{Name: Delay}}
	if length > 0 {
		next = &delay{length, make(chan struct{})}
		r.Count, r.Delay = Always, length.String()
	}
	if old := f.delay.Swap(next); old != nil {
		close(old.over)
	}
	f.set(r)
}

// End ends all faults and answers which there were.
func (f *Faults) End() []Fault {
	f.SetDelay(0)
	f.mu.Lock()
	defer f.mu.Unlock()
	ended := f.list()
	f.rules = nil
	f.refresh()
	return ended
}

// List answers the faults that are on, in the order in which they were turned on.
func (f *Faults) List() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list()
}

func (f *Faults) list() []Fault {
	list := make([]Fault, len(f.rules))
	for i, r := range f.rules {
		list[i] = r.Fault
	}
	return list
}

// Strike says whether a fault strikes at a point on the way to an address: with which error, or nil. One of a count is
// then used up. No faults at all, nil, never strike.
func (f *Faults) Strike(at Point, address string) *amqp.Error {
	if f == nil || f.points.Load()&uint32(at) == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.rules, func(r rule) bool {
		return points[r.Name]&at != 0 && Covers(r.Entity, address)
	})
	if i < 0 {
		return nil
	}
	r := &f.rules[i]
	err := r.err
	if r.Count != Always {
		r.Count--
	}
	if r.Count == 0 {
		f.rules = slices.Delete(f.rules, i, i+1)
		f.refresh()
	}
	return err
}

// Hold waits for as long as frames are to be held, or until they need not be any more, or are wanted no more.
func (f *Faults) Hold(gone <-chan struct{}) {
	d := f.delay.Load()
	if d == nil {
		return
	}
	timer := time.NewTimer(d.length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.over:
	case <-gone:
	}
}

// Covers says whether an address leads to an entity: to itself, its dead-letter queue or its $management. A topic's
// subscriptions are entities of their own.
func Covers(entity, address string) bool {
	if entity == "" {
		return true
	}
	if len(address) < len(entity) || !strings.EqualFold(address[:len(entity)], entity) {
		return false
	}
	rest := address[len(entity):]
	return rest == "" || strings.HasPrefix(rest, "/$")
}
