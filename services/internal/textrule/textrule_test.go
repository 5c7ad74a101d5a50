package textrule

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestI17_WhatCannotBeSeenIsRefusedWithItsCodePoint(t *testing.T) {
	for text, says := range map[string]string{
		"SP\u200b-1": "U+200B", "SP-1\u200d": "U+200D", "\ufeffSP-1": "U+FEFF", "SP\u00ad1": "U+00AD", // zero width
		"SP\u202e1-": "U+202E", "\u2066SP": "U+2066", "SP\u200f": "U+200F", "\u061cx": "U+061C", // bidi
		"a\x00b": "U+0000", "a\nb": "U+000A", "a\x7fb": "U+007F", "a\u0085b": "U+0085", "a\u2028b": "U+2028", // control
		"a\u034fb": "U+034F", "a\u3164b": "U+3164", "a\ufe0fb": "U+FE0F", "a\U000e0041": "U+E0041", // never seen
		"\xff": "UTF-8",
	} {
		for what, rule := range map[string]func(string) error{"name": Name, "line": Line} {
			if err := rule(text); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s %q: %v, want %s", what, text, err, says)
			}
		}
	}
	for _, text := range []string{"SP-1", " SP-1 ", "Straße 4", "Å-5", "A\u030a-5", "北京", "a.b", "..a", "a\u0301", "srv(1)$+@", "😀"} {
		if err := Name(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, says := range map[string]string{"": "required", " \u00a0": "required", ".": "dots", "..": "dots", " ... ": "dots", "a\u00a0b": "U+00A0", "a\u2003b": "U+2003"} {
		if err := Name(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", text, err, says)
		}
	}
}

func TestI17_ReasonsMayJoinTheirLetters(t *testing.T) {
	for _, text := range []string{"می\u200cخواهم", "👩\u200d🔧 patch", "plain words"} {
		if err := Prose(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, says := range map[string]string{"a\nb": "U+000A", "a\u202eb": "U+202E", "\x1b[31m": "U+001B"} {
		if err := Prose(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestI17_WhatIsNoHostIsRefused(t *testing.T) {
	for _, host := range []string{"a..b", ".a", "..", ".", "", "xn--", "a.xn--.b", "xn--\u00fc", "a b", "a\u200bb", "a\nb", strings.Repeat("a", 64) + ".b", "a%41", `a\b`} {
		if err := Host(host); err == nil {
			t.Errorf("%q is taken for a host", host)
		}
	}
	for _, host := range []string{"a", "SP_1", "bm-1.example.com", "bm-1.example.com.", "10.0.0.1", "::1", "münchen", "xn--mnchen-3ya", "1"} {
		if err := Host(host); err != nil {
			t.Errorf("%q: %v", host, err)
		}
	}
}

func FuzzRules(f *testing.F) {
	for _, seed := range []string{"SP-1", "a\u200bb", "\xff", "..", "a\u00a0b", "xn--", "a\U000e0041", "ﷺ", "\u0345"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		shown := Shown(text)
		if Line(shown) != nil || Shown(shown) != shown || (Line(text) == nil) != (shown == text) {
			t.Fatalf("%q is shown as %q", text, shown)
		}
		if Line(text) != nil && !Replaced(shown) {
			t.Fatalf("%q is not marked: %q", text, shown)
		}
		if Name(text) == nil {
			if Line(text) != nil || strings.TrimSpace(text) == "" || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
				t.Fatalf("%q is taken for a name", text)
			}
		}
		if Line(text) == nil && Prose(text) != nil {
			t.Fatalf("%q is a line and no prose", text)
		}
		_ = Host(text)
	})
}
