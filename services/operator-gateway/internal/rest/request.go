package rest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/restserver"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/rpc"
)

// request is what is kept beside a request while it is served.
type request struct {
	id        string
	startedAt time.Time
	method    string
	route     string // the template; empty where none matches
	body      []byte
	given     []protoreflect.FieldDescriptor // by the path
	read      *restserver.Reading
	called    bool // a service answered the call, and logged it
	failure   *fault.Error
}

type requestKey struct{}

func requestOf(ctx context.Context) *request {
	kept, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return &request{}
	}
	return kept
}

// changes tells methods after which something may be different.
func changes(method string) bool { return method != http.MethodGet && method != http.MethodHead }

// noting calls the services, and notes whether one answered.
type noting struct{ grpc.ClientConnInterface }

// Invoke implements grpc.ClientConnInterface.
func (n noting) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	kept := requestOf(ctx)
	err := n.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	kept.called = err == nil || rpc.Answered(err)
	if kept.called || !changes(kept.method) {
		return err
	}
	// The caller's time ended, or the caller went away, before the service could say how it went.
	return fault.New(fault.OutcomeUnknown, "the request's time ended before it was answered: it may have been carried out. Look at the present state before repeating it").WithCause(err)
}

// answer remembers the status it was given.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(content []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(content)
}

// Unwrap lets http.ResponseController reach what is below.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func newDuration(metrics prometheus.Registerer) *prometheus.HistogramVec {
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "commandcenter_rest_duration_seconds",
		Help:    "Time to answer a REST request, by route, method and status.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"route", "method", "status"})
	metrics.MustRegister(duration)
	return duration
}

var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// record counts the request, and logs it unless a gRPC service answered it and did: one line per request.
func (h *handler) record(w *answer, r *http.Request, kept *request) {
	took := time.Since(kept.startedAt)
	method := kept.method
	if !slices.Contains(knownMethods, method) {
		method = "other" // callers must not make up time series
	}
	h.duration.WithLabelValues(kept.route, method, strconv.Itoa(w.status)).Observe(took.Seconds())
	if kept.called {
		return
	}
	level := slog.LevelInfo
	attributes := []slog.Attr{
		slog.String("method", kept.method), slog.String("path", r.URL.Path), slog.String("route", kept.route), slog.Int("status", w.status),
		slog.Duration("duration", took), slog.String("request_id", kept.id), slog.String("peer", r.RemoteAddr),
	}
	if kept.failure != nil {
		attributes = append(attributes, slog.String("reason", string(kept.failure.Reason)), slog.String("error", kept.failure.Error()))
		if kept.failure.Reason == fault.Internal {
			level = slog.LevelError
		}
	}
	h.logger.LogAttrs(r.Context(), level, "rest request", attributes...)
}

// recovered answers a panic of our own as any other error.
func (h *handler) recovered(w *answer, kept *request) {
	caught := recover()
	if caught == nil {
		return
	}
	kept.called = false // so that it is logged
	kept.failure = fault.New(fault.Internal, "unexpected; the cause is in the log under the request id").WithCause(fmt.Errorf("panic: %v\n%s", caught, debug.Stack()))
	if w.status == 0 {
		restserver.WriteProblem(w, kept.id, kept.failure)
	}
}
