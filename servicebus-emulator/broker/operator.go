package broker

import (
	"slices"
	"strings"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// What an operator does by hand, apart from any client: look at messages, and move or delete one. Looking is no use of the entity.

// Seen is a message as an operator sees it.
type Seen struct {
	Sequence         int64
	EnqueuedAt       time.Time
	ExpiresAt        time.Time // zero: never
	ScheduledFor     time.Time // zero: it is not scheduled
	LockedUntil      time.Time // zero: it is not locked
	Deferred         bool
	DeliveryCount    uint32
	DeadLetterSource string
	Size             int64 // bytes
	Properties       amqp.Properties
	Application      amqp.Map
	Body             []byte // encoded sections
}

// The application properties that say why a message was dead-lettered.
const (
	deadLetterReason      = "DeadLetterReason"
	deadLetterDescription = "DeadLetterErrorDescription"
)

// Look answers up to limit messages from a sequence number on.
func (q *Queue) Look(from int64, limit int) []Seen {
	q.mu.Lock()
	defer q.mu.Unlock()
	var found []Seen
	for m := q.all.oldest; m != nil && len(found) < limit; m = m.newer {
		if m.sequence >= from {
			found = append(found, q.seen(m))
		}
	}
	return found
}

func (q *Queue) seen(m *message) Seen {
	s := Seen{
		Sequence: m.sequence, EnqueuedAt: m.enqueuedAt, ExpiresAt: m.expiresAt, Deferred: m.state == deferred,
		DeliveryCount: m.deliveryCount, DeadLetterSource: m.deadLetterSource, Size: m.content.size,
		Properties: *m.content.Properties(), Application: m.content.ApplicationProperties(), Body: m.content.body,
	}
	if m.state == scheduled {
		s.ScheduledFor = m.content.scheduledFor
	}
	if m.token != (amqp.UUID{}) {
		s.LockedUntil = q.lockEnd(m)
	}
	return s
}

// DeleteMessage deletes the message with a sequence number, unless it is locked.
func (q *Queue) DeleteMessage(sequence int64) *amqp.Error {
	_, err := q.take(sequence)
	return err
}

// Resubmit moves the message with a sequence number from the dead-letter queue back to the queue, as a new one: without its reason, and with no
// deliveries.
func (q *Queue) Resubmit(sequence int64) *amqp.Error {
	if q.deadLetter == nil {
		return amqp.Errorf(amqp.ErrNotAllowed, "'%s' is a dead-letter queue; what is moved comes from one", q.path)
	}
	m, err := q.deadLetter.take(sequence)
	if err != nil {
		return err
	}
	p := &parcel{content: m.content.without(deadLetterReason, deadLetterDescription), sequence: m.enqueuedSequence, accepted: true}
	// What was accepted once is taken even if that takes the entity over its quota.
	q.quota.used.Add(p.content.size)
	ttl := q.destination.settings.Load().DefaultTTL
	for _, f := range q.enqueue([]*parcel{p}, ttl, q.clock.Now().Truncate(time.Millisecond)) {
		f()
	}
	return nil
}

// take takes the message with a sequence number out of the queue, unless it is locked.
func (q *Queue) take(sequence int64) (*message, *amqp.Error) {
	q.mu.Lock()
	defer q.unlock()
	q.settleDue(q.clock.Now())
	m := q.all.oldest
	for m != nil && m.sequence != sequence {
		m = m.newer
	}
	switch {
	case m == nil:
		return nil, amqp.Errorf(ErrMessageNotFound, "there is no message with sequence number %d in '%s'", sequence, q.path)
	case m.token != amqp.UUID{}:
		return nil, amqp.Errorf(amqp.ErrNotAllowed, "message %d is locked by a receiver until %s; settle it there, or wait",
			sequence, q.lockEnd(m).UTC().Format(time.RFC3339))
	case m.state == active && !m.waits():
		return nil, amqp.Errorf(amqp.ErrNotAllowed, "message %d is being forwarded", sequence)
	}
	if m.state == active {
		q.laneOf(m).remove(m)
	}
	s := m.session
	q.remove(m)
	if s != nil {
		if s.lane.length == 0 {
			q.free.remove(s)
		}
		s.forgetIfIdle(q)
	}
	return m, nil
}

// waits says that the message is in its lane.
func (m *message) waits() bool { return m.inList || m.returnedIndex >= 0 }

// without answers the content with application properties removed.
func (c *content) without(names ...string) *content {
	kept := slices.DeleteFunc(c.ApplicationProperties(), func(e amqp.MapEntry) bool {
		name, ok := e.Key.(string)
		return ok && slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(name, other) })
	})
	changed := c.with(amqp.Map{{Key: names[0]}}) // a copy
	encoded := amqp.AppendValue(nil, kept)
	changed.size += int64(len(encoded) - len(changed.application))
	changed.application = encoded
	return changed
}
