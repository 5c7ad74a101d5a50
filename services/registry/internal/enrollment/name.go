package enrollment

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/commandcenter/fleet/services/internal/spelling"
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
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return Name{}, fmt.Errorf("is required")
	}
	if length := len(utf16.Encode([]rune(trimmed))); len(trimmed) > MaxNameLength && length > MaxNameLength {
		return Name{}, fmt.Errorf("must be at most %d characters, has %d", MaxNameLength, length)
	}
	return Name{Spelling: trimmed, Key: spelling.Fold(trimmed)}, nil
}
