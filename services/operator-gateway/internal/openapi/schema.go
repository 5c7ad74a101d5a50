package openapi

import (
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// schemas collects the components of the messages and enums that are used. A message that both comes and goes has two: what a caller may
// leave out is always there in an answer.
type schemas struct {
	found    map[string]object
	names    map[string]protoreflect.FullName
	answered map[protoreflect.FullName]bool // messages of answers
	statuses map[int]bool                   // of the error answers that some route expects
}

func newSchemas() *schemas {
	return &schemas{found: map[string]object{}, names: map[string]protoreflect.FullName{}, answered: map[protoreflect.FullName]bool{}, statuses: map[int]bool{}}
}

// noteAnswer marks what an answer consists of, so that requests get names of their own for it.
func (s *schemas) noteAnswer(message protoreflect.MessageDescriptor) {
	if s.answered[message.FullName()] || wellKnown(message.FullName(), false) != nil {
		return
	}
	s.answered[message.FullName()] = true
	for i := range message.Fields().Len() {
		if inner := message.Fields().Get(i).Message(); inner != nil {
			s.noteAnswer(inner)
		}
	}
}

// name is a short name: the message's own, unless another package has the same.
func (s *schemas) name(of protoreflect.Descriptor, input bool) string {
	name := string(of.Name())
	if _, isMessage := of.(protoreflect.MessageDescriptor); isMessage && input && s.answered[of.FullName()] {
		name += "Input"
	}
	if other, taken := s.names[name]; taken && other != of.FullName() {
		part := strings.Split(string(of.ParentFile().Package()), ".")[1]
		name = strings.ToUpper(part[:1]) + part[1:] + name
	}
	s.names[name] = of.FullName()
	return name
}

func (s *schemas) ref(of protoreflect.Descriptor, input bool) object {
	name := s.name(of, input)
	if _, made := s.found[name]; !made {
		s.found[name] = nil // so that a message may hold itself
		switch of := of.(type) {
		case protoreflect.MessageDescriptor:
			s.found[name] = s.message(of, input, nil)
		case protoreflect.EnumDescriptor:
			s.found[name] = enum(of)
		}
	}
	return object{{"$ref", "#/components/schemas/" + name}}
}

// message describes a message without some of its fields.
func (s *schemas) message(of protoreflect.MessageDescriptor, input bool, without []string) object {
	var properties object
	var required []string
	for i := range of.Fields().Len() {
		field := of.Fields().Get(i)
		if slices.Contains(without, string(field.Name())) {
			continue
		}
		properties = properties.with(field.JSONName(), s.field(field, input))
		if always(field, input) {
			required = append(required, field.JSONName())
		}
	}
	if only := onlyOneof(of); only != nil && !input {
		return variants(only, properties).withText("description", comment(of))
	}
	description := comment(of)
	var exactly []object
	for i := range of.Oneofs().Len() {
		oneof := of.Oneofs().Get(i)
		if oneof.IsSynthetic() {
			continue
		}
		if rules, _ := proto.GetExtension(oneof.Options(), validate.E_Oneof).(*validate.OneofRules); rules.GetRequired() && input {
			exactly = present(oneof)
		} else {
			description += " At most one is there of " + strings.Join(fieldNames(oneof), ", ") + "."
		}
	}
	made := object{{"type", "object"}}.withText("description", description)
	if len(required) > 0 {
		made = made.with("required", required)
	}
	if len(properties) > 0 {
		made = made.with("properties", properties)
	}
	if input {
		made = made.with("additionalProperties", false)
	}
	if len(exactly) > 0 {
		made = made.with("oneOf", exactly)
	}
	return made
}

// onlyOneof is the oneof that a message consists of; nil where it has other fields.
func onlyOneof(of protoreflect.MessageDescriptor) protoreflect.OneofDescriptor {
	if of.Oneofs().Len() != 1 || of.Oneofs().Get(0).IsSynthetic() || of.Oneofs().Get(0).Fields().Len() != of.Fields().Len() {
		return nil
	}
	return of.Oneofs().Get(0)
}

// variants describes a message that has exactly one of its fields.
func variants(of protoreflect.OneofDescriptor, properties object) object {
	var made []object
	for i, property := range properties {
		name := of.Fields().Get(i).JSONName()
		made = append(made, object{{"type", "object"}, {"title", name}, {"required", []string{name}}, {"properties", object{property}}, {"additionalProperties", false}})
	}
	return object{{"oneOf", made}}
}

// present says that exactly one field of a oneof is there.
func present(of protoreflect.OneofDescriptor) []object {
	var made []object
	for _, name := range fieldNames(of) {
		made = append(made, object{{"required", []string{name}}})
	}
	return made
}

func fieldNames(of protoreflect.OneofDescriptor) []string {
	var names []string
	for i := range of.Fields().Len() {
		names = append(names, of.Fields().Get(i).JSONName())
	}
	return names
}

// always reports whether a field is there in every message: lists and plain values of an answer, even when empty; of a request what its
// rules ask for.
func always(field protoreflect.FieldDescriptor, input bool) bool {
	if !input {
		return !field.HasPresence()
	}
	rules := rulesOf(field)
	switch {
	case rules.GetRequired():
		return true
	case field.HasPresence():
		return false
	}
	return rules.GetString().GetMinLen() > 0 || rules.GetString().GetUuid() || rules.GetRepeated().GetMinItems() > 0 ||
		slices.Contains(rules.GetEnum().GetNotIn(), 0) || rules.GetInt64().GetGt() > 0
}

func rulesOf(field protoreflect.FieldDescriptor) *validate.FieldRules {
	rules, _ := proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
	return rules
}

// field describes one field, with the rules that a request's must keep.
func (s *schemas) field(field protoreflect.FieldDescriptor, input bool) object {
	var made object
	rules := rulesOf(field)
	switch {
	case field.IsMap():
		made = object{{"type", "object"}, {"additionalProperties", s.value(field.MapValue(), nil, input)}}
	case field.IsList():
		made = object{{"type", "array"}, {"items", s.value(field, rules.GetRepeated().GetItems(), input)}}
		if list := rules.GetRepeated(); input && list != nil {
			if list.GetMinItems() > 0 {
				made = made.with("minItems", list.GetMinItems())
			}
			if list.HasMaxItems() {
				made = made.with("maxItems", list.GetMaxItems())
			}
		}
	default:
		made = s.value(field, rules, input)
	}
	return made.withText("description", comment(field))
}

// value describes one value of a field.
func (s *schemas) value(field protoreflect.FieldDescriptor, rules *validate.FieldRules, input bool) object {
	switch field.Kind() {
	case protoreflect.MessageKind:
		if known := wellKnown(field.Message().FullName(), input); known != nil {
			return known
		}
		return s.ref(field.Message(), input)
	case protoreflect.EnumKind:
		made := s.ref(field.Enum(), input)
		if input && slices.Contains(rules.GetEnum().GetNotIn(), 0) {
			made = made.with("not", object{{"const", string(field.Enum().Values().ByNumber(0).Name())}})
		}
		return made
	case protoreflect.BoolKind:
		return object{{"type", "boolean"}}
	case protoreflect.StringKind:
		return text(rules.GetString(), input)
	case protoreflect.BytesKind:
		return object{{"type", "string"}, {"contentEncoding", "base64"}}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return object{{"type", "number"}}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return object{{"type", "string"}, {"format", "int64"}, {"pattern", "^-?[0-9]+$"}} // as JSON's numbers are too small
	default:
		return whole(rules.GetInt32(), input)
	}
}

func text(rules *validate.StringRules, input bool) object {
	made := object{{"type", "string"}}
	if !input || rules == nil {
		return made
	}
	if rules.GetUuid() {
		made = made.with("format", "uuid")
	}
	if rules.GetMinLen() > 0 {
		made = made.with("minLength", rules.GetMinLen())
	}
	if rules.HasMaxLen() {
		made = made.with("maxLength", rules.GetMaxLen())
	}
	if rules.HasPattern() {
		made = made.with("pattern", rules.GetPattern())
	}
	if choices := rules.GetIn(); len(choices) > 0 {
		made = made.with("enum", choices)
	}
	return made
}

func whole(rules *validate.Int32Rules, input bool) object {
	made := object{{"type", "integer"}, {"format", "int32"}}
	if !input || rules == nil {
		return made
	}
	if rules.HasGte() {
		made = made.with("minimum", rules.GetGte())
	}
	if rules.HasLte() {
		made = made.with("maximum", rules.GetLte())
	}
	return made
}

// enum describes an enum by its values and what each means.
func enum(of protoreflect.EnumDescriptor) object {
	var names []string
	var meanings object
	lines := []string{comment(of), ""}
	for i := range of.Values().Len() {
		value := of.Values().Get(i)
		names = append(names, string(value.Name()))
		meanings = meanings.withText(string(value.Name()), comment(value))
		lines = append(lines, "- `"+string(value.Name())+"`: "+comment(value))
	}
	return object{{"type", "string"}, {"description", strings.Join(lines, "\n")}, {"enum", names}, {"x-enumDescriptions", meanings}}
}

// wellKnown describes the types that JSON writes in a way of their own; nil for others.
func wellKnown(name protoreflect.FullName, input bool) object {
	switch name {
	case "google.protobuf.Timestamp":
		return object{{"type", "string"}, {"format", "date-time"}}
	case "google.protobuf.Duration":
		if input { // other spellings are taken too
			return object{{"type", "string"}, {"examples", []string{"5400s"}}}
		}
		return object{{"type", "string"}, {"pattern", `^-?[0-9]+(\.[0-9]{1,9})?s$`}}
	case "google.protobuf.BoolValue":
		return object{{"type", "boolean"}}
	case "google.protobuf.Empty":
		return object{{"type", "object"}}
	}
	return nil
}
