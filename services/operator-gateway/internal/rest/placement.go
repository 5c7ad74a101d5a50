package rest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/restserver"
)

// placed reads what a request gives before its generated handler does, since that handler passes over what it does not look for, and
// says of what it cannot read neither where it is nor what it must be.
func (h *handler) placed(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		kept := requestOf(r.Context())
		if err := h.read(kept, r, params); err != nil {
			h.refuse(w, kept, err)
			return
		}
		setBody(r, kept.body)
		next(w, r, params)
	}
}

// read checks path, query and body against the message that they are read into, and leaves them in the form that the generated
// handlers read.
func (h *handler) read(kept *request, r *http.Request, params map[string]string) *fault.Error {
	pattern, _ := runtime.HTTPPattern(r.Context())
	into := h.inputs[restserver.Route{Method: r.Method, Pattern: pattern.String()}]
	if into == nil {
		return fault.New(fault.Internal, "unexpected; the cause is in the log under the request id")
	}
	given, err := restserver.ReadPath(params, into)
	if err != nil {
		return err
	}
	kept.given = given
	query, err := restserver.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	if !restserver.TakesBody(r.Method) {
		kept.read, err = restserver.ReadQuery(query, into, given)
		if err == nil && len(kept.body) > 0 {
			err = restserver.BadBody("", "is not read by %s; give query parameters instead", r.Method)
		}
		return err
	}
	for key := range query {
		return restserver.NoParameter(r.Method, key)
	}
	kept.read, err = restserver.ReadMessage(kept.body, into, given, false)
	if err != nil {
		return err
	}
	kept.body = kept.read.Body
	return refuseEmpty(kept.read.Empty)
}

// meansAll are the lists whose absence asks for more than any list would. A caller who writes one that is empty asks for nothing, and
// must not get all of it.
var meansAll = map[protoreflect.FullName]string{
	"commandcenter.operator.v1.SyncPackagesRequest.packages": "leave it out to ask for the set that the agent is configured with",
	"commandcenter.agent.v1.SyncPackages.packages":           "leave it out to ask for the set that each agent is configured with",
}

func refuseEmpty(lists []restserver.EmptyList) *fault.Error {
	for _, list := range lists {
		if instead, is := meansAll[list.Field]; is {
			return fault.Invalid(list.Pointer, "must not be empty; %s", instead)
		}
	}
	return nil
}

// placedFields points at a field where the caller put it, under the name that the caller wrote: those of the path and of the query are
// "#/name".
func placedFields(kept *request, err *fault.Error) *fault.Error {
	return restserver.Renamed(kept.read.Sent(err), func(pointer string) string {
		name, _, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
		inPath := slices.ContainsFunc(kept.given, func(given protoreflect.FieldDescriptor) bool { return given.JSONName() == name })
		if strings.HasPrefix(pointer, "/") && (inPath || !restserver.TakesBody(kept.method)) {
			return "#" + pointer
		}
		return pointer
	})
}

// queryReader reads queries into messages in the place of the gateway's own reader, which passes over a misspelt filter. What it reads
// was checked before.
type queryReader struct{}

// readStrictly makes queryReader the reader of queries. It is one for the whole process, however many handlers there are.
var readStrictly = sync.OnceFunc(func() { runtime.NewServeMux(runtime.SetQueryParameterParser(queryReader{})) })

// Parse implements runtime.QueryParameterParser.
func (queryReader) Parse(message proto.Message, values url.Values, _ *utilities.DoubleArray) error {
	read, err := restserver.ReadQuery(values, message.ProtoReflect().Descriptor(), nil)
	if err == nil {
		err = read.Into(message)
	}
	if err != nil {
		return err
	}
	return nil
}
