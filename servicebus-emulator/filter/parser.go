package filter

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// reserved words name a property only as [AND] or "AND".
var reserved = map[string]bool{
	"AND": true, "OR": true, "NOT": true, "LIKE": true, "ESCAPE": true, "IN": true, "IS": true, "NULL": true,
	"EXISTS": true, "TRUE": true, "FALSE": true,
}

type (
	valueOf func(Message) any
	truthIn func(Message) truth
)

// operand is a part of an expression: a value, a condition or, as a property that may be a boolean, either.
type operand struct {
	at         int
	value      valueOf // nil: only a condition
	truth      truthIn // nil: only a value
	constant   *any    // the value, if it is always the same
	isProperty bool
}

// parser goes down the grammar. The first error sticks and moves it to the end.
type parser struct {
	tokens     []token
	next       int
	parameters map[string]any // by lower-case name without @
	err        error
}

func newParser(expression string, parameters map[string]any) (*parser, error) {
	tokens, err := lex(expression)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, parameters: make(map[string]any, len(parameters))}
	for name, v := range parameters {
		p.parameters[strings.ToLower(strings.TrimPrefix(name, "@"))] = v
	}
	return p, nil
}

func (p *parser) fail(at int, format string, args ...any) {
	if p.err == nil {
		p.err = &SyntaxError{at, fmt.Sprintf(format, args...)}
	}
	p.next = len(p.tokens) - 1
}

func (p *parser) peek() token { return p.tokens[p.next] }

func (p *parser) take() token {
	t := p.tokens[p.next]
	if t.kind != end {
		p.next++
	}
	return t
}

// wants fails for want of something.
func (p *parser) wants(what string) {
	if t := p.peek(); t.kind == end {
		p.fail(t.at, "%s is missing", what)
	} else {
		p.fail(t.at, "%s should be here, not %q", what, t.text)
	}
}

// keyword takes the next token if it is this one.
func (p *parser) keyword(w string) bool {
	if t := p.peek(); t.kind != word || !strings.EqualFold(t.text, w) {
		return false
	}
	p.take()
	return true
}

// symbol takes the next token if it is this one.
func (p *parser) symbol(s string) bool {
	if t := p.peek(); t.kind != symbol || t.text != s {
		return false
	}
	p.take()
	return true
}

func (p *parser) expect(s string) {
	if !p.symbol(s) {
		p.wants(s)
	}
}

func (p *parser) value(o operand) valueOf {
	if o.value == nil {
		p.fail(o.at, "this is a condition, where a value is needed")
	}
	return o.value
}

func (p *parser) condition(o operand) truthIn {
	if o.truth == nil {
		p.fail(o.at, "this is a value, where a condition is needed")
	}
	return o.truth
}

// sum parses what + and - join.
func (p *parser) sum() operand { return p.chain(p.product, "+", "-") }

func (p *parser) product() operand { return p.chain(p.unary, "*", "/", "%") }

// chain parses operands between operators that bind equally, from the left.
func (p *parser) chain(operandOf func() operand, operators ...string) operand {
	left := operandOf()
	for {
		operator := p.oneOf(operators...)
		if operator == "" {
			return left
		}
		a, b := p.value(left), p.value(operandOf())
		left = operand{at: left.at, value: func(m Message) any { return arithmetic(operator, a(m), b(m)) }}
	}
}

func (p *parser) oneOf(symbols ...string) string {
	for _, s := range symbols {
		if p.symbol(s) {
			return s
		}
	}
	return ""
}

func (p *parser) unary() operand {
	at := p.peek().at
	switch p.oneOf("-", "+") {
	case "-":
		if t := p.peek(); t.kind == integer { // with its sign: the least int64 has no positive
			p.take()
			return p.integer("-"+t.text, at)
		}
		v := p.value(p.unary())
		return operand{at: at, value: func(m Message) any { return negative(v(m)) }}
	case "+":
		v := p.value(p.unary())
		return operand{at: at, value: func(m Message) any { return positive(v(m)) }}
	}
	return p.primary()
}

