// Package textrule says which texts may be written down: names, single lines and reasons of operators and agents, and hosts of URLs. What
// cannot be seen must not make two names that look the same, or lines of a list that read otherwise than they are. It is pure.
package textrule

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// replacement stands for a character that is not shown, as Unicode has it for characters that cannot be.
const replacement = '\uFFFD'

// joiners are format characters that scripts and emoji need within words.
const joiners = "\u200c\u200d"

// Name reports what is wrong with a new name, of anything; nil if it is good. It must say something, in characters that can be seen and told
// from a plain blank, and not in dots alone, which paths take for folders. Blanks around it are not its concern.
func Name(text string) error {
	if err := Line(text); err != nil {
		return err
	}
	trimmed := strings.TrimSpace(text)
	for _, r := range trimmed {
		if unicode.IsSpace(r) && r != ' ' {
			return fmt.Errorf("must not hold U+%04X, which looks like a plain blank and is another character", r)
		}
	}
	switch {
	case trimmed == "":
		return errors.New("is required")
	case strings.Trim(trimmed, ".") == "":
		return errors.New("must not be dots alone")
	}
	return nil
}

// Line reports what is wrong with a text of one line; nil if nothing is: no control characters (Cc), no format characters (Cf), and no
// others that are never seen.
func Line(text string) error { return check(text, "") }

// Prose reports what is wrong with what people write: as Line, but scripts may join their letters.
func Prose(text string) error { return check(text, joiners) }

func check(text, allowed string) error {
	if !utf8.ValidString(text) {
		return errors.New("must be valid UTF-8")
	}
	for _, r := range text {
		if kind := unseen(r); kind != "" && !strings.ContainsRune(allowed, r) {
			return fmt.Errorf("must not hold U+%04X, %s", r, kind)
		}
	}
	return nil
}

// unseen says what a character is that is not seen; empty for all others.
func unseen(r rune) string {
	switch {
	case r < utf8.RuneSelf && r >= ' ' && r != 0x7f:
		return ""
	case unicode.Is(unicode.Cc, r):
		return "a control character"
	case unicode.Is(unicode.Cf, r):
		return "a format character, which is not seen"
	case unicode.In(r, unicode.Zl, unicode.Zp):
		return "a line separator"
	case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return "a character that is not seen"
	}
	return ""
}

// Shown is a text with a replacement character (U+FFFD) for each character that Line refuses.
func Shown(text string) string {
	if Line(text) == nil {
		return text
	}
	return strings.Map(func(r rune) rune {
		if unseen(r) != "" {
			return replacement
		}
		return r
	}, strings.ToValidUTF8(text, string(replacement)))
}

// Replaced reports whether a text holds what Shown put in place of a character.
func Replaced(text string) bool { return strings.ContainsRune(text, replacement) }

// hosts takes names as machines have them: international ones, and those with underscores too.
var hosts = idna.New(idna.MapForLookup(), idna.StrictDomainName(false), idna.BidiRule(), idna.VerifyDNSLength(true))

// Host reports what is wrong with the host of a URL, a name or an address without its port or brackets; nil if nothing is.
func Host(host string) error {
	if err := Line(host); err != nil {
		return fmt.Errorf("names a host that %w", err)
	}
	if strings.Contains(host, ":") { // an IPv6 address, as the URL's parser found it
		return nil
	}
	name := strings.TrimSuffix(host, ".")
	switch {
	case name == "":
		return errors.New("must name a host")
	case strings.HasPrefix(name, ".") || strings.Contains(name, ".."):
		return fmt.Errorf("names the host %q, which has an empty label: there is nothing between two dots", host)
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`/\?#@%"<>^`+"`{|}", r) }):
		return fmt.Errorf("names the host %q, which holds a character that no host has", host)
	}
	if _, err := hosts.ToASCII(name); err != nil {
		return fmt.Errorf("names the host %q, which is no host name: a label is empty, longer than 63 characters, or wrongly encoded", host)
	}
	return nil
}
