package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/restserver"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/rpc"
)

// lineTimeout is how long a caller may take to accept one line.
const lineTimeout = time.Minute

// streaming is a method that answers with events, as clients have it.
type streaming[Request, Event any] func(context.Context, *Request, ...grpc.CallOption) (grpc.ServerStreamingClient[Event], error)

// serveLines puts lines in the place of the generated handlers of a method, one for each of its routes.
func serveLines[Request, Event any](h *handler, method string, call streaming[Request, Event]) error {
	for _, served := range restserver.Bindings(method) {
		if err := h.mux.HandlePath(served.Method, served.Template, lines(h, method, call)); err != nil {
			return err
		}
	}
	return nil
}

// lines serves a method that answers with events: one per line of JSON, each as it comes; a problem is the last line where the call
// fails midway. The generated handler cannot answer with a problem.
func lines[Request, Event any](h *handler, method string, call streaming[Request, Event]) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
		events, err := open(h, r, method, call)
		if err != nil {
			h.fail(r.Context(), nil, nil, w, r, err)
			return
		}
		h.writeLines(w, r, func() (any, error) { return events.Recv() })
	}
}

func open[Request, Event any](h *handler, r *http.Request, method string, call streaming[Request, Event]) (grpc.ServerStreamingClient[Event], error) {
	request := new(Request)
	if err := readRequest(r, any(request).(proto.Message)); err != nil {
		return nil, err
	}
	ctx, err := runtime.AnnotateContext(r.Context(), h.mux, r, method)
	if err != nil {
		return nil, err
	}
	return call(ctx, request)
}

// readRequest reads a request as the generated handlers do: from the body, or from the query where the method has none.
func readRequest(r *http.Request, request proto.Message) error {
	var err error
	if restserver.TakesBody(r.Method) {
		err = asJSON.Unmarshal(requestOf(r.Context()).body, request)
	} else {
		err = runtime.PopulateQueryParameters(request, r.URL.Query(), utilities.NewDoubleArray(nil))
	}
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return status.Error(codes.InvalidArgument, err.Error())
}

// writeLines writes events until there are no more, or the caller takes no more.
func (h *handler) writeLines(w http.ResponseWriter, r *http.Request, next func() (any, error)) {
	control, kept := http.NewResponseController(w), requestOf(r.Context())
	// However long the next event takes to come, the connection is not ended for it; the call's own deadline bounds the wait.
	_ = control.SetWriteDeadline(time.Time{})
	for begun := false; ; begun = true {
		event, err := next()
		_ = control.SetWriteDeadline(time.Now().Add(lineTimeout))
		kept.called = err == nil || errors.Is(err, io.EOF) || rpc.Answered(err)
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil && !begun:
			h.fail(r.Context(), nil, nil, w, r, err)
			return
		case err != nil: // what was answered so far cannot be taken back
			kept.failure = fault.From(err)
			restserver.WriteLine(w, restserver.NewProblem(kept.id, kept.failure))
			return
		case !writeEvent(w, begun, event):
			return
		}
		if control.Flush() != nil || kept.method == http.MethodHead { // whose caller waits for the header alone
			return
		}
		_ = control.SetWriteDeadline(time.Time{})
	}
}

// writeEvent writes one event, and tells whether the caller still takes them.
func writeEvent(w http.ResponseWriter, begun bool, event any) bool {
	if !begun {
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Cache-Control", "no-store")
	}
	line, err := asJSON.Marshal(event)
	if err != nil {
		return false
	}
	_, err = w.Write(line)
	return err == nil
}
