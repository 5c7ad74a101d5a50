package restserver

import (
	"net/http"
	"regexp"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Binding is one route of a method of the contract: its first is the canonical one, the others are other spellings of it.
type Binding struct{ Method, Template string }

// Bindings are the routes of a method ("/package.Service/Method"), as its google.api.http rule declares them.
func Bindings(fullMethod string) []Binding {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(fullMethod, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil
	}
	rule, ok := proto.GetExtension(found.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok {
		return nil
	}
	var bindings []Binding
	for _, one := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		for method, template := range map[string]string{
			http.MethodGet: one.GetGet(), http.MethodPost: one.GetPost(), http.MethodPut: one.GetPut(),
			http.MethodPatch: one.GetPatch(), http.MethodDelete: one.GetDelete(),
		} {
			if template != "" {
				bindings = append(bindings, Binding{method, template})
			}
		}
	}
	return bindings
}

var pathParameter = regexp.MustCompile(`\{([^}=]+)\}`)

// patternOf is how the mux writes a template: each parameter with what it may be.
func patternOf(template string) string { return pathParameter.ReplaceAllString(template, "{$1=*}") }

// Route is one route as the mux of the gateway names it.
type Route struct{ Method, Pattern string }

// Inputs are the messages that the routes of services are read into.
func Inputs(services ...protoreflect.ServiceDescriptor) map[Route]protoreflect.MessageDescriptor {
	found := map[Route]protoreflect.MessageDescriptor{}
	for _, service := range services {
		for i := range service.Methods().Len() {
			method := service.Methods().Get(i)
			for _, one := range Bindings("/" + string(service.FullName()) + "/" + string(method.Name())) {
				found[Route{one.Method, patternOf(one.Template)}] = method.Input()
			}
		}
	}
	return found
}
