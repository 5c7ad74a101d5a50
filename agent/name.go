package agent

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxNameLength of an agent's name, in characters.
const maxNameLength = 128

// foldName is the form in which names of agents are compared: composed, then case-folded as Unicode says.
func foldName(name string) string {
	return norm.NFC.String(cases.Fold().String(norm.NFC.String(name)))
}

// sameName reports whether two spellings name one agent: in any case, and whatever blanks are around them.
func sameName(a, b string) bool {
	return foldName(strings.TrimSpace(a)) == foldName(strings.TrimSpace(b))
}

// nameProblem says what is wrong with an agent's name; empty if it is good.
func nameProblem(name string) string {
	switch length := utf8.RuneCountInString(name); {
	case length == 0:
		return "is required"
	case length > maxNameLength:
		return "is longer than 128 characters"
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return "has a control character"
		}
	}
	return ""
}
