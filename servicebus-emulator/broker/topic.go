package broker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// Destination is where messages can be sent: a topic, or a queue, which is one with itself as its only subscription.
type Destination struct {
	path          string
	broker        *Broker
	isQueue       bool
	hold          *Queue // where scheduled messages wait: the queue itself, or one of the topic's that nobody receives from
	quota         *quota
	settings      atomic.Pointer[TopicSettings] // without subscriptions
	subscriptions atomic.Pointer[[]*Queue]      // replaced as a whole, with the broker's mutex held

	idle            *idleWatch
	createdAt       time.Time
	updatedAt, used instant

	admission sync.Mutex // where duplicates are detected it is held while messages are accepted; before mu
	history   *history   // nil: duplicates are not detected

	mu       sync.Mutex // makes the order of sequence numbers that of the messages in every subscription
	sequence int64
	deleted  bool
	watchers map[*func(*amqp.Error)]struct{}
}

func newDestination(b *Broker, s TopicSettings) *Destination {
	now := b.clock.Now()
	d := &Destination{path: s.Name, broker: b, quota: newQuota(s.MaxSize), createdAt: now}
	d.updatedAt.set(now)
	d.used.set(now)
	s.Subscriptions = nil
	d.settings.Store(&s)
	d.setQueues(nil)
	if s.DuplicateWindow > 0 {
		d.history = newHistory(s.DuplicateWindow)
	}
	d.idle = &idleWatch{clock: b.clock, usedAt: d.usedAt, expire: func() { b.deleteDestination(d) }}
	return d
}

func (d *Destination) queues() []*Queue { return *d.subscriptions.Load() }

func (d *Destination) setQueues(all []*Queue) { d.subscriptions.Store(&all) }

// Path is the destination's name as clients write it.
func (d *Destination) Path() string { return d.path }

// MaxMessageSize is the largest message taken, bytes.
func (d *Destination) MaxMessageSize() int { return d.settings.Load().MaxMessageSize }

// parcel is a message on its way into a destination.
type parcel struct {
	content          *content
	hops             int
	deadLetterSource string
	sequence         int64   // where it was first sent to; zero: here, and not yet given
	accepted         bool    // nothing about it is checked any more: it was scheduled
	held             int64   // sequence number where it waits for its time; zero: it does not
	of               *parcel // the message that this is a rule's own copy of; nil: none
}

// Publish takes a message out of the caller's buffer.
func (d *Destination) Publish(encoded []byte) *amqp.Error {
	c, err := parse(encoded)
	if err != nil {
		return err
	}
	return d.publish([]*parcel{{content: c}})
}

// PublishBatch takes all the messages that a batch's body holds, or none of them.
func (d *Destination) PublishBatch(encoded []byte) *amqp.Error {
	s, err := amqp.ParseSections(encoded)
	if err != nil {
		return amqp.Errorf(amqp.ErrDecode, "the batch cannot be read: %v", err)
	}
	var batch []*parcel
	var refused *amqp.Error
	err = amqp.DataSections(s.Body, func(data []byte) error {
		c, err := parse(data)
		if err != nil {
			refused = err
			return err
		}
		batch = append(batch, &parcel{content: c})
		return nil
	})
	switch {
	case refused != nil:
		return refused
	case err != nil:
		return amqp.Errorf(amqp.ErrDecode, "the batch cannot be read: %v", err)
	case len(batch) == 0:
		return nil
	}
	return d.publish(batch)
}

// publish accepts messages, all or none, and then lets those that are forwarded go on.
func (d *Destination) publish(batch []*parcel) *amqp.Error {
	after, err := d.admit(batch)
	for _, f := range after {
		f()
	}
	return err
}

// share is what one subscription gets of a batch.
type share struct {
	queue   *Queue
	parcels []*parcel
}

