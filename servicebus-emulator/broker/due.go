package broker

import (
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// await notes when something is due; a zero time means never.
func (q *Queue) await(d *deadline, at time.Time) {
	switch {
	case at.IsZero():
		q.cancel(d)
	case d.index >= 0:
		d.at = at
		q.dues.fix(d.index)
	default:
		d.at = at
		q.dues.push(d)
	}
}

func (q *Queue) cancel(d *deadline) {
	if d.index >= 0 {
		q.dues.remove(d.index)
	}
}

// schedule sets the timer, if it is not set for early enough. A timer that goes off too early costs less than one that
// is moved with every message.
func (q *Queue) schedule() {
	if len(q.dues.items) == 0 || q.stopped {
		return
	}
	at := q.dues.items[0].at
	if !q.timerAt.IsZero() && !at.Before(q.timerAt) {
		return
	}
	q.timerAt = at
	wait := max(at.Sub(q.clock.Now()), 0)
	if q.timer == nil {
		q.timer = q.clock.AfterFunc(wait, q.onTimer)
	} else {
		q.timer.Reset(wait)
	}
}

func (q *Queue) onTimer() {
	q.mu.Lock()
	defer q.unlock()
	q.timerAt = time.Time{}
	q.settleDue(q.clock.Now())
}

// settleDue ends the locks and lives that are over, and the waits of scheduled messages.
func (q *Queue) settleDue(now time.Time) {
	for len(q.dues.items) > 0 && !q.dues.items[0].at.After(now) {
		d := q.dues.items[0]
		switch {
		case d.session != nil:
			q.expireSession(d.session)
		case d.message.state == scheduled:
			q.activate(d.message)
		case d.message.lockedUntil.IsZero():
			q.cancel(d)
			q.expireWaiting(d.message)
		default:
			q.unlockMessage(d.message)
			q.giveBack(d.message, true, now)
		}
	}
}

// expireWaiting ends the life of a message that waits in its lane.
func (q *Queue) expireWaiting(m *message) {
	q.laneOf(m).remove(m)
	s := m.session
	q.expire(m)
	if s != nil {
		if s.lane.length == 0 {
			q.free.remove(s)
		}
		s.forgetIfIdle(q)
	}
}

// ExpireLocks ends every lock on a message or a session now, as if its time had come.
func (q *Queue) ExpireLocks() {
	q.mu.Lock()
	defer q.unlock()
	now := q.clock.Now()
	for _, s := range q.sessions {
		if s.owner != nil {
			q.expireSession(s)
		}
	}
	for _, m := range q.locked {
		q.unlockMessage(m)
		q.giveBack(m, true, now)
	}
}

// end drops every message and lets go of all consumers: the queue is deleted, and its dead-letter queue with it.
func (q *Queue) end() {
	if q.idle != nil {
		q.idle.set(0)
	}
	q.mu.Lock()
	waiting := q.accepting
	q.stopTimers()
	q.deleted = true
	for m := q.all.oldest; m != nil; m = m.newer {
		m.removed = true
		q.quota.release(m.content.size)
	}
	for _, s := range q.sessions {
		q.quota.release(int64(len(s.state)))
	}
	q.all, q.lane, q.scheduled, q.free, q.dues.items = ledger{}, newLane(), 0, sessionList{}, nil
	clear(q.locked)
	clear(q.parked)
	clear(q.sessions)
	for c := range q.consumers {
		q.disconnect(c)
	}
	clear(q.consumers)
	for _, a := range waiting {
		q.after = append(q.after, func() { a.done(nil, entityDeleted(q.path)) })
	}
	q.unlock()
	if q.deadLetter != nil {
		q.deadLetter.end()
	}
}

// Deleted answers why the queue cannot be used any more, or nil if it can.
func (q *Queue) Deleted() *amqp.Error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return entityDeleted(q.path)
	}
	return nil
}

// stop ends the timers.
func (q *Queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopTimers()
}

func (q *Queue) stopTimers() {
	if q.timer != nil {
		q.timer.Stop()
	}
	if q.retry != nil {
		q.retry.Stop()
	}
	q.stopped = true
	for _, a := range q.accepting {
		a.over = true
		a.timer.Stop()
	}
	q.accepting = nil
}
