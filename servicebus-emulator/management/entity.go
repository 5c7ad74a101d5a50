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
	"com.microsoft:renew-lock":                 renewLocks,
	"com.microsoft:renew-session-lock":         renewSessionLock,
	"com.microsoft:update-disposition":         updateDisposition,
	"com.microsoft:peek-message":               peek,
	"com.microsoft:receive-by-sequence-number": receiveDeferred,
	"com.microsoft:get-session-state":          sessionState,
	"com.microsoft:set-session-state":          setSessionState,
	"com.microsoft:get-message-sessions":       messageSessions,
	"com.microsoft:enumerate-rules":            enumerateRules,
	"com.microsoft:add-rule":                   addRule,
	"com.microsoft:remove-rule":                removeRule,
}

// sendOperations are those on a topic or queue that are about sending to it.
var sendOperations = map[string]func(*broker.Destination, *Request, amqp.Map) Response{
	"com.microsoft:schedule-message":         schedule,
	"com.microsoft:cancel-scheduled-message": cancelScheduled,
}

// Operate carries out a request to the $management node of an entity: what is received from, what is sent to, or both in
// the case of a queue; the other is nil. Both are if the entity was deleted meanwhile.
func Operate(q *broker.Queue, d *broker.Destination, r *Request) Response {
	if q == nil && d == nil {
		return failure(statusNotFound, amqp.ErrNotFound, "%s: the messaging entity could not be found", r.Operation)
	}
	receive, send := operations[r.Operation], sendOperations[r.Operation]
	if (receive == nil || q == nil) && (send == nil || d == nil) {
		return failure(statusNotImplemented, amqp.ErrNotImplemented, "operation '%s' is not implemented by this emulator for "+
			"this entity; on queues and subscriptions these are: %s; on queues and topics: %s",
			r.Operation, names(operations), names(sendOperations))
	}
	body, ok := r.Body.(amqp.Map)
	if !ok {
		return failure(statusBadRequest, amqp.ErrInvalidField, "%s: the request's body is not a map", r.Operation)
	}
	if send != nil {
		return send(d, r, body)
	}
	return receive(q, r, body)
}

func names[T any](operations map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(operations)), ", ")
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
	return answer("expirations", expirations)
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
	return answer("expiration", until)
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
	case "defered": // as Service Bus spells it
		settle = func(token amqp.UUID) *amqp.Error { return q.Defer(token, set) }
	default:
		return invalid(r, "disposition-status", "completed, abandoned, defered or suspended")
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
	return answer("messages", messages)
}

// Ticks is a time as .NET counts it: 100 ns since the year 1, in which link properties give it.
func Ticks(at time.Time) int64 {
	const ticksToUnixEpoch = 621_355_968_000_000_000
	return at.UnixMilli()*10_000 + ticksToUnixEpoch
}