// admit gives messages to the subscriptions, or holds them until their time. It answers what is to be done without locks.
func (d *Destination) admit(batch []*parcel) ([]func(), *amqp.Error) {
	now := d.broker.clock.Now()
	d.touch(now)
	if d.history != nil {
		d.admission.Lock()
		defer d.admission.Unlock()
		batch = d.history.fresh(batch, now)
	}
	if d.isQueue && d.hold.requiresSession {
		if err := requireSession(batch); err != nil {
			return nil, err
		}
	}
	shares, held, size := d.share(batch, now)
	if accepted := len(batch) == 1 && batch[0].accepted; accepted {
		d.quota.used.Add(size)
	} else if !d.quota.reserve(size) {
		return nil, amqp.Errorf(amqp.ErrResourceLimitExceeded,
			"the maximum size of '%s' of %d bytes has been reached", d.path, d.quota.limit.Load())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deleted {
		return nil, notFound(d.path)
	}
	for _, p := range batch {
		if d.sequence++; p.sequence == 0 {
			p.sequence = d.sequence
		}
	}
	for _, s := range shares {
		for _, p := range s.parcels {
			if p.of != nil {
				p.sequence = p.of.sequence
			}
		}
	}
	var after []func()
	ttl := d.settings.Load().DefaultTTL
	for _, s := range shares {
		after = append(after, s.queue.enqueue(s.parcels, ttl, now.Truncate(time.Millisecond))...)
	}
	if len(held) > 0 {
		d.hold.park(held, now.Truncate(time.Millisecond))
	}
	if d.history != nil {
		d.history.remember(batch, now)
	}
	return after, nil
}

// share decides who gets what, and how many bytes that takes.
func (d *Destination) share(batch []*parcel, now time.Time) (shares []share, held []*parcel, size int64) {
	due := batch
	if slices.ContainsFunc(batch, func(p *parcel) bool { return p.waits(now) }) {
		due = nil
		for _, p := range batch {
			if p.waits(now) {
				held = append(held, p)
				size += p.content.size
			} else {
				due = append(due, p)
			}
		}
	}
	arrivals := arrive(due, now)
	for _, q := range d.queues() {
		s := share{queue: q}
		for i := range arrivals {
			s.parcels = arrivals[i].appendCopies(s.parcels, q.rules.Load())
		}
		for _, p := range s.parcels {
			size += p.content.size
		}
		if len(s.parcels) > 0 {
			shares = append(shares, s)
		}
	}
	return shares, held, size
}

// waits says that the message's time has not come.
func (p *parcel) waits(now time.Time) bool { return !p.accepted && p.content.scheduledFor.After(now) }

func requireSession(batch []*parcel) *amqp.Error {
	for _, p := range batch {
		if !p.content.Properties().HasGroupID {
			return amqp.Errorf(amqp.ErrNotAllowed,
				"the message has no session id, and the entity only takes messages that have one")
		}
	}
	return nil
}

func notFound(path string) *amqp.Error {
	return amqp.Errorf(amqp.ErrNotFound, "the messaging entity '%s' could not be found", path)
}

func entityDeleted(path string) *amqp.Error {
	return amqp.Errorf(amqp.ErrNotFound, "the messaging entity '%s' has been deleted (com.microsoft:entity-deleted)", path)
}

// OnDelete has a function called, without locks, when the destination is deleted, at once if it has been.
func (d *Destination) OnDelete(f func(*amqp.Error)) (cancel func()) {
	d.mu.Lock()
	if d.deleted {
		d.mu.Unlock()
		f(entityDeleted(d.path))
		return func() {}
	}
	defer d.mu.Unlock()
	if d.watchers == nil {
		d.watchers = map[*func(*amqp.Error)]struct{}{}
	}
	d.watchers[&f] = struct{}{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watchers, &f)
	}
}

// end has nothing accepted any more.
func (d *Destination) end() {
	d.idle.set(0)
	d.mu.Lock()
	d.deleted = true
	watchers := d.watchers
	d.watchers = nil
	d.mu.Unlock()
	for f := range watchers {
		(*f)(entityDeleted(d.path))
	}
}
