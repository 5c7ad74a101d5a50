package enrollment

import (
	"fmt"
	"strconv"
)

// State is an operator's decision about an agent.
type State int

// The states; numbers as in registry.proto and in the database.
const (
	Pending State = iota + 1
	Accepted
	Rejected
)

func (s State) String() string {
	switch s {
	case Pending:
		return "Pending"
	case Accepted:
		return "Accepted"
	case Rejected:
		return "Rejected"
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// Verb is what an operator does to an agent.
type Verb int

// The verbs.
const (
	Accept Verb = iota + 1
	Reject
	Remove
)

// Refusal says why a state does not allow a verb.
type Refusal int

// The refusals; None: it is allowed.
const (
	None Refusal = iota
	AlreadyDecided
	InUse
)

// Allow tells whether a state allows a verb.
func Allow(state State, verb Verb) Refusal {
	switch {
	case verb == Accept && state == Accepted, verb == Reject && state == Rejected:
		return AlreadyDecided
	case verb == Remove && state == Accepted:
		return InUse
	}
	return None
}

// Etag names one state of what operators decide about one agent. A row made again after a removal has another key, so an
// etag of the old one never fits it.
func Etag(key, version int64) string { return fmt.Sprintf("%d-%d", key, version) }
