// Package openapi makes the OpenAPI 3.1 document of the REST interface from the contract: routes, fields, comments and rules of the proto
// files, roles of the policy, and reasons of the error table.
package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/commandcenter/fleet/services/internal/fault"
)

const contract = "commandcenter.operator.v1"

const introduction = "Operate agents, decide about them, plan maintenance and edit the server catalog.\n\n" +
	"**Errors** are `application/problem+json` (RFC 9457). `reason` is for programs, `detail` for people. `Retry-After` is sent only where " +
	"nothing was sent or changed.\n\n" +
	"**Changes** carry the etag that was read, as `If-Match` or as the field `etag`. Without one the answer is 428, with a stale one 412 and " +
	"the present etag. `If-Match` may list several, of which one has to match; `W/` before one is passed over, since proxies that compress " +
	"mark etags so; an empty one (`\"\"`) matches nothing.\n\n" +
	"**Commands** that change something take an `Idempotency-Key`, a UUID, which becomes the command's id. Sent again with the same body it " +
	"runs nothing more and is answered with what became of it; with another body the answer is 409.\n\n" +
	"**Values** of enums may be given without the enum's name and in any case (`pending` for `REGISTRATION_STATE_PENDING`), durations also as " +
	"`90m`, `7d` or `PT1H30M`; answers have the whole names and seconds.\n\n" +
	"**Fields** and query parameters that a route does not have are refused by name. In answers, lists and plain values are there even when " +
	"they are empty."

