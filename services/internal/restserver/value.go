package restserver

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/commandcenter/fleet/services/internal/fault"
)

const (
	timestamp = protoreflect.FullName("google.protobuf.Timestamp")
	duration  = protoreflect.FullName("google.protobuf.Duration")
)

// wellKnown reports whether a message has a form of its own in JSON.
func wellKnown(message protoreflect.MessageDescriptor) bool {
	return message.ParentFile().Package() == "google.protobuf"
}

func takesNull(field protoreflect.FieldDescriptor) bool {
	if field.IsList() || field.IsMap() {
		return false
	}
	if message := field.Message(); message != nil {
		return message.FullName() == "google.protobuf.Value"
	}
	return field.Enum() != nil && field.Enum().FullName() == "google.protobuf.NullValue"
}

// canonical is a value as protojson reads it, or nil. Raw is one value of JSON.
func canonical(field protoreflect.FieldDescriptor, raw []byte) []byte {
	if enum := field.Enum(); enum != nil {
		return canonicalEnum(enum, raw)
	}
	if message := field.Message(); message != nil && message.FullName() == duration {
		return canonicalDuration(raw)
	}
	// Null stands for no value, which an item of a list must have.
	if (raw[0] != 'n' || takesNull(field)) && readable(field, raw) {
		return raw
	}
	return nil
}

// mustBe says of a value that cannot be read what it must be. It repeats the value where that helps and is asked for.
func mustBe(field protoreflect.FieldDescriptor, raw []byte, repeat bool) string {
	message := field.Message()
	named := field.Enum() != nil || (message != nil && (message.FullName() == timestamp || message.FullName() == duration))
	if repeat && named && raw[0] == '"' && len(raw) <= maxQuoted {
		return "cannot be read from " + string(raw) + "; must be " + Form(field)
	}
	return "must be " + Form(field)
}

// readable reports whether protojson reads a value.
func readable(field protoreflect.FieldDescriptor, raw []byte) bool {
	if field.Kind() == protoreflect.StringKind {
		return raw[0] == '"'
	}
	return protojson.Unmarshal(raw, probe(field)) == nil
}

// probe is a message whose form in JSON is that of the field's values.
func probe(field protoreflect.FieldDescriptor) proto.Message {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return &wrapperspb.BoolValue{}
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return &wrapperspb.Int32Value{}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return &wrapperspb.Int64Value{}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return &wrapperspb.UInt32Value{}
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return &wrapperspb.UInt64Value{}
	case protoreflect.FloatKind:
		return &wrapperspb.FloatValue{}
	case protoreflect.DoubleKind:
		return &wrapperspb.DoubleValue{}
	case protoreflect.BytesKind:
		return &wrapperspb.BytesValue{}
	}
	if known, err := protoregistry.GlobalTypes.FindMessageByName(field.Message().FullName()); err == nil {
		return known.New().Interface()
	}
	return dynamicpb.NewMessage(field.Message())
}

// Form says in words what a field's value must be.
func Form(field protoreflect.FieldDescriptor) string {
	switch field.Kind() {
	case protoreflect.EnumKind:
		return fault.Choices(field.Enum())
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.StringKind:
		return "one text"
	case protoreflect.BytesKind:
		return "bytes in base64"
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return "one number"
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return "one whole number, of at most 32 bits"
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return "one whole number, not negative"
	case protoreflect.MessageKind, protoreflect.GroupKind:
		switch name := field.Message().FullName(); {
		case name == timestamp:
			return "a time with its offset, such as 2026-03-29T01:30:00Z, in the years 1 to 9999"
		case name == duration:
			return durationForm
		case name.Parent() == "google.protobuf" && strings.HasSuffix(string(name), "Value") && field.Message().Fields().ByName("value") != nil:
			return Form(field.Message().Fields().ByName("value"))
		}
		return "as the description of this interface has it"
	}
	return "one whole number"
}

// maxQuoted is how long a value is that an error repeats.
const maxQuoted = 80

