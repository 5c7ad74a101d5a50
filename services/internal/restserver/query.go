package restserver

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// ParseQuery reads the query of a URL.
func ParseQuery(raw string) (url.Values, *fault.Error) {
	if strings.Contains(raw, ";") {
		return nil, fault.Invalid("#/query", "has a semicolon; separate parameters by &, and write a semicolon itself as %%3B")
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fault.Invalid("#/query", "has a %% that two hexadecimal digits do not follow; write a %% itself as %%25")
	}
	for _, key := range slices.Sorted(maps.Keys(query)) {
		if !utf8.ValidString(key + strings.Join(query[key], "")) {
			return nil, fault.Invalid("#/"+escape(strings.ToValidUTF8(key, "\uFFFD")), "is not UTF-8")
		}
	}
	return query, nil
}

// NoParameter is the refusal of a query parameter where there are none.
func NoParameter(method, key string) *fault.Error {
	if TakesBody(method) {
		return fault.Invalid("#/"+escape(key), "is not a query parameter of this route, which takes its fields in the body")
	}
	return fault.Invalid("#/"+escape(key), "is not a query parameter of this route, which has none")
}

// ReadQuery checks query parameters against the message that they are read into. Given are the fields that the path gave.
func ReadQuery(query url.Values, into protoreflect.MessageDescriptor, given []protoreflect.FieldDescriptor) (*Reading, *fault.Error) {
	read := &Reading{names: map[string]string{}}
	fields := map[string]json.RawMessage{}
	for _, key := range slices.Sorted(maps.Keys(query)) {
		field := fieldNamed(into, key)
		switch {
		case field == nil:
			return nil, fault.Invalid("#/"+escape(key), "is not a parameter of this route, which has %s", fieldNames(into, given))
		case slices.Contains(given, field):
			return nil, fault.Invalid("#/"+escape(key), "is given by the path, and cannot be given again")
		case fields[field.JSONName()] != nil:
			other := read.names["/"+field.JSONName()]
			if other == "" {
				other = field.JSONName()
			}
			return nil, fault.Invalid("#/"+escape(key), "is the same as %s; give one of them", other)
		}
		if key != field.JSONName() {
			read.names["/"+field.JSONName()] = key
		}
		text, detail := parameter(field, query[key])
		if detail != "" {
			return nil, fault.Invalid("#/"+escape(key), "%s", detail)
		}
		fields[field.JSONName()] = text
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, fault.New(fault.Internal, "unexpected; the cause is in the log under the request id").WithCause(err)
	}
	read.Body = body
	return read, nil
}

// Into sets what was read in a message that may have fields already.
func (r *Reading) Into(message proto.Message) *fault.Error {
	if len(r.Body) == 0 {
		return nil
	}
	read := message.ProtoReflect().New().Interface()
	if err := protojson.Unmarshal(r.Body, read); err != nil { // a value that is checked above and is refused below
		return BadBody("", "cannot be read").WithCause(err)
	}
	proto.Merge(message, read)
	return nil
}

// parameter is the value of one parameter in JSON, or what is wrong with it.
func parameter(field protoreflect.FieldDescriptor, values []string) (json.RawMessage, string) {
	if field.IsMap() || (field.Message() != nil && !wellKnown(field.Message())) {
		return nil, "cannot be given as a query parameter"
	}
	if !field.IsList() && len(values) != 1 {
		return nil, "is given " + strconv.Itoa(len(values)) + " times; must be " + Form(field)
	}
	var read []json.RawMessage
	for _, value := range values {
		text, detail := parameterValue(field, value)
		if detail != "" {
			return nil, detail
		}
		read = append(read, text)
	}
	if !field.IsList() {
		return read[0], ""
	}
	all, err := json.Marshal(read)
	if err != nil {
		return nil, "cannot be read"
	}
	return all, ""
}

// parameterValue is one value of a parameter, or of a path, in JSON.
func parameterValue(field protoreflect.FieldDescriptor, value string) (json.RawMessage, string) {
	asText, err := json.Marshal(value)
	if err != nil {
		return nil, "is not UTF-8"
	}
	raw := asText
	switch {
	case field.Kind() == protoreflect.BoolKind || wraps(field, protoreflect.BoolKind):
		truth, err := strconv.ParseBool(value)
		if err != nil {
			return nil, cannotRead(value) + "must be true or false"
		}
		raw = strconv.AppendBool(nil, truth)
	case isWhole(field.Kind()) && !wholeNumber.MatchString(value):
		return nil, cannotRead(value) + "must be " + Form(field)
	case field.Enum() != nil && value != "" && strings.Trim(value, "0123456789") == "":
		raw = []byte(value)
	}
	if text := canonical(field, raw); text != nil {
		return text, ""
	}
	return nil, cannotRead(value) + "must be " + Form(field)
}

var wholeNumber = regexp.MustCompile(`^-?[0-9]+$`)

func isWhole(kind protoreflect.Kind) bool {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind, protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind,
		protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return true
	}
	return false
}

func wraps(field protoreflect.FieldDescriptor, kind protoreflect.Kind) bool {
	if field.Message() == nil || !wellKnown(field.Message()) {
		return false
	}
	value := field.Message().Fields().ByName("value")
	return value != nil && value.Kind() == kind
}

func cannotRead(value string) string {
	if len(value) > maxQuoted {
		return ""
	}
	return "cannot be read from " + strconv.Quote(value) + "; "
}

// ReadPath checks the parameters of a path against the message that they are read into, and writes them as the generated handlers
// read them. Given are the fields of the message.
func ReadPath(params map[string]string, into protoreflect.MessageDescriptor) (given []protoreflect.FieldDescriptor, err *fault.Error) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		field := fieldNamed(into, name)
		if field == nil { // a path of the contract names fields only
			continue
		}
		given = append(given, field)
		if !utf8.ValidString(params[name]) {
			return nil, fault.Invalid("#/"+field.JSONName(), "is not UTF-8")
		}
		text, detail := parameterValue(field, params[name])
		if detail != "" {
			return nil, fault.Invalid("#/"+field.JSONName(), "%s", detail)
		}
		if field.Kind() == protoreflect.StringKind {
			continue
		}
		if plain, quoted := strings.CutPrefix(string(text), `"`); quoted {
			params[name] = strings.TrimSuffix(plain, `"`)
		} else {
			params[name] = string(text)
		}
	}
	return given, nil
}

// TakesBody reports whether the parameters of a method come in the body; those of the others come in the query.
func TakesBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}
