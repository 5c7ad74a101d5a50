package fault

import (
	"strings"

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