func canonicalEnum(enum protoreflect.EnumDescriptor, raw []byte) []byte {
	var name string
	if raw[0] == '"' && json.Unmarshal(raw, &name) == nil {
		if value := fault.EnumValue(enum, name); value != nil {
			return []byte(strconv.Quote(string(value.Name())))
		}
	}
	// A number must be one that means something: a later release's would be taken for nothing given.
	if number, err := strconv.ParseInt(string(raw), 10, 32); err == nil && enum.Values().ByNumber(protoreflect.EnumNumber(number)) != nil {
		return raw
	}
	return nil
}

const durationForm = "a duration: seconds, such as 5400s, or 90m, 1h30m, 7d or PT1H30M"

// canonicalDuration reads a duration in any form that is taken, and writes it in seconds.
func canonicalDuration(raw []byte) []byte {
	var text string
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return nil
	}
	if protojson.Unmarshal(raw, &durationpb.Duration{}) == nil {
		return raw
	}
	elapsed, ok := ParseDuration(text)
	if !ok {
		return nil
	}
	written, err := protojson.Marshal(durationpb.New(elapsed))
	if err != nil {
		return nil
	}
	return written
}

var (
	plainDuration = regexp.MustCompile(`^(?:(\d{1,6})d)?(?:(\d{1,7})h)?(?:(\d{1,9})m)?(?:(\d{1,10}(?:\.\d{1,9})?)s)?$`)
	isoDuration   = regexp.MustCompile(`^P(?:(\d{1,6})D)?(?:T(?:(\d{1,7})H)?(?:(\d{1,9})M)?(?:(\d{1,10}(?:\.\d{1,9})?)S)?)?$`)
)

// ParseDuration reads a duration as people and ISO 8601 write it: 7d, 1h30m, 1.5s, P1D, PT1H30M. Days have 24 hours; months and years,
// which have no length, are not taken.
func ParseDuration(text string) (time.Duration, bool) {
	parts := plainDuration.FindStringSubmatch(text)
	if parts == nil {
		parts = isoDuration.FindStringSubmatch(text)
	}
	if parts == nil || strings.HasSuffix(text, "T") || strings.Join(parts[1:], "") == "" {
		return 0, false
	}
	var seconds float64
	for i, unit := range []float64{24 * 60 * 60, 60 * 60, 60, 1} {
		if parts[i+1] == "" {
			continue
		}
		count, err := strconv.ParseFloat(parts[i+1], 64)
		if err != nil {
			return 0, false
		}
		seconds += count * unit
	}
	if seconds > 200*365*24*60*60 { // a duration in Go ends at 292 years
		return 0, false
	}
	whole, part := int64(seconds), seconds-float64(int64(seconds))
	return time.Duration(whole)*time.Second + time.Duration(part*1e9).Round(time.Microsecond), true
}

// checkText says what is wrong with a text of JSON; nothing is with other values. The readers of JSON would put other characters
// in the place of halves of characters.
func checkText(raw []byte) string {
	if raw[0] != '"' {
		return ""
	}
	if !utf8.Valid(raw) {
		return "is not UTF-8"
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		code := hex(raw[i+1:])
		i += 4
		switch {
		case code >= 0xDC00 && code <= 0xDFFF:
			return fmt.Sprintf("has half a character: \\u%04x without the half before it", code)
		case code < 0xD800 || code > 0xDBFF:
		case i+6 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' && hex(raw[i+3:]) >= 0xDC00 && hex(raw[i+3:]) <= 0xDFFF:
			i += 6
		default:
			return fmt.Sprintf("has half a character: \\u%04x without the half after it", code)
		}
	}
	return ""
}

// hex reads four digits, which valid JSON has there.
func hex(digits []byte) uint64 {
	code, err := strconv.ParseUint(string(digits[:min(4, len(digits))]), 16, 32)
	if err != nil {
		return 0
	}
	return code
}

// fieldNames lists the fields of a message that a caller may give.
func fieldNames(message protoreflect.MessageDescriptor, given []protoreflect.FieldDescriptor) string {
	var names []string
	for i := range message.Fields().Len() {
		if field := message.Fields().Get(i); !slices.Contains(given, field) {
			names = append(names, field.JSONName())
		}
	}
	return list(names)
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
