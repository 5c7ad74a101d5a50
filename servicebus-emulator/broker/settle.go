package broker

import (
	"fmt"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

func maxDeliveryDescription(n uint32) string {
	return fmt.Sprintf("Message could not be consumed after %d delivery attempts.", n)
}

// lockLost is what Service Bus says, with the lock's token.
const lockLost = "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue, or was " +
	"received by a different receiver instance (token %s)"

// held takes the lock off the message with a token and answers it, if the lock is still good.
func (q *Queue) held(token amqp.UUID, now time.Time) (*message, *amqp.Error) {
	m := q.locked[token]
	if m != nil && !now.Before(q.lockEnd(m)) {
		// The timer is late. What it would do must not depend on that.
		q.settleDue(now)
		m = nil
	}
	if m == nil {
		return nil, amqp.Errorf(ErrMessageLockLost,
			lockLost, token)
	}
	q.unlockMessage(m)
	return m, nil
}

func (q *Queue) lockEnd(m *message) time.Time {
	if m.session != nil {
		return m.session.lockedUntil
	}
	return m.lockedUntil
}

// Complete deletes a locked message.
func (q *Queue) Complete(token amqp.UUID) *amqp.Error {
	return q.settle(token, func(m *message, _ time.Time) { q.remove(m) })
}

// Abandon makes a locked message available again (a deferred one stays deferred), with application properties set on it; the delivery has failed.
func (q *Queue) Abandon(token amqp.UUID, set amqp.Map) *amqp.Error {
	return q.settle(token, func(m *message, now time.Time) {
		q.modify(m, set)
		q.giveBack(m, true, now)
	})
}

// modify sets application properties on a message.
func (q *Queue) modify(m *message, set amqp.Map) {
	changed := m.content.with(set)
	q.quota.used.Add(changed.size - m.content.size)
	m.content = changed
}

// Release makes a locked message available again, as if it had not been delivered.
func (q *Queue) Release(token amqp.UUID) *amqp.Error {
	return q.settle(token, func(m *message, now time.Time) { q.giveBack(m, false, now) })
}

// DeadLetter moves a locked message to the dead-letter queue with application properties set on it. In a dead-letter
// queue that is not possible, as there is no further one.
func (q *Queue) DeadLetter(token amqp.UUID, reason, description string, set amqp.Map) *amqp.Error {
	if q.deadLetter == nil {
		return amqp.Errorf(amqp.ErrNotAllowed, "a message of a dead-letter queue cannot be dead-lettered")
	}
	return q.settle(token, func(m *message, _ time.Time) { q.moveToDeadLetter(m, reason, description, set) })
}

func (q *Queue) settle(token amqp.UUID, act func(*message, time.Time)) *amqp.Error {
	q.mu.Lock()
	defer q.unlock()
	now := q.clock.Now()
	q.touch(now)
	m, err := q.held(token, now)
	if err != nil {
		return err
	}
	act(m, now)
	return nil
}

// Renew extends the lock on a message from now.
func (q *Queue) Renew(token amqp.UUID) (time.Time, *amqp.Error) {
	q.mu.Lock()
	defer q.unlock()
	now := q.clock.Now()
	m := q.locked[token]
	if m != nil && m.session != nil {
		return time.Time{}, amqp.Errorf(amqp.ErrNotAllowed,
			"the message is locked by its session; renew the lock of session '%s'", m.session.id)
	}
	if m == nil || !now.Before(m.lockedUntil) {
		return time.Time{}, amqp.Errorf(ErrMessageLockLost,
			lockLost, token)
	}
	m.lockedUntil = now.Add(q.settings.LockDuration)
	q.await(&m.due, m.lockedUntil)
	return m.lockedUntil, nil
}

// Peek answers messages from a sequence number on, locked or not, scheduled and deferred ones, too, without locking them: at most max and, after the first,
// at most maxBytes. With a session id, only that session's.
func (q *Queue) Peek(from int64, limit, maxBytes int, sessionID *string) []Delivery {
	q.mu.Lock()
	defer q.unlock()
	q.touch(q.clock.Now())
	var found []Delivery
	size := 0
	for m := q.all.oldest; m != nil && len(found) < limit; m = m.newer {
		if m.sequence < from || (sessionID != nil && m.content.Properties().GroupID != *sessionID) {
			continue
		}
		if size += int(m.content.size); len(found) > 0 && size > maxBytes {
			break
		}
		found = append(found, Delivery{message: m, content: m.content, deliveryCount: m.deliveryCount, state: m.state})
	}
	return found
}
