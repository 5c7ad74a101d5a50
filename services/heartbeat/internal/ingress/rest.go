package ingress

import (
	"context"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"regexp"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
	heartbeatgw "github.com/commandcenter/fleet/proto/gen/gateway/commandcenter/heartbeat/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/loopback"
)

// MaxBodyBytes is far more than the largest heartbeat that keeps all rules.
const MaxBodyBytes = 4 << 20

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
	h := &handler{HandlerOptions: options, crossOrigin: http.NewCrossOriginProtection(), underWay: make(chan struct{}, maxPending)}
	h.mux = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.JSONPb{
			MarshalOptions: protojson.MarshalOptions{EmitDefaultValues: true}, UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: true},
		}),
		runtime.WithErrorHandler(h.fail),
		runtime.WithRoutingErrorHandler(h.unrouted),
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
	crossOrigin *http.CrossOriginProtection
	underWay    chan struct{} // bounds the bodies in memory
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := grpcserver.NewRequestID(r.Header.Get(grpcserver.RequestIDHeader))
	r.Header.Set(grpcserver.RequestIDHeader, id)
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	select {
	case h.underWay <- struct{}{}:
		defer func() { <-h.underWay }()
	default:
		h.refuse(w, r, h.Metrics.busy(busyPending, busyDelay(), "too many requests are under way"))
		return
	}
	if refused := h.admit(r); refused != nil {
		h.refuse(w, r, refused)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, MaxBodyBytes)
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
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.ContentLength != 0 && (err != nil || kind != "application/json") {
		return fault.New(fault.UnsupportedMediaType, "the body is %q; send application/json. Nothing was done", r.Header.Get("Content-Type"))
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

// unrouted answers paths and methods that lead nowhere.
func (h *handler) unrouted(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	if code == http.StatusMethodNotAllowed {
		h.refuse(w, r, fault.New(fault.MethodNotAllowed, "%s does not have the method %s; nothing was done", r.URL.Path, r.Method))
		return
	}
	h.refuse(w, r, fault.New(fault.RouteNotFound, "there is no route %s; nothing was done", r.URL.Path))
}

// fail answers an error of the service, which logged it, or of the reading of the body.
func (h *handler) fail(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	if len(status.Convert(err).Details()) > 0 {
		writeProblem(w, r, fault.From(err))
		return
	}
	found := fault.From(err)
	if found.Reason == fault.InvalidArgument {
		found = unreadable(status.Convert(err).Message())
	}
	h.refuse(w, r, found)
}

var (
	syntax    = regexp.MustCompile(`^(invalid character '.{1,6}' .*|unexpected EOF|unexpected end of JSON input)$`)
	position  = regexp.MustCompile(`\(line \d+:\d+\)`)
	wellKnown = regexp.MustCompile(`google\.protobuf\.[A-Z][a-zA-Z]*`)
	fieldName = regexp.MustCompile(`field "?([A-Za-z][A-Za-z0-9_.]*)`)
)

// unreadable says where a body is no request. The reader's own words may quote what stands there, which may be a token.
func unreadable(text string) *fault.Error {
	if strings.Contains(text, "request body too large") {
		return fault.New(fault.BodyTooLarge, "the body is larger than %d bytes; nothing was changed", MaxBodyBytes)
	}
	where := ""
	if syntax.MatchString(text) { // this one quotes a single character
		where = ": " + text
	}
	if match := position.FindString(text); match != "" {
		where = " " + match
	}
	if match := fieldName.FindStringSubmatch(text); match != nil {
		return fault.New(fault.InvalidArgument, "the body cannot be read as JSON%s: the field %s has no value of its kind; nothing was changed", where, match[1])
	}
	if kind := wellKnown.FindString(text); kind != "" {
		where += ": no " + kind + " as JSON has it"
	}
	return fault.New(fault.InvalidArgument, "the body cannot be read as JSON%s; nothing was changed", where)
}

// refuse answers an error that no service logged.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err *fault.Error) {
	h.Logger.Info("rest request", "method", r.Method, "path", r.URL.Path, "status", err.Reason.HTTPStatus(), "reason", string(err.Reason),
		"detail", err.Detail, "request_id", r.Header.Get(grpcserver.RequestIDHeader), "peer", r.RemoteAddr)
	writeProblem(w, r, err)
}
