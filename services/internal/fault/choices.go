package fault

import (
	"strings"
	"unicode"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Choices lists the names of an enum for the text of an error, all but its zero, which stands for nothing given.
func Choices(enum protoreflect.EnumDescriptor) string {
	var names []string
	for i := range enum.Values().Len() {
		if value := enum.Values().Get(i); value.Number() != 0 {
			names = append(names, string(value.Name()))
		}
	}
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// EnumValue finds the value that a text names: its whole name (REGISTRATION_STATE_PENDING), or the part after the name of the enum
// (PENDING), in any case, with - or blanks for _. Nil: none.
func EnumValue(enum protoreflect.EnumDescriptor, text string) protoreflect.EnumValueDescriptor {
	if exact := enum.Values().ByName(protoreflect.Name(text)); exact != nil {
		return exact
	}
	wanted := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToUpper(text))
	prefix := shouted(string(enum.Name())) + "_"
	for i := range enum.Values().Len() {
		value := enum.Values().Get(i)
		if name := string(value.Name()); name == wanted || (strings.HasPrefix(name, prefix) && name[len(prefix):] == wanted) {
			return value
		}
	}
	return nil
}

// shouted is a name in camel case as enums' values begin: RegistrationState, REGISTRATION_STATE.
func shouted(name string) string {
	var out strings.Builder
	for i, letter := range name {
		if i > 0 && unicode.IsUpper(letter) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToUpper(letter))
	}
	return out.String()
}
