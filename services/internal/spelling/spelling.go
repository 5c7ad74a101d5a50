// Package spelling tells when two spellings are one name (I-13, I-18): for the key agents are stored under, and wherever two
// names are compared. It is pure.
package spelling

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Fold is the key of a name: equal for names that differ only in case or in how accents are encoded.
func Fold(text string) string {
	if isASCII(text) {
		return strings.ToLower(text)
	}
	// Folding can bring letters together that compose anew, so both are done until the second changes nothing more.
	folded := norm.NFC.String(text)
	for range maxPasses {
		next := norm.NFC.String(cases.Fold().String(strings.Map(cherokeeUpper, folded)))
		if next == folded {
			break
		}
		folded = next
	}
	return folded
}

// maxPasses bounds the work on a name, whoever made it up. No letter needs more than three.
const maxPasses = 8

// cherokeeUpper makes Cherokee letters capitals first: the library folds capitals to small ones and small ones to capitals,
// and would never come to an end.
func cherokeeUpper(r rune) rune {
	if unicode.Is(unicode.Cherokee, r) {
		return unicode.ToUpper(r)
	}
	return r
}

// Key is the key of a name with blanks around it, which do not count.
func Key(text string) string { return Fold(strings.TrimSpace(text)) }

// Same reports whether two spellings are one name; blanks around them do not count.
func Same(a, b string) bool { return Key(a) == Key(b) }

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
