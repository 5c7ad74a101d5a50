package filter

// SQL selects the messages of which an expression in the language of Service Bus's SqlFilter is true, rather than
// false or unknown.
type SQL struct {
	text       string
	parameters map[string]any
	truth      truthIn
}

// ParseSQL reads an expression. Parameters, which it names as @name, can be nil, a string, a boolean, any
// number, a time.Time, a time.Duration or an amqp.UUID. An error in the expression is a *SyntaxError.
func ParseSQL(text string, parameters map[string]any) (*SQL, error) {
	p, err := newParser(text, parameters)
	if err != nil {
		return nil, err
	}
	condition := p.condition(p.disjunction())
	if p.peek().kind != end {
		p.wants("an operator or the end")
	}
	if p.err != nil {
		return nil, p.err
	}
	return &SQL{text, parameters, condition}, nil
}

// Matches says whether the expression is true of the message.
func (s *SQL) Matches(m Message) bool { return s.truth(m) == yes }

// String is the expression as it was given.
func (s *SQL) String() string { return s.text }

// Parameters are those that were given. They are not to be changed.
func (s *SQL) Parameters() map[string]any { return s.parameters }

func (p *parser) disjunction() operand {
	left := p.conjunction()
	for p.keyword("OR") {
		a, b := p.condition(left), p.condition(p.conjunction())
		left = operand{at: left.at, truth: func(m Message) truth {
			if x := a(m); x != yes {
				return max(x, b(m))
			}
			return yes
		}}
	}
	return left
}

func (p *parser) conjunction() operand {
	left := p.negation()
	for p.keyword("AND") {
		a, b := p.condition(left), p.condition(p.negation())
		left = operand{at: left.at, truth: func(m Message) truth {
			if x := a(m); x != no {
				return min(x, b(m))
			}
			return no
		}}
	}
	return left
}

func (p *parser) negation() operand {
	at := p.peek().at
	if p.keyword("NOT") {
		return negated(operand{at: at, truth: p.condition(p.negation())}, true)
	}
	return p.predicate()
}

func negated(o operand, not bool) operand {
	if of := o.truth; not && of != nil {
		o.truth = func(m Message) truth { return -of(m) }
	}
	return o
}

// predicate parses a value and what is said of it; a value alone can be a condition too.
func (p *parser) predicate() operand {
	left := p.sum()
	if operator := p.oneOf("=", "<>", "!=", "<=", "<", ">=", ">"); operator != "" {
		return p.comparison(left, operator)
	}
	if p.keyword("IS") {
		not := p.keyword("NOT")
		return negated(p.isNull(left), not)
	}
	not := p.keyword("NOT")
	switch {
	case p.keyword("IN"):
		return negated(p.in(left), not)
	case p.keyword("LIKE"):
		return negated(p.like(left), not)
	case not:
		p.wants("IN or LIKE")
	}
	return left
}

var comparisons = map[string]func(order int) bool{
	"=":  func(order int) bool { return order == 0 },
	"<>": func(order int) bool { return order != 0 },
	"!=": func(order int) bool { return order != 0 },
	"<":  func(order int) bool { return order < 0 },
	"<=": func(order int) bool { return order <= 0 },
	">":  func(order int) bool { return order > 0 },
	">=": func(order int) bool { return order >= 0 },
}

func (p *parser) comparison(left operand, operator string) operand {
	a, b := p.value(left), p.value(p.sum())
	holds := comparisons[operator]
	needsOrder := operator[0] == '<' && operator != "<>" || operator[0] == '>'
	return operand{at: left.at, truth: func(m Message) truth {
		order, ordered, ok := compare(a(m), b(m))
		if !ok || needsOrder && !ordered {
			return unknown
		}
		return truthOf(holds(order))
	}}
}

func (p *parser) isNull(left operand) operand {
	if !left.isProperty {
		p.fail(left.at, "only a property can be asked whether it IS NULL")
	}
	if !p.keyword("NULL") {
		p.wants("NULL")
	}
	value := p.value(left)
	return operand{at: left.at, truth: func(m Message) truth { return truthOf(value(m) == nil) }}
}

func (p *parser) in(left operand) operand {
	value := p.value(left)
	p.expect("(")
	list := []valueOf{p.value(p.sum())}
	for p.symbol(",") {
		list = append(list, p.value(p.sum()))
	}
	p.expect(")")
	return operand{at: left.at, truth: func(m Message) truth {
		v, found := value(m), no
		for _, candidate := range list {
			if found = max(found, equals(v, candidate(m))); found == yes {
				break
			}
		}
		return found
	}}
}

func (p *parser) like(left operand) operand {
	value, patternOf := p.value(left), p.pattern()
	return operand{at: left.at, truth: func(m Message) truth {
		s, isText := normal(value(m)).(string)
		pattern, err := patternOf(m)
		if !isText || err != nil {
			return unknown
		}
		return truthOf(pattern.matches(s))
	}}
}

// pattern parses a pattern and its escape character. It compiles them at once if they are constant.
func (p *parser) pattern() func(Message) (like, error) {
	pattern := p.sum()
	value, escape := p.value(pattern), constant(pattern.at, nil)
	escapes := p.keyword("ESCAPE")
	if escapes {
		escape = p.sum()
	}
	escapeOf := p.value(escape)
	if pattern.constant == nil || escape.constant == nil {
		return func(m Message) (like, error) { return compileLike(value(m), escapeOf(m), escapes) }
	}
	compiled, err := compileLike(*pattern.constant, *escape.constant, escapes)
	if err != nil {
		p.fail(pattern.at, "%v", err)
	}
	return func(Message) (like, error) { return compiled, nil }
}
