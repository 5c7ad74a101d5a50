package broker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Broker is all entities of one namespace. Its methods are safe for concurrent use.
type Broker struct {
	clock Clock

	mu           sync.RWMutex            // taken before any other, and not held while entities do something
	destinations map[string]*Destination // by lower-case path
	queues       map[string]*Queue       // by lower-case path
}

// New makes a broker without entities.
func New(clock Clock) *Broker {
	return &Broker{clock: clock, destinations: map[string]*Destination{}, queues: map[string]*Queue{}}
}

func key(path string) string { return strings.ToLower(strings.Trim(path, "/")) }

// AddTopic adds a topic and its subscriptions. It must not exist.
func (b *Broker) AddTopic(t TopicSettings) error {
	t = t.withDefaults()
	b.mu.Lock()
	defer b.mu.Unlock()
	d := newDestination(b, t)
	d.hold = bareQueue(d, t.Name, QueueSettings{}.withDefaults())
	if err := b.addDestination(d); err != nil {
		return err
	}
	for _, s := range t.Subscriptions {
		if err := b.addSubscription(d, s.withDefaults()); err != nil {
			delete(b.destinations, key(d.path))
			for _, q := range d.queues() {
				b.forget(q)
			}
			return err
		}
	}
	d.idle.set(t.AutoDeleteOnIdle)
	return nil
}

// AddQueue adds a queue. It must not exist.
func (b *Broker) AddQueue(s QueueSettings) error {
	s = s.withDefaults()
	if err := s.check(s.Name, s.Name); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d := newDestination(b, s.destination())
	d.isQueue = true
	d.hold = newQueue(d, s.Name, s)
	d.setQueues([]*Queue{d.hold})
	if err := b.addDestination(d); err != nil {
		return err
	}
	if err := b.addQueue(d.hold); err != nil {
		delete(b.destinations, key(d.path))
		return err
	}
	d.idle.set(s.AutoDeleteOnIdle)
	return nil
}

// addSubscription adds a subscription; like the others here it needs the broker's mutex.
func (b *Broker) addSubscription(d *Destination, s SubscriptionSettings) error {
	path := d.path + "/Subscriptions/" + s.Name
	if err := s.check(path, d.path); err != nil {
		return err
	}
	q := newQueue(d, path, s)
	rules := slices.Clone(s.Rules)
	if len(rules) == 0 {
		rules = []Rule{everything}
	}
	for i := range rules {
		rules[i].CreatedAt = q.createdAt
	}
	q.rules.Store(&rules)
	if err := b.addQueue(q); err != nil {
		return err
	}
	q.idle = &idleWatch{clock: b.clock, usedAt: q.usedAt, expire: func() { b.deleteSubscription(q) }}
	q.idle.set(s.AutoDeleteOnIdle)
	d.setQueues(append(slices.Clone(d.queues()), q))
	return nil
}

func (b *Broker) addDestination(d *Destination) error {
	if b.destinations[key(d.path)] != nil || b.queues[key(d.path)] != nil {
		return fmt.Errorf("entity %q: %w", d.path, ErrExists)
	}
	b.destinations[key(d.path)] = d
	return nil
}

func (b *Broker) addQueue(q *Queue) error {
	for _, q := range []*Queue{q, q.deadLetter} {
		if b.queues[key(q.path)] != nil {
			return fmt.Errorf("entity %q: %w", q.path, ErrExists)
		}
	}
	b.queues[key(q.path)], b.queues[key(q.deadLetter.path)] = q, q.deadLetter
	return nil
}

// Destination finds where a path's messages are sent to, or answers nil.
func (b *Broker) Destination(path string) *Destination {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.destinations[key(path)]
}

// Queue finds the queue, subscription or dead-letter queue with a path, or answers nil.
func (b *Broker) Queue(path string) *Queue {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.queues[key(path)]
}

// Subscription finds a subscription, or answers nil.
func (b *Broker) Subscription(topic, name string) *Queue {
	return b.Queue(topic + "/Subscriptions/" + name)
}

// Stop ends all timers. Nothing falls due any more.
func (b *Broker) Stop() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, q := range b.queues {
		q.stop()
		if q.idle != nil {
			q.idle.set(0)
		}
	}
	for _, d := range b.destinations {
		d.hold.stop()
		d.idle.set(0)
	}
}
