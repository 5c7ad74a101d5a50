package enrollment

import "time"

// suspectFrom is how many commands in a row must have got no answer before an agent's receiver is taken for dead. One alone may have taken
// longer than its caller waited.
const suspectFrom = 2

// Receiver is what gateways noticed of an agent that takes commands over the bus. Its zero value was never sent one.
type Receiver struct {
	AnsweredAt      time.Time // zero: never
	Unanswered      int       // commands in a row
	UnansweredSince time.Time // when the first of these was sent; zero: there are none
}

// Known reports whether a command was ever sent to it.
func (r Receiver) Known() bool { return !r.AnsweredAt.IsZero() || r.Unanswered > 0 }

// Suspect reports whether it is to be taken for dead.
func (r Receiver) Suspect() bool { return r.Unanswered >= suspectFrom }

// SuspectFrom is the number of commands from which Suspect is true, for statements that count.
func SuspectFrom() int { return suspectFrom }
