package management

import (
	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
)

// peekLock is the receiver-settle-mode of a request for deferred messages that are to be locked rather than deleted.
const peekLock = 1

func receiveDeferred(q *broker.Queue, r *Request, body amqp.Map) Response {
	sequences, ok := longs(body, "sequence-numbers")
	if !ok {
		return invalid(r, "sequence-numbers", "an array of longs")
	}
	mode, ok := integer(body, "receiver-settle-mode")
	if !ok {
		return invalid(r, "receiver-settle-mode", "a number")
	}
	found, err := q.ReceiveDeferred(sequences, mode != peekLock, r.text("associated-link-name"))
	if err != nil {
		return refusal(err)
	}
	messages := amqp.List{}
	for i := range found {
		entry := amqp.Map{{Key: "message", Value: found[i].Append(nil)}}
		if mode == peekLock {
			entry = append(entry, amqp.MapEntry{Key: "lock-token", Value: found[i].Token})
		}
		messages = append(messages, entry)
	}
	return answer("messages", messages)
}

func schedule(d *broker.Destination, r *Request, body amqp.Map) Response {
	var messages [][]byte
	for _, item := range list(body, "messages") {
		entry, _ := item.(amqp.Map)
		value, _ := entry.Get("message")
		message, ok := value.([]byte)
		if !ok {
			return invalid(r, "message", "binary")
		}
		messages = append(messages, message)
	}
	if len(messages) == 0 {
		return invalid(r, "messages", "a list of maps")
	}
	sequences, err := d.Schedule(messages)
	if err != nil {
		return refusal(err)
	}
	numbers := amqp.Array{Code: amqp.ArrayOfLongs}
	for _, n := range sequences {
		numbers.Items = append(numbers.Items, n)
	}
	return answer("sequence-numbers", numbers)
}

func cancelScheduled(d *broker.Destination, r *Request, body amqp.Map) Response {
	sequences, ok := longs(body, "sequence-numbers")
	if !ok {
		return invalid(r, "sequence-numbers", "an array of longs")
	}
	if err := d.CancelScheduled(sequences); err != nil {
		return refusal(err)
	}
	return answer("", nil)
}
