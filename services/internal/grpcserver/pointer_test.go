package grpcserver

import (
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
)

func TestPointerOf(t *testing.T) {
	field := func(name string) *validate.FieldPathElement {
		return &validate.FieldPathElement{FieldName: proto.String(name)}
	}
	at := func(name string, index uint64) *validate.FieldPathElement {
		return &validate.FieldPathElement{FieldName: proto.String(name), Subscript: &validate.FieldPathElement_Index{Index: index}}
	}
	for want, path := range map[string][]*validate.FieldPathElement{
		"":                       nil,
		"/name":                  {field("name")},
		"/createServer/url":      {field("create_server"), field("url")},
		"/items/12/reportedName": {at("items", 12), field("reported_name")},
		"/labels/a~1b~0c": {{
			FieldName: proto.String("labels"), Subscript: &validate.FieldPathElement_StringKey{StringKey: "a/b~c"},
		}},
		"/byNumber/-5": {{FieldName: proto.String("by_number"), Subscript: &validate.FieldPathElement_IntKey{IntKey: -5}}},
		"/byCount/7":   {{FieldName: proto.String("by_count"), Subscript: &validate.FieldPathElement_UintKey{UintKey: 7}}},
		"/byFlag/true": {{FieldName: proto.String("by_flag"), Subscript: &validate.FieldPathElement_BoolKey{BoolKey: true}}},
	} {
		if got := pointerOf(path); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	for name, want := range map[string]string{"": "", "a": "a", "iis_bindings": "iisBindings", "a__b": "aB", "a_1": "a1", "http_base_url": "httpBaseUrl"} {
		if got := camelCase(name); got != want {
			t.Errorf("%s becomes %s, not %s", name, got, want)
		}
	}
}
