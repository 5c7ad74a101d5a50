package filter

import (
	"fmt"
	"strings"
	"unicode"
)

// maxExpression is how long an expression can be, in characters; Service Bus has the same bound.
const maxExpression = 1024

// SyntaxError says what is wrong with an expression, and where.
type SyntaxError struct {
	Position int // of a character, from 1
	Reason   string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("position %d: %s", e.Position, e.Reason) }

type kind uint8

const (
	end       kind = iota
	word           // a regular identifier or a keyword
	delimited      // [an identifier] or "an identifier"
	text           // 'a string'
	integer
	decimal
	parameter // @name, without the @
	symbol
)

type token struct {
	kind kind
	text string // without quotes
	at   int    // position of its first character
}

type lexer struct {
	runes  []rune
	at     int // index of the next character
	tokens []token
}

// lex cuts an expression into tokens, the last of which is the end.
func lex(expression string) ([]token, error) {
	l := lexer{runes: []rune(expression)}
	if len(l.runes) > maxExpression {
		return nil, &SyntaxError{maxExpression + 1, fmt.Sprintf(
			"the expression has %d characters; at most %d are allowed", len(l.runes), maxExpression)}
	}
	for {
		l.skip(unicode.IsSpace)
		if l.at == len(l.runes) {
			l.add(end, "", l.at)
			return l.tokens, nil
		}
		if err := l.token(); err != nil {
			return nil, err
		}
	}
}

func (l *lexer) token() error {
	start := l.at
	switch c := l.peek(); {
	case unicode.IsLetter(c):
		l.skip(isNamePart)
		l.add(word, string(l.runes[start:l.at]), start)
	case isASCIIDigit(c):
		return l.number()
	case c == '\'':
		return l.quoted(text, '\'')
	case c == '"':
		return l.quoted(delimited, '"')
	case c == '[':
		return l.quoted(delimited, ']')
	case c == '@':
		l.at++
		l.skip(isNamePart)
		if l.at == start+1 {
			return &SyntaxError{start + 1, "@ without the name of a parameter"}
		}
		l.add(parameter, string(l.runes[start+1:l.at]), start)
	default:
		return l.symbol()
	}
	return nil
}

func (l *lexer) number() error {
	start, k := l.at, integer
	l.skip(isASCIIDigit)
	if l.peek() == '.' {
		k = decimal
		l.at++
		l.skip(isASCIIDigit)
	}
	if c := l.peek(); c == 'e' || c == 'E' {
		k = decimal
		l.at++
		if c := l.peek(); c == '+' || c == '-' {
			l.at++
		}
		digits := l.at
		if l.skip(isASCIIDigit); l.at == digits {
			return &SyntaxError{start + 1, "the exponent of the number has no digits"}
		}
	}
	if isNamePart(l.peek()) {
		return &SyntaxError{l.at + 1, "a number runs into a name"}
	}
	l.add(k, string(l.runes[start:l.at]), start)
	return nil
}

// quoted reads up to a closing character, which stands for itself where it is doubled.
func (l *lexer) quoted(k kind, closing rune) error {
	start := l.at
	var b strings.Builder
	for l.at++; l.at < len(l.runes); l.at++ {
		if l.runes[l.at] == closing {
			l.at++
			if l.peek() != closing {
				if k == delimited && b.Len() == 0 {
					return &SyntaxError{start + 1, "the name is empty"}
				}
				l.add(k, b.String(), start)
				return nil
			}
		}
		b.WriteRune(l.runes[l.at])
	}
	return &SyntaxError{start + 1, fmt.Sprintf("no %c closes what begins here", closing)}
}

func (l *lexer) symbol() error {
	start := l.at
	for _, s := range []string{"<>", "!=", "<=", ">=", "=", "<", ">", "+", "-", "*", "/", "%", "(", ")", ",", ";", "."} {
		if n := len(s); n <= len(l.runes)-start && string(l.runes[start:start+n]) == s {
			l.at += n
			l.add(symbol, s, start)
			return nil
		}
	}
	return &SyntaxError{start + 1, fmt.Sprintf("%q has no meaning here", l.runes[start])}
}

func (l *lexer) add(k kind, text string, index int) {
	l.tokens = append(l.tokens, token{k, text, index + 1})
}

func (l *lexer) skip(is func(rune) bool) {
	for l.at < len(l.runes) && is(l.runes[l.at]) {
		l.at++
	}
}

// peek answers the next character, or 0 at the end.
func (l *lexer) peek() rune {
	if l.at < len(l.runes) {
		return l.runes[l.at]
	}
	return 0
}

func isASCIIDigit(c rune) bool { return c >= '0' && c <= '9' }

func isNamePart(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) }
