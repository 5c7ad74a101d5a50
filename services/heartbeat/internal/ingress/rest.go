package ingress

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
	heartbeatgw "github.com/commandcenter/fleet/proto/gen/gateway/commandcenter/heartbeat/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/loopback"
	"github.com/commandcenter/fleet/services/internal/restserver"
)

// MaxBodyBytes is far more than the largest heartbeat that keeps all rules.
const MaxBodyBytes = 4 << 20

// bodies is how bodies are read. Agents say that theirs are JSON.
var bodies = restserver.Bodies{MaxBytes: MaxBodyBytes}

// HandlerOptions is what the REST handler is made of. All fields are required.
type HandlerOptions struct {
	// Conn leads to the service, within the process.
	Conn    grpc.ClientConnInterface
	Metrics *Metrics
	Logger  *slog.Logger
	// LoopbackOnly refuses other host names: without an enrolment key any page in a local browser could call.
	LoopbackOnly bool
}

// NewHandler makes the REST handler: what every request must be, then the generated gateway to the service.
func NewHandler(ctx context.Context, options HandlerOptions) (http.Handler, error) {
	h := &handler{
		HandlerOptions: options, crossOrigin: http.NewCrossOriginProtection(), underWay: make(chan struct{}, maxPending),
		inputs: restserver.Inputs(heartbeatv1.File_commandcenter_heartbeat_v1_ingress_proto.Services().ByName("AgentIngress")),
	}
	h.mux = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, restserver.NewCompact(true)),
		runtime.WithErrorHandler(h.fail),
		runtime.WithRoutingErrorHandler(h.unrouted),
		runtime.WithMiddlewares(h.read),
		runtime.WithMetadata(func(_ context.Context, r *http.Request) metadata.MD {
			return metadata.Pairs(grpcserver.RequestIDHeader, r.Header.Get(grpcserver.RequestIDHeader))
		}),
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithDisablePathLengthFallback(),
	)
	return h, heartbeatgw.RegisterAgentIngressHandlerClient(ctx, h.mux, heartbeatv1.NewAgentIngressClient(options.Conn))
}

type handler struct {
	HandlerOptions
	mux         *runtime.ServeMux
	inputs      map[restserver.Route]protoreflect.MessageDescriptor
	crossOrigin *http.CrossOriginProtection
	underWay    chan struct{} // bounds the bodies in memory
}

// readingKey is the key of the *restserver.Reading in a request's context.
type readingKey struct{}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := grpcserver.NewRequestID(r.Header.Get(grpcserver.RequestIDHeader))
	r.Header.Set(grpcserver.RequestIDHeader, id)
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w, r, finish, badPretty := restserver.Pretty(w, r)
	defer finish()
	select {
	case h.underWay <- struct{}{}:
		defer func() { <-h.underWay }()
	default:
		h.refuse(w, r, h.Metrics.busy(busyPending, busyDelay(), "too many requests are under way"))
		return
	}
	refused := h.admit(r)
	if refused == nil {
		refused = badPretty
	}
	if refused != nil {
		h.refuse(w, r, refused)
		return
	}
	switch allowed := h.allowed(r.URL.Path); {
	case r.Method == http.MethodOptions && len(allowed) > 0:
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method == http.MethodHead && slices.Contains(allowed, http.MethodGet): // the server, which has the request itself, leaves the body out
		r = r.WithContext(r.Context())
		r.Method = http.MethodGet
	}
	h.mux.ServeHTTP(w, r)
}

// admit checks what is the same for every route.
func (h *handler) admit(r *http.Request) *fault.Error {
	if err := h.crossOrigin.Check(r); err != nil {
		return fault.New(fault.PermissionDenied, "calls from pages of another origin are refused; nothing was done").WithCause(err)
	}
	if h.LoopbackOnly && !onLoopback(r.Host) {
		return fault.New(fault.PermissionDenied, "without an enrolment key only loopback is served, and %q is not a loopback host; nothing was done", r.Host)
	}
	return nil
}

func onLoopback(host string) bool {
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "80")
	}
	local, err := loopback.Is(host)
	return err == nil && local
}

// read checks the body against the message that it is read into, and leaves it in the form that the generated handler reads. Fields of
// a later release are passed over.
func (h *handler) read(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		pattern, _ := runtime.HTTPPattern(r.Context())
		body, refused := bodies.Read(w, r)
		if refused == nil {
			refused = noParameters(r)
		}
		var reading *restserver.Reading
		if refused == nil {
			reading, refused = restserver.ReadMessage(body, h.inputs[restserver.Route{Method: r.Method, Pattern: pattern.String()}], nil, true)
		}
		if refused != nil {
			h.refuse(w, r, refused)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(reading.Body)), int64(len(reading.Body))
		next(w, r.WithContext(context.WithValue(r.Context(), readingKey{}, reading)), params)
	}
}

// noParameters refuses query parameters: no route has any, and what was meant by one would not happen.
func noParameters(r *http.Request) *fault.Error {
	query, err := restserver.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(query)) {
		return restserver.NoParameter(r.Method, key)
	}
	return nil
}

// allowed lists the methods of a path; none for a path that does not exist.
func (h *handler) allowed(path string) []string {
	var methods []string
	for route := range h.inputs {
		if route.Pattern == path {
			methods = append(methods, route.Method)
		}
	}
	if len(methods) == 0 {
		return nil
	}
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	methods = append(methods, http.MethodOptions)
	slices.Sort(methods)
	return methods
}

// unrouted answers paths and methods that lead nowhere.
func (h *handler) unrouted(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, _ int) {
	if allowed := strings.Join(h.allowed(r.URL.Path), ", "); allowed != "" {
		w.Header().Set("Allow", allowed)
		h.refuse(w, r, fault.New(fault.MethodNotAllowed, "%s is not a method of %s, which has %s; nothing was done", r.Method, r.URL.Path, allowed))
		return
	}
	h.refuse(w, r, fault.New(fault.RouteNotFound, "there is no route %s; nothing was done", r.URL.Path))
}

// fail answers an error of the service, which logged it, or of the gateway's own reading of the request.
func (h *handler) fail(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	found := fault.From(err)
	if len(status.Convert(err).Details()) > 0 {
		reading, _ := r.Context().Value(readingKey{}).(*restserver.Reading)
		restserver.WriteProblem(w, requestID(r), reading.Sent(found))
		return
	}
	h.refuse(w, r, restserver.Pointed(found))
}

func requestID(r *http.Request) string { return r.Header.Get(grpcserver.RequestIDHeader) }

// refuse answers an error that no service logged.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err *fault.Error) {
	h.Logger.Info("rest request", "method", r.Method, "path", r.URL.Path, "status", err.Reason.HTTPStatus(), "reason", string(err.Reason),
		"detail", err.Detail, "request_id", requestID(r), "peer", r.RemoteAddr)
	restserver.WriteProblem(w, requestID(r), err)
}
