package broker

import "github.com/commandcenter/fleet/servicebus-emulator/amqp"

// maxHops is how often a message is forwarded.
const maxHops = 4

const errTooManyHops amqp.Symbol = "MaxTransferHopCountExceeded"

// startForwarding has what waits in the queue moved on, once its mutex is free, if it forwards.
func (q *Queue) startForwarding() {
	if q.settings.ForwardTo == "" || q.forwarding || q.paused || q.lane.length == 0 {
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
		if !q.forwarded(m, q.transfer(m, to)) {
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
		if m == nil || q.paused || q.settings.ForwardTo == "" {
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
	return d.publish([]*parcel{{
		content: m.content, hops: m.hops + 1, deadLetterSource: m.deadLetterSource, sequence: m.enqueuedSequence,
	}})
}

// forwarded takes a message out of the queue, or deals with its not having been taken: it is dead-lettered or, in a dead-letter
// queue, stays until another one arrives. False ends the forwarding.
func (q *Queue) forwarded(m *message, err *amqp.Error) bool {
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
		q.lane.putBack(m)
		q.forwarding = false
		return false
	}
	return true
}

// Forwards says that messages do not stay for receivers.
func (q *Queue) Forwards() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.settings.ForwardTo != "" && q.deadLetter != nil
}
