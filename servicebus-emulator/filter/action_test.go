package filter

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

func (m *message) SetApplicationProperties(all amqp.Map) { m.application = all }

func (m *message) SetSystem(p SystemProperty, v any) {
	text, has := v.(string)
	switch p {
	case Label:
		m.properties.Subject = text
	case To:
		m.properties.To = text
	case SessionID:
		m.properties.GroupID, m.properties.HasGroupID = text, has
	default:
		m.system[p] = v
	}
}

func run(t testing.TB, action string, m *message) {
	t.Helper()
	a, err := ParseAction(action, sampleParameters)
	if err != nil {
		t.Fatalf("%s: %v", action, err)
	}
	if a.String() != action {
		t.Errorf("%s is written as %s", action, a)
	}
	a.Apply(m)
}

func TestActionsOnApplicationProperties(t *testing.T) {
	for _, c := range []struct {
		action, name string
		want         any
	}{
		{"SET new = 5", "new", int64(5)},
		{"set user.new = 'a' + 'b';", "new", "ab"},
		{"SET [new one] = 2.5", "new one", 2.5},
		{"SET new = TRUE", "new", true},
		{"SET new = NULL", "new", nil},
		{"SET new = missing", "new", nil},
		{"SET new = n / 0", "new", nil},
		{"SET new = n", "new", int32(5)}, // copied as it is
		{"SET new = n + 1", "new", int64(6)},
		{"SET new = bytes", "new", []byte("red")},
		{"SET new = span + span", "new", amqp.Described{Descriptor: timespan, Value: int64(1_200_000_000)}},
		{"SET new = sys.TimeToLive", "new", amqp.Described{Descriptor: timespan, Value: int64(600_000_000)}},
		{"SET new = sys.Label", "new", "Order"},
		{"SET new = @at", "new", noon},
		{"SET new = property('color')", "new", "red"},
		{"SET n = n / 2", "n", int32(2)}, // keeps its type
		{"SET N = 7.0", "n", int32(7)},
		{"SET n = 7.5", "n", 7.5},
		{"SET n = '8'", "n", int32(8)},
		{"SET n = 'many'", "n", "many"},
		{"SET n = 4294967296", "n", int64(4294967296)},
		{"SET n = NULL", "n", nil},
		{"SET big = 3", "big", uint64(3)},
		{"SET big = -3", "big", int64(-3)},
		{"SET f = 3", "f", 3.0},
		{"SET f32 = 3", "f32", float32(3)},
		{"SET color = n", "Color", "5"},
		{"SET flag = 'False'", "flag", false},
		{"SET flag = 1", "flag", int64(1)},
		{"SET n = 1; SET n = n + 1; SET new = n", "new", int32(2)},
		{"SET n = 1 SET new = n REMOVE n SET n = new", "n", int32(1)},
		{"REMOVE missing SET new = 1", "new", int64(1)},
		{"SET MessageID=@text SET MessageID=@int SET MessageID=@float SET MessageID=@flag", "MessageID", "True"},
	} {
		m := sample()
		run(t, c.action, m)
		if got, _ := m.application.Get(c.name); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %s is %T %v, want %T %v", c.action, c.name, got, got, c.want, c.want)
		}
	}
	m := sample()
	before := len(m.application)
	run(t, "REMOVE COLOR; REMOVE user.[HR-Employee ID]; REMOVE n", m)
	if len(m.application) != before-3 || len(sample().application) != before {
		t.Errorf("%d properties of %d are left", len(m.application), before)
	}
	run(t, "SET id = newid()", m)
	if id, _ := m.application.Get("id"); id.(amqp.UUID)[6]>>4 != 4 || id == oneID {
		t.Errorf("newid() is %v", id)
	}
}

