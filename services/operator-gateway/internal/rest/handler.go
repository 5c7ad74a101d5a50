package rest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	contracts "github.com/commandcenter/fleet/proto"
	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	operatorgw "github.com/commandcenter/fleet/proto/gen/gateway/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/restserver"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/rpc"
)

const (
	// MaxBodyBytes bounds a request's body.
	MaxBodyBytes = 1 << 20
	// bodyTimeout is how long a request's body may take to arrive.
	bodyTimeout = 30 * time.Second
)

// Options is what the handler is made of. All fields are required.
type Options struct {
	// Conn leads to the gRPC services, within the process.
	Conn    grpc.ClientConnInterface
	Logger  *slog.Logger
	Metrics prometheus.Registerer
	// LoopbackOnly refuses other host names, since without tokens any page in a local browser could call.
	LoopbackOnly bool
}

// NewHandler makes the REST handler.
func NewHandler(ctx context.Context, options Options) (http.Handler, error) {
	routes, err := readRoutes(contracts.OpenAPI)
	if err != nil {
		return nil, err
	}
	h := &handler{
		logger: options.Logger, routes: routes, inputs: restserver.Inputs(servedServices()...), duration: newDuration(options.Metrics),
		crossOrigin: http.NewCrossOriginProtection(), loopbackOnly: options.LoopbackOnly, bodyTimeout: bodyTimeout,
	}
	readStrictly()
	h.mux = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, asJSON),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptReserved),
		runtime.WithMiddlewares(h.placed),
		runtime.WithErrorHandler(h.fail),
		runtime.WithRoutingErrorHandler(h.unrouted),
		runtime.WithForwardResponseOption(respond),
		runtime.WithMetadata(annotate),
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithDisablePathLengthFallback(),
	)
	conn := noting{options.Conn}
	for _, err := range []error{
		operatorgw.RegisterAgentOperationsHandlerClient(ctx, h.mux, operatorv1.NewAgentOperationsClient(conn)),
		operatorgw.RegisterAgentConfigHandlerClient(ctx, h.mux, operatorv1.NewAgentConfigClient(conn)),
		operatorgw.RegisterServerConfigHandlerClient(ctx, h.mux, operatorv1.NewServerConfigClient(conn)),
		operatorgw.RegisterAvailabilityConfigHandlerClient(ctx, h.mux, operatorv1.NewAvailabilityConfigClient(conn)),
		operatorgw.RegisterCloudConfigHandlerClient(ctx, h.mux, operatorv1.NewCloudConfigClient(conn)),
		serveLines(h, operatorv1.AgentOperations_BatchRun_FullMethodName, operatorv1.NewAgentOperationsClient(conn).BatchRun),
		serveLines(h, operatorv1.AvailabilityConfig_WatchAvailability_FullMethodName, operatorv1.NewAvailabilityConfigClient(conn).WatchAvailability),
	} {
		if err != nil {
			return nil, err
		}
	}
	return h, nil
}

// servedServices are the services that the routes lead to.
func servedServices() []protoreflect.ServiceDescriptor {
	var services []protoreflect.ServiceDescriptor
	for _, file := range []protoreflect.FileDescriptor{
		operatorv1.File_commandcenter_operator_v1_operations_proto, operatorv1.File_commandcenter_operator_v1_config_proto,
		operatorv1.File_commandcenter_operator_v1_availability_proto, operatorv1.File_commandcenter_operator_v1_cloud_proto,
	} {
		for i := range file.Services().Len() {
			services = append(services, file.Services().Get(i))
		}
	}
	return services
}

type handler struct {
	logger       *slog.Logger
	mux          *runtime.ServeMux
	routes       routes
	inputs       map[restserver.Route]protoreflect.MessageDescriptor
	duration     *prometheus.HistogramVec
	crossOrigin  *http.CrossOriginProtection
	loopbackOnly bool
	bodyTimeout  time.Duration
}

