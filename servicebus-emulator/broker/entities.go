package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/filter"
)

// What is wrong with a change of entities, for errors.Is.
var (
	ErrExists   = errors.New("it exists already, or as another kind of entity (names differ at most in case)")
	ErrNoEntity = errors.New("there is no such entity")
	ErrFixed    = errors.New("it cannot be changed once the entity exists")
)

// Entities can be made, changed and deleted at any time. Names are compared without regard to case, and the path of a
// subscription is <topic>/Subscriptions/<name>. In settings, zero values of sizes, the lock duration and the maximum
// delivery count mean the default, and Name is taken from the path. A target to forward to need not exist: what cannot be
// forwarded is dead-lettered.

// PutTopic makes a topic with the subscriptions in s, or changes the one there is, whose subscriptions stay as they are.
func (b *Broker) PutTopic(path string, s TopicSettings) error {
	s.Name = path
	d := b.Destination(path)
	if d == nil {
		return b.AddTopic(s)
	}
	if d.isQueue {
		return fmt.Errorf("topic %q: %w", path, ErrExists)
	}
	return d.update(s.withDefaults())
}

// PutQueue makes a queue, or changes the one there is. RequiresSession, and whether duplicates are detected, are fixed.
func (b *Broker) PutQueue(path string, s QueueSettings) error {
	s.Name = path
	d := b.Destination(path)
	if d == nil {
		return b.AddQueue(s)
	}
	if !d.isQueue {
		return fmt.Errorf("queue %q: %w", path, ErrExists)
	}
	s = s.withDefaults()
	if err := d.hold.mayBecome(s); err != nil {
		return err
	}
	if err := d.update(s.destination()); err != nil {
		return err
	}
	return d.hold.update(s)
}

