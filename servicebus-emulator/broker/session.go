package broker

import (
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// session is the messages with one session id, and the lock on them.
type session struct {
	id          string
	lane        lane
	owner       *Consumer // nil: not locked
	lockedUntil time.Time
	due         deadline
	locked      map[amqp.UUID]*message // handed out; nil: never any
	deferred    int                    // messages
	state       []byte                 // a client's; empty: none
	stateAt     time.Time

	listed     bool
	next, prev *session // in the queue's free sessions
}

// sessionList is sessions in the order in which they became available.
type sessionList struct{ head, tail *session }

func (l *sessionList) push(s *session) {
	s.listed, s.prev = true, l.tail
	if l.tail != nil {
		l.tail.next = s
	} else {
		l.head = s
	}
	l.tail = s
}

func (l *sessionList) remove(s *session) {
	if !s.listed {
		return
	}
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		l.head = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		l.tail = s.prev
	}
	s.next, s.prev, s.listed = nil, nil, false
}

// acceptance is a consumer waiting for any session.
type acceptance struct {
	opts  ConsumerOptions
	done  func(*Consumer, *amqp.Error)
	timer Timer
	over  bool
}

// session answers the session with an id, which it makes if needed.
func (q *Queue) session(id string) *session {
	s := q.sessions[id]
	if s == nil {
		s = &session{id: id, lane: newLane()}
		s.due = deadline{index: -1, session: s}
		q.sessions[id] = s
	}
	return s
}

// announce tells the session's owner that it has messages, or offers the session to who waits for one.
func (s *session) announce(q *Queue) {
	if s.lane.length == 0 {
		return
	}
	if s.owner != nil {
		if s.owner.isWaiting && !q.paused {
			s.owner.isWaiting = false
			s.owner.notify()
		}
		return
	}
	for len(q.accepting) > 0 {
		a := q.accepting[0]
		q.accepting[0] = nil
		q.accepting = q.accepting[1:]
		if a.over {
			continue
		}
		a.over = true
		a.timer.Stop()
		c := s.lock(q, a.opts)
		q.after = append(q.after, func() { a.done(c, nil) })
		return
	}
	if !s.listed {
		q.free.push(s)
	}
}

// lock gives the session to a new consumer.
func (s *session) lock(q *Queue, opts ConsumerOptions) *Consumer {
	c := &Consumer{ConsumerOptions: opts, queue: q, session: s}
	q.free.remove(s)
	s.owner = c
	q.connect(c)
	q.touch(q.clock.Now())
	s.lockedUntil = q.clock.Now().Add(q.settings.LockDuration)
	q.await(&s.due, s.lockedUntil)
	return c
}

// release takes the session from its owner. Messages that were handed out are available again; failed says that this
// counts as a delivery of theirs.
func (s *session) release(q *Queue, failed bool) {
	q.cancel(&s.due)
	now := q.clock.Now()
	s.owner = unavailable // the session is offered once, below, and not for each message
	for _, m := range s.locked {
		q.unlockMessage(m)
		q.giveBack(m, failed, now)
	}
	s.owner = nil
	s.announce(q)
	s.forgetIfIdle(q)
}

// unavailable stands for an owner while a session is being released.
var unavailable = &Consumer{}

func (s *session) forgetIfIdle(q *Queue) {
	if s.owner == nil && s.lane.length == 0 && s.deferred == 0 && len(s.state) == 0 {
		q.free.remove(s)
		delete(q.sessions, s.id)
	}
}

// AcceptSession locks the session with an id, which need not have messages.
func (q *Queue) AcceptSession(id string, opts ConsumerOptions) (*Consumer, *amqp.Error) {
	q.mu.Lock()
	defer q.unlock()
	if q.deleted {
		return nil, entityDeleted(q.path)
	}
	s := q.session(id)
	if s.owner != nil && q.clock.Now().Before(s.lockedUntil) {
		return nil, amqp.Errorf(ErrSessionCannotBeHeld,
			"the requested session '%s' cannot be accepted; it is locked by another receiver", id)
	}
	if s.owner != nil {
		q.expireSession(s)
		s = q.session(id)
		if s.owner != nil { // someone was waiting for it
			return nil, amqp.Errorf(ErrSessionCannotBeHeld,
				"the requested session '%s' cannot be accepted; it is locked by another receiver", id)
		}
	}
	return s.lock(q, opts), nil
}

// AcceptNextSession locks the next session that is free and has messages. It calls done once: with the consumer, or
// with an error when there is none within the timeout. After cancel, done may still be called if it was about to be.
func (q *Queue) AcceptNextSession(
	timeout time.Duration, opts ConsumerOptions, done func(*Consumer, *amqp.Error),
) (cancel func()) {
	q.mu.Lock()
	defer q.unlock()
	if q.deleted {
		q.after = append(q.after, func() { done(nil, entityDeleted(q.path)) })
		return func() {}
	}
	if s := q.free.head; s != nil {
		c := s.lock(q, opts)
		q.after = append(q.after, func() { done(c, nil) })
		return func() {}
	}
	a := &acceptance{opts: opts, done: done}
	a.timer = q.clock.AfterFunc(timeout, func() {
		if q.giveUp(a) {
			done(nil, amqp.Errorf(ErrTimeout, "no session became available within %s", timeout))
		}
	})
	q.accepting = append(q.accepting, a)
	return func() {
		if q.giveUp(a) {
			a.timer.Stop()
		}
	}
}

// giveUp ends a wait for a session, unless it was over.
func (q *Queue) giveUp(a *acceptance) bool {
	q.mu.Lock()
	defer q.unlock()
	if a.over {
		return false
	}
	a.over = true
	for i, other := range q.accepting {
		if other == a {
			q.accepting = append(q.accepting[:i], q.accepting[i+1:]...)
			break
		}
	}
	return true
}

// SessionID is the id of the consumer's session.
func (c *Consumer) SessionID() string { return c.session.id }

// LockedUntil is when the consumer's session lock ends.
func (c *Consumer) LockedUntil() time.Time {
	c.queue.mu.Lock()
	defer c.queue.unlock()
	return c.session.lockedUntil
}

// RenewSession extends the lock on a session from now. With a link name, only if that link's consumer holds it.
func (q *Queue) RenewSession(id, linkName string) (time.Time, *amqp.Error) {
	q.mu.Lock()
	defer q.unlock()
	now := q.clock.Now()
	q.touch(now)
	s := q.sessions[id]
	if s == nil || !s.heldBy(linkName, now) {
		return time.Time{}, sessionLockLost(id)
	}
	s.lockedUntil = now.Add(q.settings.LockDuration)
	q.await(&s.due, s.lockedUntil)
	return s.lockedUntil, nil
}

// heldBy says that the session is locked, by the link of that name if one is given.
func (s *session) heldBy(linkName string, now time.Time) bool {
	return s.owner != nil && now.Before(s.lockedUntil) && (linkName == "" || s.owner.Name == linkName)
}

func sessionLockLost(id string) *amqp.Error {
	return amqp.Errorf(ErrSessionLockLost, "the lock on session '%s' has expired or is held by another receiver", id)
}

// expireSession ends a session's lock and tells its owner.
func (q *Queue) expireSession(s *session) {
	owner := s.owner
	owner.closed = true
	delete(q.consumers, owner)
	s.release(q, true)
	if owner.Lost != nil {
		q.after = append(q.after, func() {
			owner.Lost(amqp.Errorf(ErrSessionLockLost, "the lock on session '%s' has expired", s.id))
		})
	}
}
