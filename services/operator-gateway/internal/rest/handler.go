package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	contracts "github.com/commandcenter/fleet/proto"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/rpc"
)

// MaxBodyBytes bounds a request's body.
const MaxBodyBytes = 1 << 20

// Options is what the handler is made of.
type Options struct {
	// Conn leads to the gRPC services, within the process.
	Conn   *grpc.ClientConn
	Logger *slog.Logger
	// LoopbackOnly refuses other host names, since without tokens any page in a local browser could call.
	LoopbackOnly bool
}

// NewHandler makes the REST handler.
func NewHandler(ctx context.Context, options Options) (http.Handler, error) {
	routes, err := readRoutes(contracts.OpenAPI)
	if err != nil {
		return nil, err
	}
	h := &handler{options: options, routes: routes, crossOrigin: http.NewCrossOriginProtection()}
	h.mux = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, compact{&runtime.JSONPb{
			// Lists and plain values are there even when empty, so that callers need no special cases.
			MarshalOptions:   protojson.MarshalOptions{EmitDefaultValues: true},
			UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: false},
		}}),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptReserved),
		runtime.WithErrorHandler(h.fail),
		runtime.WithRoutingErrorHandler(h.unrouted),
		runtime.WithForwardResponseOption(respond),
		runtime.WithMetadata(annotate),
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.SetQueryParameterParser(strictQuery{}),
		runtime.WithDisablePathLengthFallback(),
	)
	for _, register := range []func(context.Context, *runtime.ServeMux, *grpc.ClientConn) error{
		operatorv1.RegisterAgentOperationsHandler, operatorv1.RegisterAgentConfigHandler, operatorv1.RegisterServerConfigHandler,
	} {
		if err := register(ctx, h.mux, options.Conn); err != nil {
			return nil, err
		}
	}
	return h, nil
}

type handler struct {
	options     Options
	mux         *runtime.ServeMux
	routes      routes
	crossOrigin *http.CrossOriginProtection
}

type requestKey struct{}

// request is what is kept beside a request: its id, and its body for pointing into it.
type request struct {
	id   string
	body []byte
}

func requestOf(ctx context.Context) request {
	found, _ := ctx.Value(requestKey{}).(request)
	return found
}

func bodyOf(ctx context.Context) []byte { return requestOf(ctx).body }

// ServeHTTP checks what is the same for every route, and hands on.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kept := request{id: grpcserver.NewRequestID(r.Header.Get("X-Request-Id"))}
	w.Header().Set("X-Request-Id", kept.id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if refused := h.admit(r); refused != nil {
		h.refuse(w, r, kept.id, refused)
		return
	}
	switch r.URL.Path {
	case "/openapi.json":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(contracts.OpenAPI)
		return
	case "/":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, "CommandCenter agent fleet\n\n/openapi.json describes the interface; /api/agents lists the agents that take commands.\n")
		return
	}
	body, refused := readBody(w, r)
	if refused != nil {
		h.refuse(w, r, kept.id, refused)
		return
	}
	kept.body = body
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, kept))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	h.mux.ServeHTTP(w, r)
}

// admit refuses calls that a page of another origin makes from somebody's browser.
func (h *handler) admit(r *http.Request) *fault.Error {
	if err := h.crossOrigin.Check(r); err != nil {
		return fault.New(fault.PermissionDenied, "calls from pages of another origin are refused; nothing was done").WithCause(err)
	}
	if h.options.LoopbackOnly && !loopbackHost(r.Host) {
		return fault.New(fault.PermissionDenied, "without a token file only loopback is served, and %q is not a loopback host; nothing was done", r.Host)
	}
	return nil
}

func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || (err == nil && ip.IsLoopback())
}

// readBody reads the body whole: it must be one JSON value, or nothing.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *fault.Error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, fault.New(fault.BodyTooLarge, "the body is larger than %d bytes; nothing was done", MaxBodyBytes)
	case err != nil:
		return nil, fault.New(fault.InvalidArgument, "the body broke off; nothing was done").WithCause(err)
	case len(bytes.TrimSpace(body)) == 0:
		return nil, nil
	}
	var syntax *json.SyntaxError
	var discard json.RawMessage
	if err := json.Unmarshal(body, &discard); errors.As(err, &syntax) {
		detail := fmt.Sprintf("the body is not JSON: %v at byte %d", syntax, syntax.Offset)
		return nil, fault.New(fault.InvalidArgument, "%s; nothing was done", detail).WithField("/", detail)
	}
	return body, nil
}

// refuse answers and logs what never reaches the gRPC services; those log their calls themselves.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, id string, err *fault.Error) {
	h.options.Logger.Info("rest request refused", "method", r.Method, "path", r.URL.Path, "reason", err.Reason, "request_id", id, "error", err)
	writeProblem(w, id, err)
}

// fail answers an error of a call, or of the gateway's own reading of the request.
func (h *handler) fail(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	writeProblem(w, requestOf(r.Context()).id, pointed(r.Context(), fault.From(err)))
}

// unrouted answers paths and methods that lead nowhere.
func (h *handler) unrouted(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, status int) {
	id := requestOf(r.Context()).id
	allowed := h.routes.allowed(r.URL.EscapedPath())
	switch {
	case len(allowed) > 0 && !slices.Contains(allowed, r.Method):
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		h.refuse(w, r, id, fault.New(fault.MethodNotAllowed, "%s is not a method of %s, which has %s; nothing was done", r.Method, r.URL.Path, strings.Join(allowed, ", ")))
	case status == http.StatusBadRequest:
		h.refuse(w, r, id, fault.New(fault.InvalidArgument, "the path cannot be read; nothing was done").WithField("#/path", "is not a valid escaped path"))
	default:
		h.refuse(w, r, id, fault.New(fault.RouteNotFound, "there is no route %s; /openapi.json lists them. Nothing was done", r.URL.Path))
	}
}

// annotate passes on what the gRPC services need to know of the HTTP request.
func annotate(_ context.Context, r *http.Request) metadata.MD {
	md := metadata.Pairs(grpcserver.RequestIDHeader, requestOf(r.Context()).id)
	if match := r.Header.Get("If-Match"); match != "" {
		md.Set(rpc.IfMatch, match)
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
	case *operatorv1.AcceptedAgent:
		etag = m.GetAgent().GetEtag()
	}
	if etag != "" {
		w.Header().Set("ETag", strconv.Quote(etag))
	}
	return nil
}

// compact writes JSON without the blanks that protojson varies from build to build.
type compact struct{ *runtime.JSONPb }

// Marshal implements runtime.Marshaler.
func (c compact) Marshal(value any) ([]byte, error) {
	loose, err := c.JSONPb.Marshal(value)
	if err != nil {
		return nil, err
	}
	var tight bytes.Buffer
	tight.Grow(len(loose))
	if err := json.Compact(&tight, loose); err != nil {
		return nil, err
	}
	return tight.Bytes(), nil
}

// strictQuery refuses query parameters that the route does not have, instead of ignoring a misspelt filter.
type strictQuery struct{}

// Parse implements runtime.QueryParameterParser.
func (strictQuery) Parse(message proto.Message, values url.Values, filter *utilities.DoubleArray) error {
	fields := message.ProtoReflect().Descriptor().Fields()
	for key := range values {
		name, _, _ := strings.Cut(key, ".")
		if fields.ByJSONName(name) == nil && fields.ByTextName(name) == nil {
			return fmt.Errorf("query parameter %q is not known", key)
		}
	}
	return (&runtime.DefaultQueryParser{}).Parse(message, values, filter)
}
