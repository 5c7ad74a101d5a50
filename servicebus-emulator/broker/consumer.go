package broker

import (
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// ConsumerOptions describe a consumer.
type ConsumerOptions struct {
	// Name is that of the consumer's link, by which management requests refer to it.
	Name string
	// Deletes has messages deleted when they are taken, instead of locked.
	Deletes bool
	// Notify says that Take would answer something after it had not. It is called with the queue locked, so it must not call
	// the queue nor block.
	Notify func()
	// Lost says that the consumer's session is not its own any more, or that the queue was deleted. It is called without locks.
	Lost func(*amqp.Error)
}

// Consumer takes messages from a queue or from one session of it. Its methods are safe for concurrent use.
type Consumer struct {
	ConsumerOptions
	queue   *Queue
	session *session // nil: of the whole queue

	closed     bool
	isWaiting  bool
	next, prev *Consumer // in the queue's waiters
}

// waiters are consumers that found nothing, longest wait first.
type waiters struct{ head, tail *Consumer }

func (w *waiters) push(c *Consumer) {
	if c.isWaiting {
		return
	}
	c.isWaiting, c.prev = true, w.tail
	if w.tail != nil {
		w.tail.next = c
	} else {
		w.head = c
	}
	w.tail = c
}

func (w *waiters) pop() *Consumer {
	c := w.head
	if c != nil {
		w.remove(c)
	}
	return c
}

func (w *waiters) remove(c *Consumer) {
	if !c.isWaiting {
		return
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		w.head = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		w.tail = c.prev
	}
	c.next, c.prev, c.isWaiting = nil, nil, false
}

func (c *Consumer) notify() {
	if c.Notify != nil {
		c.Notify()
	}
}

// Consume adds a consumer to a queue without sessions.
func (q *Queue) Consume(opts ConsumerOptions) *Consumer {
	q.mu.Lock()
	defer q.unlock()
	q.touch(q.clock.Now())
	c := &Consumer{ConsumerOptions: opts, queue: q}
	q.connect(c)
	return c
}

// connect notes a consumer, or tells it at once that the queue is gone.
func (q *Queue) connect(c *Consumer) {
	if q.deleted {
		q.disconnect(c)
		return
	}
	q.consumers[c] = struct{}{}
}

// disconnect ends a consumer of a deleted queue.
func (q *Queue) disconnect(c *Consumer) {
	c.closed = true
	if c.Lost != nil {
		q.after = append(q.after, func() { c.Lost(entityDeleted(q.path)) })
	}
}

func (c *Consumer) lane() *lane {
	if c.session != nil {
		return &c.session.lane
	}
	return &c.queue.lane
}

// wait has the consumer notified when there is something, unless it could not take it.
func (c *Consumer) wait(limit int) {
	if limit == 0 {
		return
	}
	if c.session != nil {
		c.isWaiting = true
	} else {
		c.queue.waiting.push(c)
	}
}

// passOn lets another consumer have what this one cannot take.
func (c *Consumer) passOn() {
	if c.session != nil {
		c.isWaiting = false
		return
	}
	c.queue.waiting.remove(c)
	if c.queue.lane.length > 0 {
		c.queue.wakeOne()
	}
}

// Take appends messages to dst, at most max and, after the first, at most maxBytes of them, and says whether more can be
// had at once. If not, and max was not reached, Notify is called when that changes.
func (c *Consumer) Take(dst []Delivery, limit, maxBytes int) (taken []Delivery, more bool) {
	q := c.queue
	q.mu.Lock()
	defer q.unlock()
	if c.closed {
		return dst, false
	}
	if q.paused {
		c.wait(limit)
		return dst, false
	}
	now := q.clock.Now()
	q.touch(now)
	l := c.lane()
	for size, n := 0, 0; ; n++ {
		m := l.first()
		if m == nil {
			c.wait(limit)
			return dst, false
		}
		if m.expired(now) {
			l.remove(m)
			q.expire(m)
			n--
			continue
		}
		size += int(m.content.size)
		if n >= limit || (n > 0 && size > maxBytes) {
			c.passOn()
			return dst, true
		}
		l.remove(m)
		dst = append(dst, q.handOut(m, c.Deletes, now))
	}
}

// handOut locks a message, or deletes it, for a consumer.
func (q *Queue) handOut(m *message, deletes bool, now time.Time) Delivery {
	d := Delivery{message: m, content: m.content, deliveryCount: m.deliveryCount, state: m.state}
	q.cancel(&m.due)
	if deletes {
		q.remove(m)
		return d
	}
	m.token = newToken()
	q.locked[m.token] = m
	if m.session != nil {
		if m.session.locked == nil {
			m.session.locked = map[amqp.UUID]*message{}
		}
		m.session.locked[m.token] = m
		m.lockedUntil = m.session.lockedUntil
	} else {
		m.lockedUntil = now.Add(q.settings.LockDuration)
		q.await(&m.due, m.lockedUntil)
	}
	d.Token, d.LockedUntil = m.token, m.lockedUntil
	return d
}

// Undelivered puts back deliveries that never reached the consumer, as if they had not been taken.
func (c *Consumer) Undelivered(deliveries []Delivery) {
	q := c.queue
	q.mu.Lock()
	defer q.unlock()
	if q.deleted {
		return
	}
	now := q.clock.Now()
	for i := range deliveries {
		d := &deliveries[i]
		m := d.message
		switch {
		case c.Deletes && m.removed:
			m.removed = false
			q.quota.used.Add(m.content.size)
			q.all.add(m)
			if m.session != nil {
				m.session = q.session(m.session.id) // it may have been forgotten meanwhile
			}
		case !c.Deletes && m.token == d.Token:
			q.unlockMessage(m)
		default:
			continue // its lock was lost meanwhile
		}
		q.giveBack(m, false, now)
	}
}

// unlockMessage takes the lock off a message.
func (q *Queue) unlockMessage(m *message) {
	delete(q.locked, m.token)
	if m.session != nil {
		delete(m.session.locked, m.token)
	}
	m.token, m.lockedUntil = amqp.UUID{}, time.Time{}
	q.cancel(&m.due)
}

// Close ends the consumer. A session is freed, and its messages are available again at once; other locks stay until they expire
// or are settled by token.
func (c *Consumer) Close() {
	q := c.queue
	q.mu.Lock()
	defer q.unlock()
	if c.closed {
		return
	}
	c.closed = true
	delete(q.consumers, c)
	q.touch(q.clock.Now())
	if c.session != nil {
		if c.session.owner == c {
			c.session.release(q, false)
		}
		return
	}
	c.passOn()
}
