package filter

import (
	"testing"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

type message struct {
	properties  amqp.Properties
	application amqp.Map
	system      map[SystemProperty]any
}

func (m *message) Properties() *amqp.Properties    { return &m.properties }
func (m *message) ApplicationProperties() amqp.Map { return m.application }
func (m *message) System(p SystemProperty) any     { return m.system[p] }

func TestCorrelation(t *testing.T) {
	m := &message{
		properties: amqp.Properties{
			MessageID: "m", CorrelationID: uint64(7), ContentType: "ct", Subject: "l", ReplyTo: "r", ReplyToGroupID: "rg",
			GroupID: "g", HasGroupID: true, To: "To",
		},
		application: amqp.Map{
			{Key: "Text", Value: "a"},
			{Key: "int", Value: int32(5)},
			{Key: "flag", Value: true},
			{Key: "float", Value: 1.5},
			{Key: "null", Value: nil},
			{Key: "large", Value: int64(1<<60 + 1)},
			{Key: "at", Value: time.Unix(1000, 0)},
		},
	}
	user := func(name string, value any) Correlation { return Correlation{Properties: map[string]any{name: value}} }
	for i, c := range []struct {
		filter Correlation
		want   bool
	}{
		{Correlation{MessageID: "m"}, true},
		{Correlation{MessageID: "M"}, false},
		{Correlation{CorrelationID: "7"}, true},
		{Correlation{ContentType: "ct", Label: "l", ReplyTo: "r", ReplyToSessionID: "rg", SessionID: "g", To: "To"}, true},
		{Correlation{ContentType: "ct", To: "to"}, false},
		{Correlation{Label: "x"}, false},
		{Correlation{ReplyTo: "x"}, false},
		{Correlation{ReplyToSessionID: "x"}, false},
		{Correlation{SessionID: "x"}, false},
		{user("text", "a"), true},
		{user("Text", "A"), false},
		{user("int", 5.0), true},
		{user("int", "5"), false},
		{user("int", true), false},
		{user("flag", true), true},
		{user("flag", false), false},
		{user("float", 1.5), true},
		{user("null", "a"), false},
		{user("missing", "a"), false},
		{user("large", int64(1<<60+1)), true},
		{user("large", int64(1<<60)), false},
		{user("at", time.Unix(1000, 0).UTC()), true},
		{user("at", time.Unix(1001, 0)), false},
		{user("at", time.Unix(1000, 0).UTC().Format(time.RFC3339Nano)), false},
		{user("flag", "True"), false},
		{Correlation{To: "To", Properties: map[string]any{"text": "b"}}, false},
	} {
		if got := c.filter.Matches(m); got != c.want {
			t.Errorf("%d: %+v answers %v", i, c.filter, got)
		}
	}
	if (&Correlation{MessageID: "m"}).Matches(&message{}) {
		t.Error("a message without an id has one")
	}
}

func TestAny(t *testing.T) {
	m := &message{properties: amqp.Properties{To: "a"}}
	a, b := &Correlation{To: "a"}, &Correlation{To: "b"}
	if !(Any{b, a}).Matches(m) || (Any{b}).Matches(m) || (Any{}).Matches(m) || !(True{}).Matches(m) || (False{}).Matches(m) {
		t.Error("wrong")
	}
}
