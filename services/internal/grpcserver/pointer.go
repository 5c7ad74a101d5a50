package grpcserver

import (
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// pointerOf turns a field path into the JSON pointer that a REST caller would use: names in camel case. The whole message is the empty pointer.
func pointerOf(path []*validate.FieldPathElement) string {
	var pointer strings.Builder
	for _, element := range path {
		pointer.WriteString("/" + camelCase(element.GetFieldName()))
		switch subscript := element.GetSubscript().(type) {
		case *validate.FieldPathElement_Index:
			pointer.WriteString("/" + strconv.FormatUint(subscript.Index, 10))
		case *validate.FieldPathElement_IntKey:
			pointer.WriteString("/" + strconv.FormatInt(subscript.IntKey, 10))
		case *validate.FieldPathElement_UintKey:
			pointer.WriteString("/" + strconv.FormatUint(subscript.UintKey, 10))
		case *validate.FieldPathElement_BoolKey:
			pointer.WriteString("/" + strconv.FormatBool(subscript.BoolKey))
		case *validate.FieldPathElement_StringKey:
			pointer.WriteString("/" + escape(subscript.StringKey))
		}
	}
	return pointer.String()
}

// fieldOf is the field that a path leads to, also where the path ends at an item of it; nil where the path leads nowhere.
func fieldOf(message protoreflect.MessageDescriptor, path []*validate.FieldPathElement) protoreflect.FieldDescriptor {
	var field protoreflect.FieldDescriptor
	for _, element := range path {
		if message == nil {
			return nil
		}
		if field = message.Fields().ByName(protoreflect.Name(element.GetFieldName())); field == nil {
			return nil
		}
		if field.IsMap() {
			message = field.MapValue().Message()
		} else {
			message = field.Message()
		}
	}
	return field
}

func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		if word != "" {
			words[i+1] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}

func escape(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
