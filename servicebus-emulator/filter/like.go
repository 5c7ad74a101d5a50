package filter

import (
	"errors"
	"fmt"
)

// like is a pattern of LIKE: an element a character.
type like []struct {
	wild rune // '%', '_', or 0: the character itself
	char rune
}

// compileLike reads a pattern; escape, if there is one, makes the character after it stand for itself.
func compileLike(pattern any, escape any, escapes bool) (like, error) {
	text, ok := normal(pattern).(string)
	if !ok {
		return nil, errors.New("the pattern of LIKE is not a string")
	}
	var escapeChar []rune
	if escapes {
		s, _ := normal(escape).(string)
		if escapeChar = []rune(s); len(escapeChar) != 1 {
			return nil, errors.New("what follows ESCAPE is not a string of one character")
		}
	}
	runes := []rune(text)
	if len(runes) > maxExpression { // only those that a message brings can be so long
		return nil, fmt.Errorf("the pattern of LIKE has more than %d characters", maxExpression)
	}
	l := make(like, 0, len(runes))
	for i := 0; i < len(runes); i++ {
		e := struct{ wild, char rune }{char: runes[i]}
		switch {
		case escapes && e.char == escapeChar[0]:
			if i++; i == len(runes) {
				return nil, errors.New("the pattern of LIKE ends with the escape character")
			}
			e.char = runes[i]
		case e.char == '%' || e.char == '_':
			e.wild = e.char
		}
		l = append(l, e)
	}
	return l, nil
}

// matches tries the shortest run for each %, and makes only the last one longer: the ones before need not be.
func (l like) matches(text string) bool {
	s := []rune(text)
	i, at := 0, 0
	resume, from := -1, 0
	for at < len(s) {
		switch {
		case i < len(l) && l[i].wild == '%':
			resume, from = i+1, at
			i++
		case i < len(l) && (l[i].wild == '_' || l[i].char == s[at]):
			i++
			at++
		case resume >= 0:
			from++
			i, at = resume, from
		default:
			return false
		}
	}
	for i < len(l) && l[i].wild == '%' {
		i++
	}
	return i == len(l)
}
