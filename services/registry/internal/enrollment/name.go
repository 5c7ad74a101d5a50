package enrollment

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// MaxNameLength is in UTF-16 code units, as nvarchar(128) counts.
const MaxNameLength = 128

// Name is an agent's name in one spelling, with the key under which all spellings are one agent (I-13).
type Name struct {
	Spelling string // trimmed, otherwise as given
	Key      string // NFC, case folded
}

// ParseName checks a name. The error is the rule that was broken, without the name of the field.
func ParseName(text string) (Name, error) {
	if !utf8.ValidString(text) {
		return Name{}, fmt.Errorf("must be valid UTF-8")
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return Name{}, fmt.Errorf("must not hold control characters")
	}
	spelling := strings.TrimSpace(text)
	if spelling == "" {
		return Name{}, fmt.Errorf("is required")
	}
	if length := len(utf16.Encode([]rune(spelling))); len(spelling) > MaxNameLength && length > MaxNameLength {
		return Name{}, fmt.Errorf("must be at most %d characters, has %d", MaxNameLength, length)
	}
	return Name{Spelling: spelling, Key: Fold(spelling)}, nil
}

// Fold is the key of a name: equal for names that differ only in case or in how accents are encoded.
func Fold(text string) string {
	if isASCII(text) {
		return strings.ToLower(text)
	}
	// Folding can bring letters together that compose anew, so both are done until the second changes nothing more.
	folded := norm.NFC.String(text)
	for {
		next := norm.NFC.String(cases.Fold().String(folded))
		if next == folded {
			return folded
		}
		folded = next
	}
}

// SameName tells whether two spellings name one agent or server, case aside (I-18).
func SameName(a, b string) bool { return Fold(strings.TrimSpace(a)) == Fold(strings.TrimSpace(b)) }

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