func TestActionsOnSystemProperties(t *testing.T) {
	for _, c := range []struct {
		action string
		of     SystemProperty
		want   any
	}{
		{"SET sys.Label = 'a'", Label, "a"},
		{"SET sys.Subject = n + 1", Label, "6"},
		{"SET sys.to = sys.To + '-' + color", To, "shop-red"},
		{"SET sys.SessionId = property('id')", SessionID, oneID.String()},
		{"SET sys.SessionId = NULL", SessionID, nil},
		{"REMOVE sys.Label", Label, nil},
		{"SET sys.Label = missing", Label, nil},
		{"SET sys.Label = bytes", Label, "Order"}, // as it was
		{"SET sys.TimeToLive = span", TimeToLive, time.Minute},
		{"SET sys.TimeToLive = @span + @span", TimeToLive, 2 * time.Minute},
		{"SET sys.TimeToLive = -span", TimeToLive, time.Minute},
		{"SET sys.TimeToLive = n", TimeToLive, time.Minute},
		{"REMOVE sys.TimeToLive", TimeToLive, nil},
		{"SET sys.ScheduledEnqueueTimeUtc = at + span", ScheduledEnqueueTimeUtc, noon.Add(time.Minute)},
		{"SET sys.PartitionKey = 'x'", PartitionKey, "x"},
	} {
		m := sample()
		run(t, c.action, m)
		if got := systemValue(m, c.of); got != c.want {
			t.Errorf("%s: %s is %v, want %v", c.action, c.of, got, c.want)
		}
	}
}

func TestActionsDoNotGrowWithoutBound(t *testing.T) {
	m := sample()
	run(t, strings.Repeat("SET color=color+color;", 32), m)
	if v, _ := lookup(m.application, "color"); v != nil {
		t.Errorf("%d characters", len(v.(string)))
	}
}

func TestActionMistakesHaveAPosition(t *testing.T) {
	for _, c := range []struct {
		text     string
		position int
		reason   string
	}{
		{"", 1, "SET or REMOVE is missing"},
		{"UPDATE a = 1", 1, "SET or REMOVE"},
		{"SET", 4, "the name of a property is missing"},
		{"SET a", 6, "= is missing"},
		{"SET a =", 8, "an expression is missing"},
		{"SET a = 1, b = 2", 10, "SET or REMOVE"},
		{"SET a = 1;; SET b = 2", 11, "SET or REMOVE"},
		{"SET a = (b = 1)", 10, "a value is needed"},
		{"SET a = b AND c", 11, "SET or REMOVE"},
		{"SET sys.Nope = 1", 9, `"Nope"`},
		{"SET sys.SequenceNumber = 1", 5, "cannot be changed"},
		{"REMOVE sys.Size", 8, "cannot be changed"},
		{"REMOVE sys.EnqueuedTimeUtc", 8, "cannot be changed"},
		{"SET sys.TimeToLive = '00:01:00'", 22, "sys.TimeToLive"},
		{"REMOVE a.b.c", 8, "scope"},
		{"REMOVE 5", 8, "the name of a property"},
		{"SET a = @nope", 9, "@nope"},
		{strings.Repeat("REMOVE a;", 33), 289, "32 statements"},
		{"SET a = '" + strings.Repeat("x", 1024) + "'", 1025, "1034 characters"},
	} {
		_, err := ParseAction(c.text, nil)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Position != c.position || !strings.Contains(syntax.Reason, c.reason) {
			t.Errorf("%q answers %v, want position %d, %s", c.text, err, c.position, c.reason)
		}
	}
	if _, err := ParseAction(strings.Repeat("REMOVE a;", 32), nil); err != nil {
		t.Error(err)
	}
}

func FuzzSQLAction(f *testing.F) {
	for _, a := range []string{
		"SET a = 1; REMOVE b", "SET sys.Label = color + n", "SET color=color+color SET n=-n", "SET n = n / 2 REMOVE user.[x y]",
		"SET sys.TimeToLive = span + @span", "REMOVE sys.To", "SET id = newid()", "SET flag = 'true'", "SET big = f", "SET a = property(color)", "SET", "SET a = = ;",
	} {
		f.Add(a, "red", int64(5), 2.5)
	}
	f.Fuzz(func(t *testing.T, action, text string, n int64, x float64) {
		a, err := ParseAction(action, sampleParameters)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Position < 1 || syntax.Position > len([]rune(action))+1 {
				t.Fatalf("%q answers %v", action, err)
			}
			return
		}
		other := sample()
		other.application = amqp.Map{{Key: "color", Value: text}, {Key: "n", Value: n}, {Key: "f", Value: x}, {Key: "big", Value: uint64(n)}}
		for _, m := range []*message{sample(), other} {
			a.Apply(m)
			if _, err := amqp.DecodeValue(amqp.AppendValue(nil, m.application)); err != nil { // it can be sent
				t.Fatalf("%q: %v", action, err)
			}
		}
	})
}
