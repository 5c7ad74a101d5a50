package broker

import (
	"strings"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

const (
	// maxHops is how often a message is forwarded.
	maxHops = 4
	// forwardPause is after how long a dead-letter queue tries again to forward to a target that was full.
	forwardPause = 10 * time.Second
)

const errTooManyHops amqp.Symbol = "MaxTransferHopCountExceeded"

// startForwarding has what waits in the queue moved on, once its mutex is free, if it forwards.
func (q *Queue) startForwarding() {
	if q.settings.ForwardTo == "" || q.forwarding || q.paused {
		return
	}
	if m := q.lane.first(); m == nil || m.aside {
		return
	}
	q.forwarding = true
	q.after = append(q.after, q.forward)
}

// forward moves messages one at a time, so that their order stays. Only one goroutine does so for a queue.
func (q *Queue) forward() {
	for {
		m, to := q.nextToForward()
		if m == nil {
			return
		}
		if !q.forwarded(m, to, q.transfer(m, to)) {
			return
		}
	}
}

// nextToForward takes a message out of its lane, but not out of the queue, so that it is never nowhere.
func (q *Queue) nextToForward() (*message, string) {
	q.mu.Lock()
	defer q.unlock()
	now := q.clock.Now()
	for {
		m := q.lane.first()
		if m == nil || m.aside || q.paused || q.settings.ForwardTo == "" {
			q.forwarding = false
			return nil, ""
		}
		q.lane.remove(m)
		if !m.expired(now) {
			q.cancel(&m.due)
			return m, q.settings.ForwardTo
		}
		q.expire(m)
	}
}

// transfer sends a message on.
func (q *Queue) transfer(m *message, to string) *amqp.Error {
	if m.hops >= maxHops {
		return amqp.Errorf(errTooManyHops, "the message was forwarded %d times and is not forwarded to '%s'", m.hops, to)
	}
	d := q.destination.broker.Destination(to)
	if d == nil {
		return notFound(to)
	}
	source := m.deadLetterSource
	if q.deadLetter == nil {
		source = strings.TrimSuffix(q.path, deadLetterSuffix)
	}
	return d.publish([]*parcel{{content: m.content, hops: m.hops + 1, deadLetterSource: source, sequence: m.enqueuedSequence}})
}

// forwarded takes a message out of the queue, or deals with its not having been taken: it is dead-lettered or, in a dead-letter
// queue, stays. There it is set aside, or tried again later if the target is full. False ends the forwarding.
func (q *Queue) forwarded(m *message, to string, err *amqp.Error) bool {
	q.mu.Lock()
	defer q.unlock()
	switch {
	case q.deleted:
		return false
	case err == nil:
		q.remove(m)
	case q.deadLetter != nil:
		q.moveToDeadLetter(m, string(err.Condition), err.Description, nil)
	default:
		full := err.Condition == amqp.ErrResourceLimitExceeded
		m.aside = !full && to == q.settings.ForwardTo // it may have changed meanwhile
		q.lane.putBack(m)
		q.wakeOne()
		if full {
			q.forwarding = false
			q.forwardLater()
			return false
		}
	}
	return true
}

func (q *Queue) forwardLater() {
	switch {
	case q.stopped:
	case q.retry == nil:
		q.retry = q.clock.AfterFunc(forwardPause, func() {
			q.mu.Lock()
			defer q.unlock()
			q.startForwarding()
		})
	default:
		q.retry.Reset(forwardPause)
	}
}

// forwardAgain has what was set aside tried again.
func (q *Queue) forwardAgain() {
	for m := q.all.oldest; m != nil; m = m.newer {
		if m.aside {
			m.aside = false
			if m.returnedIndex >= 0 {
				q.lane.returned.fix(m.returnedIndex)
			}
		}
	}
}

// Forwards says that messages do not stay for receivers.
func (q *Queue) Forwards() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.settings.ForwardTo != "" && q.deadLetter != nil
}
