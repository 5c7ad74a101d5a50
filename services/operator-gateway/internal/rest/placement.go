package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// placed refuses parameters that come where the route does not look for them, and which the gateway would ignore: in the query of
// a route with a body or without any parameters, in the body of a route without, or once more beside the path.
func (h *handler) placed(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		kept := requestOf(r.Context())
		kept.params = params
		queried := r.URL.RawQuery != "" && h.routes.queried(r.URL.EscapedPath(), r.Method)
		if err := misplaced(r, kept.body, params, queried); err != nil {
			h.refuse(w, kept, err)
			return
		}
		next(w, r, params)
	}
}

func misplaced(r *http.Request, body []byte, params map[string]string, queried bool) *fault.Error {
	if err := misplacedQuery(r, params, queried); err != nil {
		return err
	}
	return misplacedBody(r.Method, body, params)
}

func misplacedQuery(r *http.Request, params map[string]string, queried bool) *fault.Error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fault.Invalid("#/query", "cannot be read: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !utf8.ValidString(params[name]) {
			return fault.Invalid("#/"+name, "is not UTF-8")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(query)) {
		switch {
		case !utf8.ValidString(key + strings.Join(query[key], "")):
			return fault.Invalid("#/"+escape(strings.ToValidUTF8(key, "\uFFFD")), "is not UTF-8")
		case takesBody(r.Method):
			return fault.Invalid("#/"+escape(key), "is not a query parameter of this route, which takes its fields in the body")
		case params[key] != "":
			return fault.Invalid("#/"+escape(key), "is given by the path, and cannot be given again")
		case !queried: // its generated handler does not look
			return fault.Invalid("#/"+escape(key), "is not a parameter of this route, which has none in the query")
		}
	}
	return nil
}

func misplacedBody(method string, body []byte, params map[string]string) *fault.Error {
	if len(body) == 0 {
		return nil
	}
	if !takesBody(method) {
		return badBody("", "is not read by %s; give query parameters instead", method)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return nil // no object; the reader of messages says so
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if _, twice := params[name]; twice {
			return fault.Invalid("/"+escape(name), "is given by the path, and cannot be given again")
		}
	}
	return nil
}

// placedFields points at a field where the caller put it: those of the path and of the query are "#/name".
func placedFields(kept *request, err *fault.Error) *fault.Error {
	if len(err.Fields) == 0 {
		return err
	}
	placed := *err
	placed.Fields = slices.Clone(err.Fields)
	for i, field := range placed.Fields {
		name, _, _ := strings.Cut(strings.TrimPrefix(field.Pointer, "/"), "/")
		_, inPath := kept.params[name]
		if strings.HasPrefix(field.Pointer, "/") && (inPath || !takesBody(kept.method)) {
			placed.Fields[i].Pointer = "#" + field.Pointer
		}
	}
	return &placed
}

// strictQuery refuses query parameters that the route does not have, instead of ignoring a misspelt filter, and names the one
// that cannot be read.
type strictQuery struct{}

// readStrictly makes strictQuery the reader of queries. It is one for the whole process, however many handlers there are.
var readStrictly = sync.OnceFunc(func() { runtime.NewServeMux(runtime.SetQueryParameterParser(strictQuery{})) })

// Parse implements runtime.QueryParameterParser.
func (strictQuery) Parse(message proto.Message, values url.Values, filter *utilities.DoubleArray) error {
	fields := message.ProtoReflect().Descriptor().Fields()
	seen := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		field := fields.ByJSONName(key)
		if field == nil {
			field = fields.ByTextName(key)
		}
		if field == nil {
			return queryError(key, "is not a parameter of this route")
		}
		if other, twice := seen[field.JSONName()]; twice {
			return queryError(key, fmt.Sprintf("is the same as %s; give one of them", other))
		}
		seen[field.JSONName()] = key
		if err := (&runtime.DefaultQueryParser{}).Parse(message, url.Values{key: values[key]}, filter); err != nil {
			return queryError(key, fmt.Sprintf("cannot be read from %q; must be %s", values[key], form(field)))
		}
	}
	return nil
}

// form says what a query parameter must be.
func form(field protoreflect.FieldDescriptor) string {
	switch field.Kind() {
	case protoreflect.EnumKind:
		return fault.Choices(field.Enum())
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.MessageKind:
		return written[field.Message().FullName()]
	case protoreflect.StringKind:
		return "one text"
	default:
		return "one whole number"
	}
}

// The gateway passes on only the text of such an error, so it is written to be read back.
var queryParameter = regexp.MustCompile(`^query parameter ("(?:[^"\\]|\\.)*"): (.*)$`)

func queryError(key, detail string) error {
	return fmt.Errorf("query parameter %s: %s", strconv.Quote(key), detail)
}

// asQueryError is the refusal behind such a text; nil for another.
func asQueryError(text string) *fault.Error {
	match := queryParameter.FindStringSubmatch(text)
	if match == nil {
		return nil
	}
	key, err := strconv.Unquote(match[1])
	if err != nil {
		return nil
	}
	return fault.Invalid("#/"+escape(key), "%s", match[2])
}