// Make makes the document from a descriptor set with comments.
func Make(descriptors []byte) ([]byte, error) {
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(descriptors, set); err != nil {
		return nil, fmt.Errorf("the descriptor set cannot be read: %w", err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, fmt.Errorf("the descriptor set does not hold together: %w", err)
	}
	problem, err := files.FindDescriptorByName(contract + ".Problem")
	if err != nil {
		return nil, fmt.Errorf("the descriptor set lacks the operators' contract: %w", err)
	}
	text, err := asJSON(document(methodsOf(files), problem.(protoreflect.MessageDescriptor)))
	if err != nil {
		return nil, err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", " "); err != nil {
		return nil, err
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

// methodsOf are the methods of the operators' contract, by service and in its order.
func methodsOf(files *protoregistry.Files) []protoreflect.MethodDescriptor {
	var services []protoreflect.ServiceDescriptor
	files.RangeFilesByPackage(contract, func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			services = append(services, file.Services().Get(i))
		}
		return true
	})
	slices.SortFunc(services, func(a, b protoreflect.ServiceDescriptor) int {
		return strings.Compare(string(a.Name()), string(b.Name()))
	})
	var methods []protoreflect.MethodDescriptor
	for _, service := range services {
		for i := range service.Methods().Len() {
			methods = append(methods, service.Methods().Get(i))
		}
	}
	return methods
}

func document(methods []protoreflect.MethodDescriptor, problem protoreflect.MessageDescriptor) object {
	s := newSchemas()
	for _, method := range methods {
		s.noteAnswer(method.Output())
	}
	var tags []object
	var order []string
	paths := map[string]object{}
	for _, method := range methods {
		if name := tag(method.Parent()); !slices.ContainsFunc(tags, func(one object) bool { return one[0].value == name }) {
			tags = append(tags, object{{"name", name}, {"description", comment(method.Parent())}})
		}
		for _, at := range routesOf(method) {
			if paths[at.template] == nil {
				order = append(order, at.template)
			}
			paths[at.template] = paths[at.template].with(strings.ToLower(at.verb), s.operation(method, at))
		}
	}
	var ordered object
	for _, template := range order {
		ordered = ordered.with(template, paths[template])
	}
	s.problem(problem)
	return object{
		{"openapi", "3.1.0"},
		{"info", object{{"title", "CommandCenter agent fleet"}, {"version", "v1"}, {"description", introduction}}},
		{"servers", []object{{{"url", "/"}, {"description", "The gateway that served this document."}}}},
		{"security", []object{{{"bearer", []string{}}}, {}}},
		{"tags", tags},
		{"paths", ordered},
		{"components", s.components()},
	}
}

// tag is a service's name in words: "AgentOperations" is "Agent operations".
func tag(service protoreflect.Descriptor) string {
	var words strings.Builder
	for i, letter := range string(service.Name()) {
		if i > 0 && unicode.IsUpper(letter) {
			words.WriteByte(' ')
			letter = unicode.ToLower(letter)
		}
		words.WriteRune(letter)
	}
	return words.String()
}

func (s *schemas) components() object {
	var schemas object
	for _, name := range slices.Sorted(maps.Keys(s.found)) {
		schemas = schemas.with(name, s.found[name])
	}
	return object{
		{"schemas", schemas},
		{"parameters", object{
			{"GrpcTimeout", header("Grpc-Timeout", "Shortens the time that the call may take: digits and a unit of H, M, S, m (milliseconds), u or n.", "5S", `^[0-9]{1,8}[HMSmun]$`)},
			{"XRequestId", header("X-Request-Id", "Names the request in the log and in the answer. One is made when it is absent.", "order-66", "")},
			{"IfMatch", header("If-Match", "The etag that was read, quoted or not. It may come as the field `etag` instead.", `"`+exampleEtag+`"`, "")},
			{"IdempotencyKey", object{
				{"name", "Idempotency-Key"},
				{"in", "header"},
				{"description", "A UUID. The same request again under it does nothing again."},
				{"schema", object{{"type", "string"}, {"format", "uuid"}}},
				{"example", exampleID},
			}},
		}},
		{"headers", object{
			{"ETag", object{{"description", "The etag of what is answered, for If-Match."}, {"schema", object{{"type", "string"}}}}},
			{"XRequestId", object{{"description", "The request's name in the log."}, {"schema", object{{"type", "string"}}}}},
			{"RetryAfter", object{{"description", "Seconds to wait. Sent only where nothing was sent or changed."}, {"schema", object{{"type", "integer"}, {"minimum", 1}}}}},
		}},
		{"responses", s.problems()},
		{"securitySchemes", object{{"bearer", object{
			{"type", "http"}, {"scheme", "bearer"}, {"description", "A token of the gateway's token file. Not needed on loopback where none is configured."},
		}}}},
	}
}

func header(name, description, example, pattern string) object {
	schema := object{{"type", "string"}}.withText("pattern", pattern)
	return object{{"name", name}, {"in", "header"}, {"description", description}, {"schema", schema}, {"example", example}}
}

// statuses are those of the error table, each with its reasons.
func statuses() map[int][]fault.Reason {
	found := map[int][]fault.Reason{}
	for _, reason := range fault.Reasons() {
		found[reason.HTTPStatus()] = append(found[reason.HTTPStatus()], reason)
	}
	return found
}

func statusName(status int) string { return strings.ReplaceAll(http.StatusText(status), " ", "") }

// problems are the error answers, one for each status that some route expects.
func (s *schemas) problems() object {
	var made object
	byStatus := statuses()
	for _, status := range slices.Sorted(maps.Keys(s.statuses)) {
		lines := []string{http.StatusText(status) + ". The reasons:", ""}
		for _, reason := range byStatus[status] {
			lines = append(lines, "- `"+string(reason)+"`: "+reason.Title())
		}
		made = made.with(statusName(status), problemAnswer(strings.Join(lines, "\n"), byStatus[status]))
	}
	return made.with("Problem", problemAnswer("Any other error.", []fault.Reason{fault.Internal}))
}

func problemAnswer(description string, reasons []fault.Reason) object {
	reason := reasons[0]
	headers := object{{"X-Request-Id", object{{"$ref", "#/components/headers/XRequestId"}}}}
	if slices.ContainsFunc(reasons, fault.Reason.NothingSent) {
		headers = headers.with("Retry-After", object{{"$ref", "#/components/headers/RetryAfter"}})
	}
	if reason == fault.StaleEtag {
		headers = headers.with("ETag", object{{"$ref", "#/components/headers/ETag"}})
	}
	shown := object{
		{"type", "urn:commandcenter:problem:" + strings.ToLower(string(reason))},
		{"title", reason.Title()},
		{"status", reason.HTTPStatus()},
		{"detail", reason.Title() + "; nothing was done"},
		{"instance", "urn:commandcenter:request:" + exampleID},
		{"reason", string(reason)},
	}
	if reason == fault.InvalidArgument {
		shown = shown.with("errors", []object{{{"pointer", "/pageSize"}, {"detail", "must be at most 1000"}}})
	}
	return object{{"description", description}, {"headers", headers}, {"content", object{{"application/problem+json", object{
		{"schema", object{{"$ref", "#/components/schemas/Problem"}}}, {"example", shown},
	}}}}}
}

// problem describes the body of every error. It is written by the REST handler, which leaves out what is empty.
func (s *schemas) problem(of protoreflect.MessageDescriptor) {
	made := s.message(of, false, nil)
	for i, one := range made {
		switch one.name {
		case "required":
			made[i].value = []string{"type", "title", "status", "detail", "instance", "reason"}
		case "properties":
			properties := one.value.(object)
			for j, property := range properties {
				if property.name == "reason" {
					properties[j].value = object{{"$ref", "#/components/schemas/Reason"}}
				}
			}
		}
	}
	s.found["Problem"] = made
	var names []string
	var meanings object
	lines := []string{"Reason says why a request was not done. New ones may come.", ""}
	for _, reason := range fault.Reasons() {
		names = append(names, string(reason))
		meanings = meanings.with(string(reason), reason.Title())
		lines = append(lines, "- `"+string(reason)+"` ("+strconv.Itoa(reason.HTTPStatus())+"): "+reason.Title())
	}
	s.found["Reason"] = object{{"type", "string"}, {"description", strings.Join(lines, "\n")}, {"enum", names}, {"x-enumDescriptions", meanings}}
}

// responses are the answer, and the errors that the route can have.
func (s *schemas) responses(method protoreflect.MethodDescriptor, at route) object {
	made := object{{"200", s.success(method)}}
	expected := []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden}
	if len(at.pathFields) > 0 {
		expected = append(expected, http.StatusNotFound)
	}
	if changes(method) || isCommand(method) && len(at.pathFields) > 0 {
		expected = append(expected, http.StatusConflict)
	}
	if takesEtag(method) {
		expected = append(expected, http.StatusPreconditionFailed, http.StatusPreconditionRequired)
	}
	if at.hasBody() {
		expected = append(expected, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if isCommand(method) && len(at.pathFields) > 0 {
		expected = append(expected, http.StatusBadGateway)
	}
	expected = append(expected, http.StatusInternalServerError, http.StatusServiceUnavailable)
	slices.Sort(expected)
	for _, status := range expected {
		s.statuses[status] = true
		made = made.with(strconv.Itoa(status), object{{"$ref", "#/components/responses/" + statusName(status)}})
	}
	return made.with("default", object{{"$ref", "#/components/responses/Problem"}})
}

// success describes the answer; events come one per line.
func (s *schemas) success(method protoreflect.MethodDescriptor) object {
	headers := object{{"X-Request-Id", object{{"$ref", "#/components/headers/XRequestId"}}}}
	if answersEtag(method) {
		headers = headers.with("ETag", object{{"$ref", "#/components/headers/ETag"}})
	}
	answer := s.ref(method.Output(), false)
	if !method.IsStreamingServer() {
		return object{{"description", comment(method.Output())}, {"headers", headers}, {"content", object{{"application/json", object{
			{"schema", answer}, {"example", example(method.Output(), false, nil, 0)},
		}}}}}
	}
	var examples object
	events := method.Output().Oneofs().Get(0).Fields()
	for i := range events.Len() {
		examples = examples.with(events.Get(i).JSONName(), object{{"summary", comment(events.Get(i))}, {"value", example(method.Output(), false, nil, i)}})
	}
	return object{
		{"description", "Events, one JSON object a line, each as it comes. The schema is that of one line. A line that is a problem is the last one: what was answered before it holds, and the call failed."},
		{"headers", headers},
		{"content", object{{"application/x-ndjson", object{
			{"schema", object{{"anyOf", []object{answer, {{"$ref", "#/components/schemas/Problem"}}}}}}, {"examples", examples},
		}}}},
	}
}
