package agent

import (
	"fmt"
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

// newNameProblem says what a registry refuses a new agent's name for; empty if it is good. An agent that it knows goes on with the name.
func newNameProblem(name string) string {
	trimmed := strings.TrimSpace(name)
	if strings.Trim(trimmed, ".") == "" {
		return "has nothing but dots and blanks"
	}
	for _, r := range name {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return fmt.Sprintf("holds U+%04X, which is not seen", r)
		}
	}
	for _, r := range trimmed {
		if unicode.IsSpace(r) && r != ' ' {
			return fmt.Sprintf("holds U+%04X, which looks like a plain blank and is another character", r)
		}
	}
	return ""
}
