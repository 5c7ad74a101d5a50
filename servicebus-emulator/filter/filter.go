// Package filter decides which messages of a topic a subscription gets.
package filter

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// A Message shows a filter what it may look at. Both are decoded only when asked for.
type Message interface {
	Properties() *amqp.Properties
	ApplicationProperties() amqp.Map
	// System answers a system property that is not in Properties; nil where it has no value.
	System(p SystemProperty) any
}

// A Filter selects messages.
type Filter interface{ Matches(m Message) bool }

// True selects every message.
type True struct{}

// Matches is always true.
func (True) Matches(Message) bool { return true }

// False selects no message.
type False struct{}

// Matches is always false.
func (False) Matches(Message) bool { return false }

// Any selects what at least one of its filters does, as the rules of a subscription do together.
type Any []Filter

// Matches says whether some filter does.
func (a Any) Matches(m Message) bool {
	for _, f := range a {
		if f.Matches(m) {
			return true
		}
	}
	return false
}

// Correlation selects messages that equal it in every part that is set. Comparison is exact and case-sensitive,
// but for the names of application properties, which Service Bus compares without regard to case.
type Correlation struct {
	ContentType      string
	CorrelationID    string
	Label            string // the message's subject
	MessageID        string
	ReplyTo          string
	ReplyToSessionID string
	SessionID        string
	To               string
	Properties       map[string]any // application properties: string, bool, int64, float64 or time.Time
}

// IsEmpty says that nothing is set, which Service Bus refuses as a filter.
func (c *Correlation) IsEmpty() bool {
	return len(c.Properties) == 0 && c.ContentType == "" && c.CorrelationID == "" && c.Label == "" &&
		c.MessageID == "" && c.ReplyTo == "" && c.ReplyToSessionID == "" && c.SessionID == "" && c.To == ""
}

// Matches says whether the message equals all that is set.
func (c *Correlation) Matches(m Message) bool {
	p := m.Properties()
	return equal(c.ContentType, p.ContentType) && equal(c.Label, p.Subject) && equal(c.ReplyTo, p.ReplyTo) &&
		equal(c.ReplyToSessionID, p.ReplyToGroupID) && equal(c.SessionID, p.GroupID) && equal(c.To, p.To) &&
		equalID(c.CorrelationID, p.CorrelationID) && equalID(c.MessageID, p.MessageID) &&
		c.matchesApplication(m)
}

func (c *Correlation) matchesApplication(m Message) bool {
	if len(c.Properties) == 0 {
		return true
	}
	application := m.ApplicationProperties()
	for name, want := range c.Properties {
		got, ok := lookup(application, name)
		if !ok || !equalValue(want, got) {
			return false
		}
	}
	return true
}

func lookup(m amqp.Map, name string) (any, bool) {
	for _, e := range m {
		if key, ok := e.Key.(string); ok && strings.EqualFold(key, name) {
			return e.Value, true
		}
	}
	return nil, false
}

func equal(want, got string) bool { return want == "" || want == got }

// equalID compares ids, which can be more than strings on the wire.
func equalID(want string, got any) bool {
	if want == "" {
		return true
	}
	switch got := got.(type) {
	case nil:
		return false
	case []byte:
		return bytes.Equal([]byte(want), got)
	default:
		return want == fmt.Sprint(got)
	}
}

// equalValue compares text and booleans by type and value, and all else, whatever type carries it, as SQL does.
func equalValue(want, got any) bool {
	switch w := want.(type) {
	case string:
		switch g := got.(type) {
		case string:
			return w == g
		case amqp.Symbol:
			return w == string(g)
		case amqp.UUID:
			return strings.EqualFold(w, g.String())
		}
		return false
	case bool:
		g, ok := got.(bool)
		return ok && w == g
	}
	return equals(want, got) == yes
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case int8:
		return float64(v), true
	case int16:
		return float64(v), true
	case int32:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint8:
		return float64(v), true
	case uint16:
		return float64(v), true
	case uint32:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float32:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
