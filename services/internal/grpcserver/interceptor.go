package grpcserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"buf.build/go/protovalidate"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// RequestIDHeader carries a request's id, in metadata and in HTTP headers.
const RequestIDHeader = "x-request-id"

var requestIDs = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

type requestIDKey struct{}

// RequestID is the id of the request in ctx; empty outside one.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// NewRequestID takes the caller's id if it is well formed, and makes one otherwise.
func NewRequestID(given string) string {
	if requestIDs.MatchString(given) {
		return given
	}
	return rand.Text()
}

// chain is what every call goes through, in the order of the methods below.
type chain struct {
	tokens    *authn.Tokens
	policy    authn.Policy
	logger    *slog.Logger
	deadlines map[string]time.Duration
	quiet     []string
	validator protovalidate.Validator
	duration  *prometheus.HistogramVec
}

func newChain(opts Options) (*chain, error) {
	validator, err := protovalidate.New()
	if err != nil {
		return nil, err
	}
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "commandcenter_grpc_server_duration_seconds",
		Help:    "Time to answer a gRPC call, by method and code.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"method", "code"})
	if opts.Metrics != nil {
		if err := opts.Metrics.Register(duration); err != nil {
			return nil, err
		}
	}
	return &chain{
		tokens: opts.Tokens, policy: opts.Policy, logger: opts.Logger,
		deadlines: opts.Deadlines, quiet: opts.Quiet, validator: validator, duration: duration,
	}, nil
}

func (c *chain) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	var response any
	err := c.around(ctx, info.FullMethod, func(ctx context.Context) error {
		if err := c.validate(request); err != nil {
			return err
		}
		var err error
		response, err = handler(ctx, request)
		return err
	})
	return response, err
}

func (c *chain) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return c.around(stream.Context(), info.FullMethod, func(ctx context.Context) error {
		return handler(service, &contextStream{ServerStream: stream, ctx: ctx, validate: c.validate})
	})
}

// around does for every call what comes before and after its handler.
func (c *chain) around(ctx context.Context, method string, call func(context.Context) error) error {
	if open(strings.TrimPrefix(method, "/")) {
		return call(ctx)
	}
	startedAt := time.Now()
	incoming, _ := metadata.FromIncomingContext(ctx)
	id := NewRequestID(first(incoming, RequestIDHeader))
	ctx = context.WithValue(ctx, requestIDKey{}, id)
	principal, err := c.authenticate(incoming)
	if err == nil {
		err = c.authorised(ctx, method, principal, call)
	}
	c.observe(ctx, method, principal, startedAt, err)
	return asStatus(err)
}

func (c *chain) authorised(ctx context.Context, method string, principal authn.Principal, call func(context.Context) error) error {
	if !c.policy.Allows(method, principal.Role) {
		return fault.New(fault.PermissionDenied, "%s has the role %s, which may not call %s; nothing was done", principal.Name, principal.Role, method)
	}
	deadline, ok := c.deadlines[method]
	if !ok {
		deadline = defaultDeadline
	}
	ctx, cancel := context.WithTimeout(authn.WithPrincipal(ctx, principal), deadline)
	defer cancel()
	return recovered(ctx, call)
}

func (c *chain) authenticate(incoming metadata.MD) (authn.Principal, error) {
	if !c.tokens.Required() {
		everybody, _ := c.tokens.Authenticate("")
		return everybody, nil
	}
	scheme, token, found := strings.Cut(first(incoming, "authorization"), " ")
	if !found || !strings.EqualFold(scheme, "bearer") {
		return authn.Principal{}, fault.New(fault.Unauthenticated, "a bearer token is required: send Authorization: Bearer <token>; nothing was done")
	}
	principal, ok := c.tokens.Authenticate(token)
	if !ok {
		return authn.Principal{}, fault.New(fault.Unauthenticated, "the bearer token is not known; nothing was done")
	}
	return principal, nil
}

func (c *chain) observe(ctx context.Context, method string, principal authn.Principal, startedAt time.Time, err error) {
	took := time.Since(startedAt)
	code := status.Code(asStatus(err))
	c.duration.WithLabelValues(method, code.String()).Observe(took.Seconds())
	level := slog.LevelInfo
	attributes := []slog.Attr{
		slog.String("method", method), slog.String("code", code.String()), slog.String("principal", principal.Name),
		slog.Duration("duration", took), slog.String("request_id", RequestID(ctx)),
	}
	if from, ok := peer.FromContext(ctx); ok {
		attributes = append(attributes, slog.String("peer", from.Addr.String()))
	}
	if err != nil {
		attributes = append(attributes, slog.String("reason", string(fault.From(err).Reason)), slog.String("error", err.Error()))
		if code == codes.Internal {
			level = slog.LevelError
		}
	} else if slices.Contains(c.quiet, method) {
		level = slog.LevelDebug
	}
	c.logger.LogAttrs(ctx, level, "grpc call", attributes...)
}

func recovered(ctx context.Context, call func(context.Context) error) (err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = fault.New(fault.Internal, "unexpected; the cause is in the log under the request id").
				WithCause(fmt.Errorf("panic: %v\n%s", caught, debug.Stack()))
		}
	}()
	return call(ctx)
}

// asStatus makes sure that callers see a reason and never an internal cause.
func asStatus(err error) error {
	if err == nil {
		return nil
	}
	return fault.From(err).GRPCStatus().Err()
}

func (c *chain) validate(request any) error {
	message, ok := request.(proto.Message)
	if !ok {
		return nil
	}
	err := c.validator.Validate(message)
	if err == nil {
		return nil
	}
	var violations *protovalidate.ValidationError
	if !errors.As(err, &violations) {
		return err
	}
	return invalid(message.ProtoReflect().Descriptor(), violations)
}

func invalid(message protoreflect.MessageDescriptor, violations *protovalidate.ValidationError) *fault.Error {
	var texts []string
	found := fault.New(fault.InvalidArgument, "")
	for _, violation := range violations.Violations {
		path := violation.Proto.GetField().GetElements()
		pointer, detail := pointerOf(path), ruleText(fieldOf(message, path), violation)
		texts = append(texts, pointer+": "+detail)
		found = found.WithField(pointer, detail)
	}
	found.Detail = strings.Join(texts, "; ") + "; nothing was changed"
	return found
}

// ruleText says which rule is broken. The texts of some rules speak of numbers or of regular expressions, which no caller knows.
func ruleText(field protoreflect.FieldDescriptor, violation *protovalidate.Violation) string {
	rule := violation.Proto.GetRuleId()
	switch {
	case strings.HasPrefix(rule, "enum.") && field != nil && field.Enum() != nil:
		return "must be " + fault.Choices(field.Enum())
	case rule == "string.pattern" || rule == "bytes.pattern":
		return "does not have the form that its description gives"
	case (rule == "string.min_len" || rule == "bytes.min_len" || rule == "repeated.min_items") && violation.RuleValue.IsValid() && violation.RuleValue.Uint() == 1:
		return "must not be empty"
	}
	return violation.Proto.GetMessage()
}

func first(md metadata.MD, key string) string {
	if values := md.Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

type contextStream struct {
	grpc.ServerStream
	ctx      context.Context
	validate func(any) error
}

func (s *contextStream) Context() context.Context { return s.ctx }

func (s *contextStream) RecvMsg(message any) error {
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	return s.validate(message)
}
