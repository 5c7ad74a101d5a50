package broker

import (
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// message is one message in one queue. It is guarded by the queue's mutex, but for what is set when it is
// enqueued and read by deliveries: sequence, enqueuedSequence, enqueuedAt, ttl, deadLetterSource, hops.
type message struct {
	sequence         int64
	enqueuedSequence int64 // in the topic or queue it was sent to
	enqueuedAt       time.Time
	ttl              time.Duration // zero: none
	expiresAt        time.Time     // zero: never
	deadLetterSource string
	hops             int // how often it was forwarded

	content       *content
	deliveryCount uint32
	session       *session // nil in a queue without sessions
	removed       bool
	state         state // other than active, it is in the queue's parked
	aside         bool  // it cannot be forwarded from the dead-letter queue that it is in

	token       amqp.UUID // zero: not locked
	lockedUntil time.Time // of its own lock; a session's messages are locked by the session

	due           deadline
	next, prev    *message // in its lane, while it waits there for the first time
	inList        bool
	returnedIndex int      // in its lane's heap; -1: not there
	newer, older  *message // of all messages in the queue
}

func newMessage(p *parcel, sequence int64, now time.Time) *message {
	m := &message{
		sequence: sequence, enqueuedSequence: p.sequence, enqueuedAt: now, content: p.content,
		deadLetterSource: p.deadLetterSource, hops: p.hops, returnedIndex: -1,
	}
	m.due = deadline{index: -1, message: m}
	return m
}

// deadline is something that happens at a time to a message (its lock or its life ends, or it is scheduled for then) or to a session (its
// lock ends).
type deadline struct {
	at      time.Time
	index   int // in the queue's heap; -1: not there
	message *message
	session *session
}

// before keeps the order of messages that are due at the same time.
func (d *deadline) before(other *deadline) bool {
	if d.message != nil && other.message != nil && d.at.Equal(other.at) {
		return d.message.sequence < other.message.sequence
	}
	return d.at.Before(other.at)
}

// lane is the messages waiting for delivery, lowest sequence number first, but those set aside last. New messages come in
// order and stand in a list; those that come back after a delivery, and dead letters, stand in a heap.
type lane struct {
	head, tail *message
	returned   heap[*message]
	length     int
}

func newLane() lane {
	return lane{returned: heap[*message]{
		less: func(a, b *message) bool {
			if a.aside != b.aside {
				return b.aside
			}
			return a.sequence < b.sequence
		},
		place: func(m *message, i int) { m.returnedIndex = i },
	}}
}

// push adds a message with a higher sequence number than any before.
func (l *lane) push(m *message) {
	m.inList, m.prev = true, l.tail
	if l.tail != nil {
		l.tail.next = m
	} else {
		l.head = m
	}
	l.tail = m
	l.length++
}

// putBack adds a message with any sequence number.
func (l *lane) putBack(m *message) {
	l.returned.push(m)
	l.length++
}

// first answers the next message to deliver, or nil.
func (l *lane) first() *message {
	if len(l.returned.items) > 0 {
		back := l.returned.items[0]
		if l.head == nil || back.sequence < l.head.sequence {
			return back
		}
	}
	return l.head
}

func (l *lane) remove(m *message) {
	l.length--
	if !m.inList {
		l.returned.remove(m.returnedIndex)
		return
	}
	if m.prev != nil {
		m.prev.next = m.next
	} else {
		l.head = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	} else {
		l.tail = m.prev
	}
	m.next, m.prev, m.inList = nil, nil, false
}

// ledger is every message in a queue, locked or not, by sequence number.
type ledger struct {
	oldest, newest *message
	length         int
}

// add inserts a message. It looks for the place from the newest end, where nearly all belong.
func (l *ledger) add(m *message) {
	after := l.newest
	for after != nil && after.sequence > m.sequence {
		after = after.older
	}
	m.older = after
	if after != nil {
		m.newer, after.newer = after.newer, m
	} else {
		m.newer, l.oldest = l.oldest, m
	}
	if m.newer != nil {
		m.newer.older = m
	} else {
		l.newest = m
	}
	l.length++
}

func (l *ledger) remove(m *message) {
	if m.older != nil {
		m.older.newer = m.newer
	} else {
		l.oldest = m.newer
	}
	if m.newer != nil {
		m.newer.older = m.older
	} else {
		l.newest = m.older
	}
	m.newer, m.older = nil, nil
	l.length--
}
