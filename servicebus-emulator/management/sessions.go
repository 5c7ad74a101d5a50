package management

import (
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
)

func sessionState(q *broker.Queue, r *Request, body amqp.Map) Response {
	id, ok := text(body, "session-id")
	if !ok {
		return invalid(r, "session-id", "a string")
	}
	state, err := q.SessionState(id, r.text("associated-link-name"))
	if err != nil {
		return refusal(err)
	}
	if len(state) == 0 {
		return answer("session-state", nil)
	}
	return answer("session-state", state)
}

// setSessionState takes null, and no bytes, which is what the SDK for Go sends instead, to clear the state.
func setSessionState(q *broker.Queue, r *Request, body amqp.Map) Response {
	id, ok := text(body, "session-id")
	if !ok {
		return invalid(r, "session-id", "a string")
	}
	value, _ := body.Get("session-state")
	state, isBinary := value.([]byte)
	if value != nil && !isBinary {
		return invalid(r, "session-state", "binary or null")
	}
	if err := q.SetSessionState(id, r.text("associated-link-name"), state); err != nil {
		return refusal(err)
	}
	return answer("", nil)
}

// noTime is the time, the end of .NET's, by which a client asks for sessions whenever their state was set.
var noTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

func messageSessions(q *broker.Queue, r *Request, body amqp.Map) Response {
	value, _ := body.Get("last-updated-time")
	after, isTime := value.(time.Time)
	skip, _ := integer(body, "skip")
	top, ok := integer(body, "top")
	switch {
	case value != nil && !isTime:
		return invalid(r, "last-updated-time", "a timestamp")
	case skip < 0:
		return invalid(r, "skip", "a number of 0 or more")
	case !ok || top < 1:
		return invalid(r, "top", "a number of 1 or more")
	case !after.Before(noTime):
		after = time.Time{}
	}
	ids := q.Sessions(after)
	ids = ids[min(skip, int64(len(ids))):]
	ids = ids[:min(top, int64(len(ids)))]
	if len(ids) == 0 {
		return Response{Status: statusNoContent, Description: "No sessions."}
	}
	found := amqp.Array{Code: amqp.ArrayOfStrings}
	for _, id := range ids {
		found.Items = append(found.Items, id)
	}
	response := answer("skip", int32(skip)+int32(len(ids)))
	response.Body = append(response.Body.(amqp.Map), amqp.MapEntry{Key: "sessions-ids", Value: found})
	return response
}
