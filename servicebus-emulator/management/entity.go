package management

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
)

// maxPeekBytes bounds one response to a peek, as the largest message that every client takes.
const maxPeekBytes = 256 << 10

// operations on a queue, subscription or dead-letter queue, by name.
var operations = map[string]func(*broker.Queue, *Request, amqp.Map) Response{
	"com.microsoft:renew-lock":         renewLocks,
	"com.microsoft:renew-session-lock": renewSessionLock,
	"com.microsoft:update-disposition": updateDisposition,
	"com.microsoft:peek-message":       peek,
}

// Operate carries out a request to an entity's $management node. The queue is nil for a topic, on which there is nothing
// to do yet.
func Operate(q *broker.Queue, r *Request) Response {
	operation := operations[r.Operation]
	if operation == nil || q == nil {
		implemented := slices.Sorted(maps.Keys(operations))
		return failure(statusNotImplemented, amqp.ErrNotImplemented,
			"operation '%s' is not implemented by this emulator for this entity; on queues and subscriptions these are: %s",
			r.Operation, strings.Join(implemented, ", "))
	}
	body, ok := r.Body.(amqp.Map)
	if !ok {
		return failure(statusBadRequest, amqp.ErrInvalidField, "%s: the request's body is not a map", r.Operation)
	}
	return operation(q, r, body)
}

func invalid(r *Request, field, want string) Response {
	return failure(statusBadRequest, amqp.ErrInvalidField, "%s: '%s' is missing or is not %s", r.Operation, field, want)
}

func renewLocks(q *broker.Queue, r *Request, body amqp.Map) Response {
	tokens, ok := uuids(body, "lock-tokens")
	if !ok {
		return invalid(r, "lock-tokens", "an array of UUIDs")
	}
	expirations := amqp.Array{Code: amqp.ArrayOfTimestamps}
	for _, token := range tokens {
		until, err := q.Renew(token)
		if err != nil {
			return refusal(err)
		}
		expirations.Items = append(expirations.Items, until)
	}
	return Response{
		Status: statusOK, Description: "OK",
		Body: amqp.Map{{Key: "expirations", Value: expirations}},
	}
}

func renewSessionLock(q *broker.Queue, r *Request, body amqp.Map) Response {
	id, ok := text(body, "session-id")
	if !ok {
		return invalid(r, "session-id", "a string")
	}
	until, err := q.RenewSession(id, r.text("associated-link-name"))
	if err != nil {
		return refusal(err)
	}
	return Response{Status: statusOK, Description: "OK", Body: amqp.Map{{Key: "expiration", Value: until}}}
}

func updateDisposition(q *broker.Queue, r *Request, body amqp.Map) Response {
	tokens, ok := uuids(body, "lock-tokens")
	if !ok {
		return invalid(r, "lock-tokens", "an array of UUIDs")
	}
	status, ok := text(body, "disposition-status")
	if !ok {
		return invalid(r, "disposition-status", "a string")
	}
	value, _ := body.Get("properties-to-modify")
	set, _ := value.(amqp.Map)
	var settle func(amqp.UUID) *amqp.Error
	switch status {
	case "completed":
		settle = q.Complete
	case "abandoned":
		settle = func(token amqp.UUID) *amqp.Error { return q.Abandon(token, set) }
	case "suspended":
		reason, _ := text(body, "deadletter-reason")
		description, _ := text(body, "deadletter-description")
		settle = func(token amqp.UUID) *amqp.Error { return q.DeadLetter(token, reason, description, set) }
	default:
		return failure(statusNotImplemented, amqp.ErrNotImplemented,
			"%s: disposition-status '%s' is not implemented by this emulator; completed, abandoned and suspended are",
			r.Operation, status)
	}
	for _, token := range tokens {
		if err := settle(token); err != nil {
			return refusal(err)
		}
	}
	return Response{Status: statusOK, Description: "OK"}
}

func peek(q *broker.Queue, r *Request, body amqp.Map) Response {
	from, ok := integer(body, "from-sequence-number")
	if !ok {
		return invalid(r, "from-sequence-number", "a number")
	}
	count, ok := integer(body, "message-count")
	if !ok || count < 1 || count > math.MaxInt32 {
		return invalid(r, "message-count", "a number of 1 or more")
	}
	var session *string
	if id, ok := text(body, "session-id"); ok {
		session = &id
	}
	found := q.Peek(from, int(count), maxPeekBytes, session)
	if len(found) == 0 {
		return Response{Status: statusNoContent, Description: "No messages."}
	}
	messages := amqp.List{}
	for i := range found {
		messages = append(messages, amqp.Map{{Key: "message", Value: found[i].Append(nil)}})
	}
	return Response{Status: statusOK, Description: "OK", Body: amqp.Map{{Key: "messages", Value: messages}}}
}

func text(m amqp.Map, key string) (string, bool) {
	v, _ := m.Get(key)
	s, ok := v.(string)
	return s, ok
}

func integer(m amqp.Map, key string) (int64, bool) {
	v, _ := m.Get(key)
	switch v := v.(type) {
	case int64:
		return v, true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case uint64:
		return int64(min(v, math.MaxInt64)), true
	}
	return 0, false
}

func uuids(m amqp.Map, key string) ([]amqp.UUID, bool) {
	v, _ := m.Get(key)
	var items []any
	switch v := v.(type) {
	case amqp.Array:
		items = v.Items
	case amqp.List:
		items = v
	}
	tokens := make([]amqp.UUID, 0, len(items))
	for _, item := range items {
		token, ok := item.(amqp.UUID)
		if !ok {
			return nil, false
		}
		tokens = append(tokens, token)
	}
	return tokens, len(tokens) > 0
}

// Ticks is a time as .NET counts it: 100 ns since the year 1, in which link properties give it.
func Ticks(at time.Time) int64 {
	const ticksToUnixEpoch = 621_355_968_000_000_000
	return at.UnixMilli()*10_000 + ticksToUnixEpoch
}
