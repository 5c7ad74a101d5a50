package grpcserver

import (
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
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