// ServeHTTP checks what is the same for every route, and hands on.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kept := &request{
		id: grpcserver.NewRequestID(r.Header.Get("X-Request-Id")), startedAt: time.Now(), method: r.Method, route: h.routes.of(r.URL.EscapedPath()),
	}
	w, r, finish, badPretty := restserver.Pretty(w, r)
	defer finish()
	answer := &answer{ResponseWriter: w}
	answer.Header().Set("X-Request-Id", kept.id)
	answer.Header().Set("X-Content-Type-Options", "nosniff")
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, kept))
	defer h.record(answer, r, kept)
	defer h.recovered(answer, kept)

	body, refused := h.admit(answer, r)
	if refused == nil {
		refused = badPretty
	}
	if refused != nil {
		h.refuse(answer, kept, refused)
		return
	}
	if h.serveAside(answer, r) {
		return
	}
	if h.leadsNowhere(answer, r, kept) {
		return
	}
	kept.body = body
	setBody(r, body)
	if r.Method == http.MethodHead { // the server leaves the body out
		r.Method = http.MethodGet
	}
	h.mux.ServeHTTP(answer, r)
}

// setBody gives a request the body that is to be read of it.
func setBody(r *http.Request, body []byte) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

// leadsNowhere answers a path with a slash at its end, which the mux would take for a name that is missing.
func (h *handler) leadsNowhere(w http.ResponseWriter, r *http.Request, kept *request) bool {
	path, slash := strings.CutSuffix(r.URL.EscapedPath(), "/")
	if !slash {
		return false
	}
	hint := "/openapi.json lists them"
	if h.routes.of(path) != "" {
		hint = "without the slash at its end there is"
	}
	h.refuse(w, kept, fault.New(fault.RouteNotFound, "there is no route %s; %s. Nothing was done", r.URL.Path, hint))
	return true
}

// unrouted answers paths and methods that lead nowhere.
func (h *handler) unrouted(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, status int) {
	kept := requestOf(r.Context())
	allowed := h.routes.allowed(r.URL.EscapedPath())
	switch {
	case len(allowed) > 0 && status != http.StatusBadRequest:
		h.refuse(w, kept, methodNotAllowed(w, kept.method, r.URL.Path, allowed))
	case status == http.StatusBadRequest:
		h.refuse(w, kept, fault.Invalid("#/path", "must begin with a slash"))
	default:
		h.refuse(w, kept, fault.New(fault.RouteNotFound, "there is no route %s; /openapi.json lists them. Nothing was done", r.URL.Path))
	}
}

var badPath = fault.Invalid("#/path", "is not a valid escaped path")

// fail answers an error of a call, or of the gateway's own reading of the request.
func (h *handler) fail(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	kept := requestOf(r.Context())
	found := fault.From(err)
	var unread *runtime.HTTPStatusError
	switch {
	case errors.As(err, &unread):
		found = badPath
	case !kept.called:
		found = restserver.Pointed(found)
	}
	h.refuse(w, kept, placedFields(kept, found))
}

// refuse answers with an error.
func (h *handler) refuse(w http.ResponseWriter, kept *request, err *fault.Error) {
	kept.failure = err
	restserver.WriteProblem(w, kept.id, err)
}

// annotate passes on what the gRPC services need to know of the HTTP request. The gateway itself passes on Authorization, and
// Grpc-Timeout as the call's deadline.
func annotate(_ context.Context, r *http.Request) metadata.MD {
	md := metadata.Pairs(grpcserver.RequestIDHeader, requestOf(r.Context()).id)
	if match := r.Header.Values("If-Match"); len(match) > 0 {
		md.Set(rpc.IfMatch, match...)
	}
	if key := r.Header.Values("Idempotency-Key"); len(key) > 0 {
		md.Set(rpc.IdempotencyKey, key...)
	}
	return md
}

// respond adds the headers of a successful answer.
func respond(_ context.Context, w http.ResponseWriter, message proto.Message) error {
	w.Header().Set("Cache-Control", "no-store")
	etag := ""
	switch m := message.(type) {
	case *registryv1.Agent:
		etag = m.GetEtag()
	case *registryv1.Server:
		etag = m.GetEtag()
	case *registryv1.ControlServer:
		etag = m.GetEtag()
	case *registryv1.AffinityGroup:
		etag = m.GetEtag()
	case *operatorv1.AcceptedAgent:
		etag = m.GetAgent().GetEtag()
	case *availabilityv1.Maintenance:
		etag = m.GetManual().GetEtag()
	case *availabilityv1.PathStatus:
		etag = m.GetEtag()
	}
	if etag != "" {
		w.Header().Set("ETag", strconv.Quote(etag))
	}
	return nil
}

var asJSON = restserver.NewCompact(false)