// PutSubscription makes a subscription, or changes the one there is, whose rules stay as they are.
func (b *Broker) PutSubscription(topic, name string, s SubscriptionSettings) error {
	s.Name = name
	s = s.withDefaults()
	if q := b.subscription(topic, name); q != nil {
		if err := q.update(s); err != nil {
			return err
		}
		q.idle.set(s.AutoDeleteOnIdle)
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.destinations[key(topic)]
	if d == nil || d.isQueue {
		return fmt.Errorf("topic %q: %w", topic, ErrNoEntity)
	}
	return b.addSubscription(d, s)
}

// PutRule makes or replaces a rule of a subscription.
func (b *Broker) PutRule(topic, subscription, name string, r Rule) error {
	q := b.subscription(topic, subscription)
	if q == nil {
		return fmt.Errorf("subscription %q of topic %q: %w", subscription, topic, ErrNoEntity)
	}
	r.Name, r.CreatedAt = name, b.clock.Now()
	q.changeRules(func(rules []Rule) []Rule {
		if i := ruleIndex(rules, name); i >= 0 {
			r.CreatedAt = rules[i].CreatedAt
			rules[i] = r
			return rules
		}
		return append(rules, r)
	})
	q.touch(b.clock.Now())
	return nil
}

// DeleteRule deletes a rule and says whether there was one. A subscription without rules gets no messages.
func (b *Broker) DeleteRule(topic, subscription, name string) bool {
	q := b.subscription(topic, subscription)
	if q == nil {
		return false
	}
	found := false
	q.changeRules(func(rules []Rule) []Rule {
		i := ruleIndex(rules, name)
		if found = i >= 0; !found {
			return rules
		}
		return slices.Delete(rules, i, i+1)
	})
	return found
}

// subscription finds a subscription, but not the dead-letter queue of one.
func (b *Broker) subscription(topic, name string) *Queue {
	if q := b.Subscription(topic, name); q != nil && q.deadLetter != nil {
		return q
	}
	return nil
}

func ruleIndex(rules []Rule, name string) int {
	return slices.IndexFunc(rules, func(r Rule) bool { return strings.EqualFold(r.Name, name) })
}

// DeleteEntity deletes a topic with its subscriptions, a queue or a subscription, with all messages, and says
// whether there was one. Links to it are detached.
func (b *Broker) DeleteEntity(path string) bool {
	if d := b.Destination(path); d != nil {
		return b.deleteDestination(d)
	}
	q := b.Queue(path)
	return q != nil && b.deleteSubscription(q)
}

func (b *Broker) deleteDestination(d *Destination) bool {
	b.mu.Lock()
	if b.destinations[key(d.path)] != d {
		b.mu.Unlock()
		return false
	}
	delete(b.destinations, key(d.path))
	queues := d.queues()
	for _, q := range queues {
		b.forget(q)
	}
	b.mu.Unlock()
	d.end()
	for _, q := range queues {
		q.end()
	}
	if !d.isQueue {
		d.hold.end()
	}
	return true
}

func (b *Broker) deleteSubscription(q *Queue) bool {
	b.mu.Lock()
	if b.queues[key(q.path)] != q || q.deadLetter == nil {
		b.mu.Unlock()
		return false // a dead-letter queue goes with its queue only
	}
	b.forget(q)
	d := q.destination
	d.setQueues(slices.DeleteFunc(slices.Clone(d.queues()), func(other *Queue) bool { return other == q }))
	b.mu.Unlock()
	d.touch(b.clock.Now())
	q.end()
	return true
}

func (b *Broker) forget(q *Queue) {
	delete(b.queues, key(q.path))
	delete(b.queues, key(q.deadLetter.path))
}

// Topics lists the topics by name, without their subscriptions.
func (b *Broker) Topics() []TopicSettings {
	var all []TopicSettings
	for _, d := range b.sorted() {
		if !d.isQueue {
			all = append(all, *d.settings.Load())
		}
	}
	return all
}

// Topic answers a topic's settings, without its subscriptions.
func (b *Broker) Topic(path string) (TopicSettings, bool) {
	d := b.Destination(path)
	if d == nil || d.isQueue {
		return TopicSettings{}, false
	}
	return *d.settings.Load(), true
}

// Queues lists the queues by name.
func (b *Broker) Queues() []QueueSettings {
	var all []QueueSettings
	for _, d := range b.sorted() {
		if d.isQueue {
			all = append(all, d.hold.Settings())
		}
	}
	return all
}

// Subscriptions lists those of a topic by name, with their rules, and says whether there is such a topic.
func (b *Broker) Subscriptions(topic string) ([]SubscriptionSettings, bool) {
	d := b.Destination(topic)
	if d == nil || d.isQueue {
		return nil, false
	}
	var all []SubscriptionSettings
	for _, q := range d.queues() {
		all = append(all, q.Settings())
	}
	slices.SortFunc(all, func(x, y QueueSettings) int { return strings.Compare(key(x.Name), key(y.Name)) })
	return all, true
}

// Rules lists those of a subscription in the order they were made in, and says whether there is such a subscription.
func (b *Broker) Rules(topic, subscription string) ([]Rule, bool) {
	q := b.subscription(topic, subscription)
	if q == nil {
		return nil, false
	}
	return q.Settings().Rules, true
}

func (b *Broker) sorted() []*Destination {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all := make([]*Destination, 0, len(b.destinations))
	for _, d := range b.destinations {
		all = append(all, d)
	}
	slices.SortFunc(all, func(x, y *Destination) int { return strings.Compare(key(x.path), key(y.path)) })
	return all
}

// Info is what is true of an entity at a moment.
type Info struct {
	Counts                           // of a topic, only Scheduled: what waits to be given to its subscriptions
	CreatedAt, UpdatedAt, AccessedAt time.Time
	Size                             int64 // bytes, as counted against MaxSize; of a subscription zero
	Subscriptions                    int   // of a topic
}

// Info tells about a topic, queue or subscription.
func (b *Broker) Info(path string) (Info, bool) {
	if d := b.Destination(path); d != nil {
		i := Info{
			Counts: d.hold.Counts(), CreatedAt: d.createdAt, UpdatedAt: d.updatedAt.time(), AccessedAt: d.accessedAt(),
			Size: d.quota.used.Load(),
		}
		if !d.isQueue {
			i.Subscriptions = len(d.queues())
		}
		return i, true
	}
	q := b.Queue(path)
	if q == nil {
		return Info{}, false
	}
	return Info{Counts: q.Counts(), CreatedAt: q.createdAt, UpdatedAt: q.updatedAt.time(), AccessedAt: q.used.time()}, true
}

// everything is the rule of a subscription that was made without one.
var everything = Rule{Name: DefaultRuleName, Filter: filter.True{}}

// changeRules replaces the rules by what change makes of a copy of them.
func (q *Queue) changeRules(change func([]Rule) []Rule) {
	q.mu.Lock()
	defer q.mu.Unlock()
	rules := change(slices.Clone(*q.rules.Load()))
	q.rules.Store(&rules)
}

// Settings answers the queue's settings, with the rules of a subscription.
func (q *Queue) Settings() QueueSettings {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.settings
	if rules := q.rules.Load(); rules != nil {
		s.Rules = slices.Clone(*rules)
	}
	return s
}

func (q *Queue) mayBecome(s QueueSettings) error {
	if s.RequiresSession != q.requiresSession {
		kind := "Queue"
		if q.rules.Load() != nil {
			kind = "Subscription"
		}
		return fmt.Errorf("%q: The value for the RequiresSession property of an existing %s cannot be changed: %w", q.path, kind, ErrFixed)
	}
	return s.check(q.path, q.destination.path)
}

// update changes the settings of a queue and its dead-letter queue.
func (q *Queue) update(s QueueSettings) error {
	if err := q.mayBecome(s); err != nil {
		return err
	}
	for _, each := range []struct {
		*Queue
		settings QueueSettings
	}{{q, s}, {q.deadLetter, s.forDeadLetters()}} {
		each.mu.Lock()
		each.settings.Name, each.settings.Rules = each.Queue.settings.Name, nil // the name keeps its case
		each.Queue.settings = each.settings
		each.forwardAgain()
		each.announceAll()
		each.unlock()
	}
	now := q.clock.Now()
	q.updatedAt.set(now)
	q.touch(now)
	return nil
}

// update changes the settings of a topic, or of a queue what concerns sending to it.
func (d *Destination) update(s TopicSettings) error {
	d.admission.Lock()
	defer d.admission.Unlock()
	if (s.DuplicateWindow > 0) != (d.history != nil) {
		return fmt.Errorf("%q: duplicate detection: %w", d.path, ErrFixed)
	}
	if d.history != nil {
		d.history.window = s.DuplicateWindow
	}
	s.Name, s.Subscriptions = d.path, nil
	d.settings.Store(&s)
	d.quota.limit.Store(s.MaxSize)
	now := d.broker.clock.Now()
	d.updatedAt.set(now)
	d.touch(now)
	d.idle.set(s.AutoDeleteOnIdle)
	return nil
}
