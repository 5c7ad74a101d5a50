package broker

import (
	"fmt"
	"strings"
)

// Broker is all entities of one namespace. Which there are is fixed before clients come.
type Broker struct {
	clock        Clock
	destinations map[string]*Destination // by lower-case path
	queues       map[string]*Queue       // by lower-case path
}

// New makes a broker without entities.
func New(clock Clock) *Broker {
	return &Broker{clock: clock, destinations: map[string]*Destination{}, queues: map[string]*Queue{}}
}

// AddTopic adds a topic and its subscriptions. Names must be unique without regard to case.
func (b *Broker) AddTopic(t TopicSettings) error {
	shared := &quota{limit: t.MaxSize}
	d := &Destination{
		path: t.Name, clock: b.clock, defaultTTL: t.DefaultTTL, maxMessageSize: t.MaxMessageSize, quota: shared,
	}
	if err := b.addDestination(d); err != nil {
		return err
	}
	for _, s := range t.Subscriptions {
		q := newQueue(t.Name+"/Subscriptions/"+s.Name, s, b.clock, shared)
		if err := b.addQueue(q); err != nil {
			return err
		}
		d.subscriptions = append(d.subscriptions, q)
	}
	return nil
}

// AddQueue adds a queue.
func (b *Broker) AddQueue(s QueueSettings) error {
	shared := &quota{limit: s.MaxSize}
	q := newQueue(s.Name, s, b.clock, shared)
	d := &Destination{
		path: s.Name, clock: b.clock, maxMessageSize: s.MaxMessageSize, quota: shared, subscriptions: []*Queue{q},
	}
	if err := b.addDestination(d); err != nil {
		return err
	}
	return b.addQueue(q)
}

func (b *Broker) addDestination(d *Destination) error {
	key := strings.ToLower(d.path)
	if b.destinations[key] != nil {
		return fmt.Errorf("entity %q exists twice (names differ at most in case)", d.path)
	}
	b.destinations[key] = d
	return nil
}

func (b *Broker) addQueue(q *Queue) error {
	for _, q := range []*Queue{q, q.deadLetter} {
		key := strings.ToLower(q.path)
		if b.queues[key] != nil {
			return fmt.Errorf("entity %q exists twice (names differ at most in case)", q.path)
		}
		b.queues[key] = q
	}
	return nil
}

// Destination finds where a path's messages are sent to, or answers nil.
func (b *Broker) Destination(path string) *Destination {
	return b.destinations[strings.ToLower(strings.Trim(path, "/"))]
}

// Queue finds the queue, subscription or dead-letter queue with a path, or answers nil.
func (b *Broker) Queue(path string) *Queue {
	return b.queues[strings.ToLower(strings.Trim(path, "/"))]
}

// Subscription finds a subscription, or answers nil.
func (b *Broker) Subscription(topic, name string) *Queue {
	return b.Queue(topic + "/Subscriptions/" + name)
}

// Stop ends all timers. Nothing falls due any more.
func (b *Broker) Stop() {
	for _, q := range b.queues {
		q.stop()
	}
}
