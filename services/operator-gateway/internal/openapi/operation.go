package openapi

import (
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/commandcenter/fleet/services/internal/restserver"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/rpc"
)

// route is one binding of a method.
type route struct {
	verb, template string
	pathFields     []string
	// spelling is 0 for the canonical route; others lead to the same.
	spelling int
}

// routesOf are the routes of a method, the canonical one first.
func routesOf(method protoreflect.MethodDescriptor) []route {
	var found []route
	for i, one := range restserver.Bindings("/" + string(method.Parent().FullName()) + "/" + string(method.Name())) {
		made := route{verb: one.Method, template: one.Template, spelling: i}
		for _, part := range strings.Split(one.Template, "{")[1:] {
			name, _, _ := strings.Cut(part, "}")
			made.pathFields = append(made.pathFields, name)
			// The document calls a parameter by the name that its field has in JSON.
			field := method.Input().Fields().ByName(protoreflect.Name(name))
			made.template = strings.Replace(made.template, "{"+name+"}", "{"+field.JSONName()+"}", 1)
		}
		found = append(found, made)
	}
	return found
}

func (r route) hasBody() bool {
	return r.verb == http.MethodPost || r.verb == http.MethodPut || r.verb == http.MethodPatch
}

// operationID is stable: it changes only when the method's name does.
func operationID(method protoreflect.MethodDescriptor, spelling int) string {
	id := string(method.Parent().Name()) + "_" + string(method.Name())
	if spelling > 0 {
		id += "_plain"
	}
	return id
}

// operation describes one route.
func (s *schemas) operation(method protoreflect.MethodDescriptor, at route) object {
	short, long := summary(method)
	role := rpc.Policy()["/"+string(method.Parent().FullName())+"/"+string(method.Name())]
	if len(role) > 0 {
		long = strings.TrimSpace(long + " Needs the role " + string(role[0]) + ".")
	}
	made := object{{"operationId", operationID(method, at.spelling)}, {"tags", []string{tag(method.Parent())}}}
	canonical := routesOf(method)[0]
	switch {
	case at.spelling > 0:
		short += " (without a colon)"
		long = "The same as `" + canonical.verb + " " + canonical.template + "`, which is the canonical route, for tools that trip over colons. " + long
		made = made.with("x-canonical-operation", operationID(method, 0))
	case len(routesOf(method)) > 1:
		long += " `" + routesOf(method)[1].template + "` leads to the same, for tools that trip over colons."
	}
	made = made.with("summary", short).withText("description", long).with("parameters", s.parameters(method, at))
	if at.hasBody() {
		if body, wanted := s.body(method.Input(), at); len(body) > 0 {
			made = made.with("requestBody", object{{"required", wanted}, {"content", object{{"application/json", body}}}})
		}
	}
	return made.with("responses", s.responses(method, at))
}

// parameters are those of the path, of the query where there is no body, and the headers.
func (s *schemas) parameters(method protoreflect.MethodDescriptor, at route) []object {
	var made []object
	for i := range method.Input().Fields().Len() {
		field := method.Input().Fields().Get(i)
		inPath := slices.Contains(at.pathFields, string(field.Name()))
		if !inPath && at.hasBody() {
			continue
		}
		parameter, where := object{{"name", field.JSONName()}}, "query"
		if inPath {
			where = "path"
		}
		parameter = parameter.with("in", where).withText("description", comment(field))
		if inPath || always(field, true) {
			parameter = parameter.with("required", true)
		}
		schema := s.field(field, true)
		schema = slices.DeleteFunc(schema, func(one member) bool { return one.name == "description" })
		if field.Kind() == protoreflect.Int64Kind {
			schema = object{{"type", "integer"}, {"format", "int64"}}
		}
		parameter = parameter.with("schema", schema)
		if inPath {
			parameter = parameter.with("example", pathExample(field))
		}
		made = append(made, parameter)
	}
	names := []string{"GrpcTimeout", "XRequestId"}
	if takesEtag(method) {
		names = append(names, "IfMatch")
	}
	if takesIdempotencyKey(method) {
		names = append(names, "IdempotencyKey")
	}
	for _, name := range names {
		made = append(made, object{{"$ref", "#/components/parameters/" + name}})
	}
	return made
}

func pathExample(field protoreflect.FieldDescriptor) any {
	value := exampleOf(field, true, 0)
	switch field.Kind() {
	case protoreflect.EnumKind:
		return string(field.Enum().Values().ByNumber(value.Enum()).Name())
	default:
		return value.Interface()
	}
}

// body describes a request's body, and whether there must be one. It is empty where the path has every field.
func (s *schemas) body(input protoreflect.MessageDescriptor, at route) (object, bool) {
	if input.Fields().Len() == len(at.pathFields) {
		return nil, false
	}
	name := s.name(input, true)
	s.found[name] = s.message(input, true, at.pathFields)
	required := slices.ContainsFunc(s.found[name], func(one member) bool { return one.name == "required" || one.name == "oneOf" })
	return object{
		{"schema", object{{"$ref", "#/components/schemas/" + name}}},
		{"example", example(input, true, at.pathFields, 0)},
	}, required
}

// takesEtag reports whether a method changes what has an etag.
func takesEtag(method protoreflect.MethodDescriptor) bool {
	return method.Input().Fields().ByName("etag") != nil
}

// takesIdempotencyKey reports whether a method takes an id for what it does: commands that change something, and new windows.
func takesIdempotencyKey(method protoreflect.MethodDescriptor) bool {
	return method.Name() == "CreateMaintenanceWindow" || isCommand(method) && changes(method)
}

func isCommand(method protoreflect.MethodDescriptor) bool {
	return method.Parent().Name() == "AgentOperations"
}

func changes(method protoreflect.MethodDescriptor) bool {
	return routesOf(method)[0].verb != http.MethodGet
}

// answersEtag reports whether an answer has an ETag header.
func answersEtag(method protoreflect.MethodDescriptor) bool {
	fields := method.Output().Fields()
	if fields.ByName("etag") != nil {
		return true
	}
	for _, name := range []protoreflect.Name{"agent", "manual"} {
		if field := fields.ByName(name); field != nil && field.Message() != nil && field.Message().Fields().ByName("etag") != nil {
			return true
		}
	}
	return false
}
