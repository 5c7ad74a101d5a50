package enrollment

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/commandcenter/fleet/services/internal/spelling"
	"github.com/commandcenter/fleet/services/internal/textrule"
)

// MaxNameLength is in UTF-16 code units, as nvarchar(128) counts.
const MaxNameLength = 128

// Name is an agent's name in one spelling, with the key under which all spellings are one agent (I-13).
type Name struct {
	Spelling string // trimmed, otherwise as given
	Key      string // NFC, case folded
}

// ParseName checks a name that is looked for. A row may have it that was made before new names had to keep more rules, so that those are
// ParseNewName's. The error is the rule that was broken, without the name of the field.
func ParseName(text string) (Name, error) {
	if !utf8.ValidString(text) {
		return Name{}, fmt.Errorf("must be valid UTF-8")
	}
	if at := strings.IndexFunc(text, unicode.IsControl); at >= 0 {
		r, _ := utf8.DecodeRuneInString(text[at:])
		return Name{}, fmt.Errorf("must not hold U+%04X, a control character", r)
	}
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return Name{}, fmt.Errorf("is required")
	}
	if length := len(utf16.Encode([]rune(trimmed))); len(trimmed) > MaxNameLength && length > MaxNameLength {
		return Name{}, fmt.Errorf("must be at most %d characters, has %d", MaxNameLength, length)
	}
	return Name{Spelling: trimmed, Key: spelling.Fold(trimmed)}, nil
}

// ParseNewName checks a name that nothing has yet.
func ParseNewName(text string) (Name, error) {
	name, err := ParseName(text)
	if err != nil {
		return Name{}, err
	}
	if err := textrule.Name(text); err != nil {
		return Name{}, err
	}
	return name, nil
}
