package broker

import (
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// ErrMessageNotFound says that there is no scheduled, or no deferred, message with a sequence number.
const ErrMessageNotFound amqp.Symbol = "com.microsoft:message-not-found"

// state is where in its life a message is, as its annotation says it.
type state int32

const (
	active    state = 0
	deferred  state = 1
	scheduled state = 2
)

// Schedule takes messages, all or none, that name the time at which they are to be delivered, and answers the
// sequence numbers by which they can be cancelled until then. That of a duplicate, which is dropped, and of one whose
// time has passed is zero.
func (d *Destination) Schedule(messages [][]byte) ([]int64, *amqp.Error) {
	batch := make([]*parcel, 0, len(messages))
	for _, encoded := range messages {
		if limit := d.MaxMessageSize(); len(encoded) > limit {
			return nil, amqp.Errorf(amqp.ErrMessageSizeExceeded,
				"a message of %d bytes is larger than the maximum of %d", len(encoded), limit)
		}
		c, err := parse(encoded)
		if err != nil {
			return nil, err
		}
		if c.scheduledFor.IsZero() {
			return nil, amqp.Errorf(amqp.ErrInvalidField, "a message to schedule has no annotation %s", scheduledAnnotation)
		}
		batch = append(batch, &parcel{content: c})
	}
	if err := d.publish(batch); err != nil {
		return nil, err
	}
	sequences := make([]int64, len(batch))
	for i, p := range batch {
		sequences[i] = p.held
	}
	return sequences, nil
}

// CancelScheduled drops scheduled messages, all or none.
func (d *Destination) CancelScheduled(sequences []int64) *amqp.Error {
	q := d.hold
	q.mu.Lock()
	defer q.unlock()
	q.settleDue(q.clock.Now())
	for _, n := range sequences {
		if m := q.parked[n]; m == nil || m.state != scheduled {
			return amqp.Errorf(ErrMessageNotFound, "there is no scheduled message with sequence number %d", n)
		}
	}
	for _, n := range sequences {
		if m := q.parked[n]; m != nil { // it may be named twice
			q.remove(m)
		}
	}
	return nil
}

// park keeps messages until they are due.
func (q *Queue) park(parcels []*parcel, now time.Time) {
	q.mu.Lock()
	defer q.unlock()
	for _, p := range parcels {
		q.sequence++
		m := newMessage(p, q.sequence, now)
		m.state = scheduled
		p.held = m.sequence
		q.all.add(m)
		q.parked[m.sequence] = m
		q.scheduled++
		q.await(&m.due, p.content.scheduledFor)
	}
}

// activate publishes a message whose time has come, which gives it a new sequence number.
func (q *Queue) activate(m *message) {
	q.remove(m)
	p := &parcel{content: m.content, accepted: true}
	q.after = append(q.after, func() {
		_ = q.destination.publish([]*parcel{p}) // what was accepted is refused by a deleted entity only
	})
}

// Defer sets a locked message aside, with application properties set on it, until it is asked for by its sequence number.
func (q *Queue) Defer(token amqp.UUID, set amqp.Map) *amqp.Error {
	return q.settle(token, func(m *message, _ time.Time) {
		q.modify(m, set)
		if m.state == deferred {
			return
		}
		m.state = deferred
		q.parked[m.sequence] = m
		if m.session != nil {
			m.session.deferred++
		}
	})
}

// ReceiveDeferred locks deferred messages, or deletes them, and answers them: all or none. Those of a session need
// its lock, held by the link of that name if one is given.
func (q *Queue) ReceiveDeferred(sequences []int64, deletes bool, linkName string) ([]Delivery, *amqp.Error) {
	q.mu.Lock()
	defer q.unlock()
	now := q.clock.Now()
	q.touch(now)
	q.settleDue(now)
	for _, n := range sequences {
		m := q.parked[n]
		if m != nil && m.state == deferred && m.token == (amqp.UUID{}) && m.expired(now) {
			s := m.session
			q.expire(m) // not before someone asks, as in Service Bus
			if s != nil {
				s.forgetIfIdle(q)
			}
			m = nil
		}
		if m == nil || m.state != deferred || m.token != (amqp.UUID{}) {
			return nil, amqp.Errorf(ErrMessageNotFound,
				"there is no deferred message with sequence number %d, or it is locked", n)
		}
		if m.session != nil && !m.session.heldBy(linkName, now) {
			return nil, sessionLockLost(m.session.id)
		}
	}
	var found []Delivery
	for _, n := range sequences {
		if m := q.parked[n]; m != nil && m.token == (amqp.UUID{}) { // it may be named twice
			found = append(found, q.handOut(m, deletes, now))
		}
	}
	return found, nil
}

// unpark forgets that a message was scheduled or deferred.
func (q *Queue) unpark(m *message) {
	switch m.state {
	case active:
		return
	case scheduled:
		q.scheduled--
	case deferred:
		if m.session != nil {
			m.session.deferred--
		}
	}
	delete(q.parked, m.sequence)
}
