package filter

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// maxStatements is how many statements an action can have; Service Bus has the same bound.
const maxStatements = 32

// Editable is a message that an action changes.
type Editable interface {
	Message
	// SetSystem sets a system property; nil removes it. The value is of the property's type: a time.Duration for
	// TimeToLive, a time.Time for ScheduledEnqueueTimeUtc, otherwise a string.
	SetSystem(p SystemProperty, value any)
	// SetApplicationProperties replaces all of them.
	SetApplicationProperties(m amqp.Map)
}

// Action is what a rule does to the messages it selects: SET and REMOVE statements.
type Action struct {
	text       string
	parameters map[string]any
	statements []func(Editable)
}

// ParseAction reads an action. Parameters are as for ParseSQL; an error in the expression is a *SyntaxError.
func ParseAction(text string, parameters map[string]any) (*Action, error) {
	p, err := newParser(text, parameters)
	if err != nil {
		return nil, err
	}
	a := &Action{text: text, parameters: parameters}
	for {
		at := p.peek().at
		a.statements = append(a.statements, p.statement())
		if len(a.statements) > maxStatements {
			p.fail(at, "there are more than %d statements", maxStatements)
		}
		p.symbol(";")
		if p.peek().kind == end {
			break
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	return a, nil
}

// Apply runs the statements in order. One whose value cannot become of the property's type leaves the property as it was.
func (a *Action) Apply(m Editable) {
	for _, statement := range a.statements {
		statement(m)
	}
}

// String is the action as it was given.
func (a *Action) String() string { return a.text }

// Parameters are those that were given. They are not to be changed.
func (a *Action) Parameters() map[string]any { return a.parameters }

func (p *parser) statement() func(Editable) {
	switch {
	case p.keyword("SET"):
		return p.set()
	case p.keyword("REMOVE"):
		target := p.target()
		return target.remove
	}
	p.wants("SET or REMOVE")
	return nil
}

func (p *parser) set() func(Editable) {
	target := p.target()
	p.expect("=")
	expression := p.sum()
	value := p.value(expression)
	if v := expression.constant; v != nil && target.system != "" {
		if _, ok := systemForm(target.system, *v); !ok {
			p.fail(expression.at, "this value cannot become that of sys.%s", target.system)
		}
	}
	return func(m Editable) { target.set(m, value(m)) }
}

// target parses a property that can be set.
func (p *parser) target() property {
	at := p.peek().at
	of := p.property()
	switch of.system {
	case "", ContentType, CorrelationID, Label, MessageID, PartitionKey, ReplyTo, ReplyToSessionID,
		ScheduledEnqueueTimeUtc, SessionID, TimeToLive, To, ViaPartitionKey:
	default:
		p.fail(at, "sys.%s cannot be changed", of.system)
	}
	return of
}

func (p property) set(m Editable, v any) {
	if p.system != "" {
		if v, ok := systemForm(p.system, v); ok {
			m.SetSystem(p.system, v)
		}
		return
	}
	all := slices.Clone(m.ApplicationProperties())
	if i := slices.IndexFunc(all, p.names); i >= 0 {
		all[i].Value = inTypeOf(all[i].Value, wire(v))
	} else {
		all = append(all, amqp.MapEntry{Key: p.name, Value: wire(v)})
	}
	m.SetApplicationProperties(all)
}

func (p property) remove(m Editable) {
	if p.system != "" {
		m.SetSystem(p.system, nil)
		return
	}
	m.SetApplicationProperties(slices.DeleteFunc(slices.Clone(m.ApplicationProperties()), p.names))
}

func (p property) names(e amqp.MapEntry) bool {
	key, ok := e.Key.(string)
	return ok && strings.EqualFold(key, p.name)
}

// systemForm converts a value to the type of a system property.
func systemForm(p SystemProperty, v any) (converted any, ok bool) {
	v = normal(v)
	if v == nil {
		return nil, true
	}
	switch p {
	case TimeToLive:
		d, ok := v.(time.Duration)
		return d, ok && d > 0
	case ScheduledEnqueueTimeUtc:
		at, ok := v.(time.Time)
		return at, ok
	}
	s, ok := textOf(v)
	return s, ok && len(s) <= maxText
}

// inTypeOf converts a value to the type of the one it replaces, if that can be without loss.
func inTypeOf(old, v any) any {
	if v == nil {
		return nil
	}
	switch old.(type) {
	case string:
		if s, ok := textOf(v); ok {
			return s
		}
	case bool:
		if s, ok := v.(string); ok {
			if b, err := strconv.ParseBool(strings.ToLower(s)); err == nil {
				return b
			}
		}
	case float32:
		if f, ok := toFloat(v); ok {
			return float32(f)
		}
	case float64:
		if f, ok := toFloat(v); ok {
			return f
		}
	default:
		return likeInteger(old, v)
	}
	return v
}

func likeInteger(old, v any) any {
	n, ok := toInteger(v)
	if !ok {
		return v
	}
	var fitting any
	switch old.(type) {
	case int8:
		fitting = int8(n)
	case int16:
		fitting = int16(n)
	case int32:
		fitting = int32(n)
	case int64:
		fitting = n
	case uint8:
		fitting = uint8(n)
	case uint16:
		fitting = uint16(n)
	case uint32:
		fitting = uint32(n)
	case uint64:
		if n >= 0 {
			fitting = uint64(n)
		}
	}
	if normal(fitting) != any(n) {
		return v
	}
	return fitting
}

func toFloat(v any) (float64, bool) {
	if s, ok := v.(string); ok {
		f, err := strconv.ParseFloat(s, 64)
		return f, err == nil
	}
	return number(v)
}

// toInteger loses nothing: 2.5 is not one.
func toInteger(v any) (int64, bool) {
	switch v := normal(v).(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), v == math.Trunc(v) && v >= -1<<63 && v < 1<<63
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	}
	return 0, false
}
