package openapi

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// comment is what the contract says of a descriptor, on one line.
func comment(of protoreflect.Descriptor) string {
	location := of.ParentFile().SourceLocations().ByDescriptor(of)
	return strings.Join(strings.Fields(location.LeadingComments), " ")
}

// summary splits a comment such as "ListAgents lists the agents. More." into "Lists the agents" and "More.".
func summary(of protoreflect.Descriptor) (short, long string) {
	text := strings.TrimPrefix(comment(of), string(of.Name())+" ")
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	short, long, _ = strings.Cut(text, ". ")
	return strings.TrimSuffix(short, "."), long
}
