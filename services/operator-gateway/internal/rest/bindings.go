package rest

import (
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// binding is one route of a method of the contract: its first is the canonical one, the others are other spellings of it.
type binding struct{ method, template string }

// bindingsOf are the routes of a method ("/package.Service/Method"), as its google.api.http rule declares them.
func bindingsOf(fullMethod string) []binding {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(fullMethod, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil
	}
	rule, ok := proto.GetExtension(found.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok {
		return nil
	}
	var bindings []binding
	for _, one := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		for method, template := range map[string]string{
			http.MethodGet: one.GetGet(), http.MethodPost: one.GetPost(), http.MethodPut: one.GetPut(),
			http.MethodPatch: one.GetPatch(), http.MethodDelete: one.GetDelete(),
		} {
			if template != "" {
				bindings = append(bindings, binding{method, template})
			}
		}
	}
	return bindings
}