func (p *parser) primary() operand {
	t := p.peek()
	switch t.kind {
	case text:
		return constant(p.take().at, t.text)
	case integer:
		return p.integer(p.take().text, t.at)
	case decimal:
		v, err := strconv.ParseFloat(p.take().text, 64)
		if err != nil {
			p.fail(t.at, "%s is beyond the range of a double", t.text)
		}
		return constant(t.at, v)
	case parameter:
		return p.parameter(p.take())
	case delimited:
		return p.propertyOperand()
	case word:
		return p.word()
	case symbol:
		if p.symbol("(") {
			inner := p.disjunction()
			p.expect(")")
			return inner
		}
	}
	p.wants("an expression")
	return operand{}
}

func (p *parser) integer(digits string, at int) operand {
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		p.fail(at, "%s is beyond the range of a 64-bit integer", digits)
	}
	return constant(at, v)
}

// word parses what begins with a keyword, a function or a name.
func (p *parser) word() operand {
	t := p.peek()
	switch strings.ToUpper(t.text) {
	case "NULL":
		return constant(p.take().at, nil)
	case "TRUE":
		return constant(p.take().at, true)
	case "FALSE":
		return constant(p.take().at, false)
	case "EXISTS":
		p.take()
		p.expect("(")
		of := p.property()
		p.expect(")")
		return operand{at: t.at, truth: func(m Message) truth { return truthOf(of.exists(m)) }}
	}
	if following := p.tokens[p.next+1]; following.kind == symbol && following.text == "(" && !reserved[strings.ToUpper(t.text)] {
		return p.function(p.take())
	}
	return p.propertyOperand()
}

func (p *parser) function(name token) operand {
	p.expect("(")
	defer p.expect(")")
	switch strings.ToLower(name.text) {
	case "newid":
		return operand{at: name.at, value: func(Message) any { return newID() }}
	case "property", "p":
		of := p.value(p.sum())
		return either(name.at, func(m Message) any {
			if name, ok := textOf(of(m)); ok {
				return property{name: name}.value(m)
			}
			return nil
		})
	}
	p.fail(name.at, "there is no function %q; there are newid(), property(name) and p(name)", name.text)
	return operand{}
}

func newID() amqp.UUID {
	var id amqp.UUID
	_, _ = rand.Read(id[:]) // it never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

func (p *parser) parameter(t token) operand {
	v, ok := p.parameters[strings.ToLower(t.text)]
	if !ok {
		p.fail(t.at, "there is no value for the parameter @%s", t.text)
	}
	v = normal(v)
	switch v.(type) {
	case nil, bool, int64, float64, string, time.Time, time.Duration, amqp.UUID:
	default:
		p.fail(t.at, "the parameter @%s is a %T, which is no type of the language", t.text, v)
	}
	return constant(t.at, v)
}

func (p *parser) propertyOperand() operand {
	at := p.peek().at
	return either(at, p.property().value)
}

// property parses [scope.]name.
func (p *parser) property() property {
	t := p.peek()
	if following := p.tokens[min(p.next+1, len(p.tokens)-1)]; t.kind == word && following.kind == symbol && following.text == "." {
		p.take()
		p.take()
		switch {
		case strings.EqualFold(t.text, "user"):
			return property{name: p.name()}
		case strings.EqualFold(t.text, "sys"):
			return p.systemProperty()
		}
		p.fail(t.at, "there is no scope %q; there are user and sys", t.text)
	}
	return property{name: p.name()}
}

func (p *parser) systemProperty() property {
	at := p.peek().at
	name := p.name()
	system, ok := systemNames[strings.ToLower(name)]
	if !ok {
		p.fail(at, "a message has no system property %q", name)
	}
	return property{system: system, name: name}
}

func (p *parser) name() string {
	t := p.peek()
	switch {
	case t.kind == delimited:
		return p.take().text
	case t.kind != word:
		p.wants("the name of a property")
	case reserved[strings.ToUpper(t.text)]:
		p.fail(t.at, "%s is a reserved word; the property of that name is [%s]", t.text, t.text)
	}
	return p.take().text
}

func constant(at int, v any) operand {
	o := operand{at: at, value: func(Message) any { return v }, constant: &v}
	switch v := v.(type) {
	case nil:
		o.truth = func(Message) truth { return unknown }
	case bool:
		o.truth = func(Message) truth { return truthOf(v) }
	}
	return o
}

// either is a property: it may be a boolean, which is a condition too.
func either(at int, value valueOf) operand {
	return operand{at: at, value: value, isProperty: true, truth: func(m Message) truth {
		if b, ok := value(m).(bool); ok {
			return truthOf(b)
		}
		return unknown
	}}
}
