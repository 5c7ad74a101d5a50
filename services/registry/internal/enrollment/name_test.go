package enrollment

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/commandcenter/fleet/services/internal/spelling"
)

func TestI13_SpellingsOfOneNameShareAKey(t *testing.T) {
	for _, spellings := range [][]string{
		{"BM-01", "bm-01", "Bm-01", "  bm-01 "},
		{"Straße", "STRASSE", "strasse"},
		{"ÄPFEL", "äpfel", "A\u0308pfel", "a\u0308PFEL"},
		{"\u212Belvin", "ångström"[:2] + "elvin", "a\u030Aelvin"}, // the Ångström sign
		{"\u212Aelvin", "kelvin", "KELVIN"},                       // the Kelvin sign
		{"ΟΔΟΣ", "οδος", "οδοσ"},                                  // both small sigmas
		{"ﬁle-server", "FILE-SERVER"},                             // a ligature
		{"\u0390x", "\u0399\u0308\u0301X", "\u03B9\u0308\u0301x"}, // folds to three letters, which compose again
	} {
		want := spelling.Fold(strings.TrimSpace(spellings[0]))
		for _, written := range spellings {
			name, err := ParseName(written)
			if err != nil || name.Key != want || !spelling.Same(written, spellings[0]) {
				t.Errorf("%q: key %q, want %q (%v)", written, name.Key, want, err)
			}
			if name.Spelling != strings.TrimSpace(written) {
				t.Errorf("%q: its spelling became %q", written, name.Spelling)
			}
		}
	}
	for _, pair := range [][2]string{{"BM-1", "BM-01"}, {"a", "ä"}, {"i", "ı"}, {"BM 1", "BM1"}} {
		if spelling.Same(pair[0], pair[1]) {
			t.Errorf("%q and %q are two names", pair[0], pair[1])
		}
	}
}

func TestI17_ANameThatBreaksARuleIsRefused(t *testing.T) {
	for text, rule := range map[string]string{
		"":                               "required",
		" \u00a0 ":                       "required",
		"a\x00b":                         "control",
		"a\nb":                           "control",
		"a\u0085b":                       "control",
		"\xff":                           "UTF-8",
		strings.Repeat("a", 129):         "128",
		strings.Repeat("\u00e9", 129):    "128",
		strings.Repeat("\U0001F600", 65): "128", // two UTF-16 units each
	} {
		if name, err := ParseName(text); err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("%q: %+v, %v; want a refusal that says %q", text, name, err, rule)
		}
	}
	for _, text := range []string{strings.Repeat("a", 128), strings.Repeat("\u00e9", 128), strings.Repeat("\U0001F600", 64), "a b", "a/b%2F$+@.ü", " " + strings.Repeat("a", 128) + " "} {
		if _, err := ParseName(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// longestKey is the room that the database gives a key, in UTF-16 code units.
const longestKey = 512

func FuzzParseName(f *testing.F) {
	for _, seed := range []string{"BM-01", "Straße", "A\u0308", "\u0390", "\u1F80\u0345", "\u0130", " x ", "\xff", "a\u0300\u0315"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, err := ParseName(text)
		if err != nil {
			return
		}
		switch units := len(utf16.Encode([]rune(name.Key))); {
		case name.Key == "", !utf8.ValidString(name.Key):
			t.Fatalf("%q has the key %q", text, name.Key)
		case spelling.Fold(name.Key) != name.Key:
			t.Fatalf("folding the key %q again gives %q", name.Key, spelling.Fold(name.Key))
		case !norm.NFC.IsNormalString(name.Key):
			t.Fatalf("the key %q is not composed", name.Key)
		case units > longestKey:
			t.Fatalf("the key of %q has %d units", text, units)
		case strings.ContainsFunc(name.Spelling, unicode.IsControl):
			t.Fatalf("%q holds control characters", name.Spelling)
		case spelling.Fold(norm.NFD.String(name.Spelling)) != name.Key:
			t.Fatalf("%q and its decomposed form have two keys", text)
		}
	})
}
