package node

import (
	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
	"github.com/commandcenter/fleet/servicebus-emulator/faults"
	"github.com/commandcenter/fleet/servicebus-emulator/transport"
)

// maxTakeBytes bounds what one turn of a link pulls from its queue.
const maxTakeBytes = 256 << 10

// receiver hands a queue's messages to a link.
type receiver struct {
	link     *transport.Link
	queue    *broker.Queue
	consumer *broker.Consumer
	faults   *faults.Faults
	deletes  bool

	// Kept between calls of Take, which come from one goroutine, so that they allocate little.
	taken   []broker.Delivery
	batch   []transport.Delivery
	payload []byte
}

func (c *connection) newReceiver(l *transport.Link, q *broker.Queue) *receiver {
	return &receiver{link: l, queue: q, faults: c.Faults, deletes: l.Request().SenderSettleMode == amqp.SenderSettled}
}

func (r *receiver) options() broker.ConsumerOptions {
	return broker.ConsumerOptions{
		Name: r.link.Request().Name, Deletes: r.deletes, Notify: r.link.Notify, Lost: r.link.Detach,
	}
}

// detachIfLost ends a link that was attached too late to be told that its queue was deleted.
func (r *receiver) detachIfLost() {
	if reason := r.queue.Deleted(); reason != nil {
		r.link.Detach(reason)
	}
}

// Take pulls from the queue.
func (r *receiver) Take(limit int) ([]transport.Delivery, bool) {
	clear(r.taken)
	taken, more := r.consumer.Take(r.taken[:0], limit, maxTakeBytes)
	r.taken, r.batch = taken, r.batch[:0]
	buf := r.payload[:0]
	for i := range taken {
		start := len(buf)
		buf = taken[i].Append(buf)
		r.batch = append(r.batch, transport.Delivery{
			Tag: taken[i].Token.GUID(), Settled: r.deletes, Payload: buf[start:len(buf):len(buf)],
		})
	}
	r.payload = buf
	if cap(buf) > 2*maxTakeBytes {
		r.payload = nil
	}
	return r.batch, more
}

// Undelivered puts messages back.
func (r *receiver) Undelivered(n int) {
	if n < len(r.taken) {
		r.consumer.Undelivered(r.taken[n:])
	}
}

// Settle carries out the client's decision on a message. What is confirmed is the decision, without its details.
func (r *receiver) Settle(tag amqp.UUID, state amqp.State) amqp.State {
	token := tag.GUID()
	var err *amqp.Error
	switch state.Outcome {
	case amqp.Accepted:
		err = r.queue.Complete(token)
	case amqp.Rejected:
		reason, description, set := deadLetterReason(state.Error)
		err = r.queue.DeadLetter(token, reason, description, set)
	case amqp.Modified:
		if state.UndeliverableHere {
			err = r.queue.Defer(token, state.Annotations)
			break
		}
		err = r.queue.Abandon(token, state.Annotations)
	default: // released, or settled without a word, which means the same
		err = r.queue.Release(token)
	}
	switch {
	case err != nil:
		return amqp.State{Outcome: amqp.Rejected, Error: err}
	case state.Outcome == amqp.NoOutcome || state.Outcome == amqp.Released: // not settled: SDKs do this unasked
		return amqp.State{Outcome: amqp.Released}
	case r.faults.Strike(faults.Settled, Address(r.link.Request())) != nil:
		return amqp.State{}
	}
	return amqp.State{Outcome: state.Outcome}
}

// deadLetterReason reads why a client rejects a message, and what else it sets on it.
func deadLetterReason(e *amqp.Error) (reason, description string, set amqp.Map) {
	if e == nil {
		return "", "", nil
	}
	if e.Condition != "com.microsoft:dead-letter" {
		reason, description = string(e.Condition), e.Description
	}
	for _, entry := range e.Info {
		key, _ := entry.Key.(amqp.Symbol)
		if text, ok := entry.Key.(string); ok {
			key = amqp.Symbol(text)
		}
		value, isText := entry.Value.(string)
		switch {
		case key == "DeadLetterReason" && isText:
			reason = value
		case key == "DeadLetterErrorDescription" && isText:
			description = value
		default:
			set = append(set, entry)
		}
	}
	return reason, description, set
}
