package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Domain is the domain of every ErrorInfo.
const Domain = "commandcenter"

// Keys of ErrorInfo's metadata.
const (
	metadataAgent       = "agent"
	metadataCommandID   = "commandId"
	metadataCurrentEtag = "currentEtag"
)

// Field is one field at fault.
type Field struct {
	// Pointer is a JSON pointer into the request ("/createServer/url").
	Pointer string
	// Detail is the rule it breaks.
	Detail string
}

// Error says why a request was not done: what happened, what was and wasn't done, and what to do.
type Error struct {
	Reason      Reason
	Detail      string
	Agent       string
	CommandID   string
	CurrentEtag string
	Fields      []Field
	// RetryDelay is after what time the caller is asked to try again; zero means that the reason decides. See RetryAfter.
	RetryDelay time.Duration
	// Cause is for the log only; callers never see it.
	Cause error
}

// retryDelay is after what time a caller is asked to try again where nothing was sent or changed and nothing else is said.
const retryDelay = 5 * time.Second

// RetryAfter is after what time the caller is asked to try again: over gRPC in a google.rpc.RetryInfo, over REST as Retry-After.
// Zero means that nothing is said of it.
func (e *Error) RetryAfter() time.Duration {
	if e.RetryDelay == 0 && e.Reason.NothingSent() {
		return retryDelay
	}
	return e.RetryDelay
}

// New makes an error; the detail is shown to callers.
func New(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// Error implements error, for logs: it shows the cause too.
func (e *Error) Error() string {
	text := string(e.Reason) + ": " + e.Detail
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// WithAgent returns a copy that names the agent.
func (e *Error) WithAgent(name string) *Error { c := *e; c.Agent = name; return &c }

// WithCommand returns a copy that names the command.
func (e *Error) WithCommand(id string) *Error { c := *e; c.CommandID = id; return &c }

// WithEtag returns a copy that tells the current etag.
func (e *Error) WithEtag(etag string) *Error { c := *e; c.CurrentEtag = etag; return &c }

// WithRetry returns a copy that asks the caller to try again after a delay.
func (e *Error) WithRetry(delay time.Duration) *Error { c := *e; c.RetryDelay = delay; return &c }

// WithCause returns a copy that keeps the cause for the log.
func (e *Error) WithCause(cause error) *Error { c := *e; c.Cause = cause; return &c }

// WithField returns a copy with one more field at fault.
func (e *Error) WithField(pointer, detail string) *Error {
	c := *e
	c.Fields = append(append([]Field(nil), e.Fields...), Field{Pointer: pointer, Detail: detail})
	return &c
}

// Invalid is an INVALID_ARGUMENT about one field.
func Invalid(pointer, format string, args ...any) *Error {
	detail := fmt.Sprintf(format, args...)
	return New(InvalidArgument, "%s: %s; nothing was changed", pointer, detail).WithField(pointer, detail)
}

// GRPCStatus makes grpc-go answer with the reason's code and details.
func (e *Error) GRPCStatus() *status.Status {
	base := status.New(e.Reason.Code(), valid(e.Detail))
	metadata := map[string]string{}
	for key, value := range map[string]string{
		metadataAgent: e.Agent, metadataCommandID: e.CommandID, metadataCurrentEtag: e.CurrentEtag,
	} {
		if value != "" {
			metadata[key] = valid(value)
		}
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Domain: Domain, Reason: string(e.Reason), Metadata: metadata}}
	if len(e.Fields) > 0 {
		bad := &errdetails.BadRequest{}
		for _, field := range e.Fields {
			bad.FieldViolations = append(bad.FieldViolations,
				&errdetails.BadRequest_FieldViolation{Field: valid(field.Pointer), Description: valid(field.Detail)})
		}
		details = append(details, bad)
	}
	if after := e.RetryAfter(); after > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	with, err := base.WithDetails(details...)
	if err != nil { // cannot be: all are known messages and the code is not OK
		return base
	}
	return with
}

// valid makes a text fit for a message; one that is not UTF-8 would cost the caller all the details.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// From finds the *Error in err: itself, one carried by a gRPC status, or the nearest reason for anything else. Nil stays nil.
// A bare UNAVAILABLE is Internal: only the caller of a service knows which one it is, and whether anything was sent.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if answered, ok := status.FromError(err); ok {
		return fromStatus(answered, err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fromStatus(status.FromContextError(err), err)
	}
	return New(Internal, "unexpected; the cause is in the log under the request id").WithCause(err)
}

func fromStatus(answered *status.Status, cause error) *Error {
	found := &Error{Detail: answered.Message(), Cause: cause}
	for _, detail := range answered.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == Domain && Reason(d.GetReason()).Known() {
				found.Reason = Reason(d.GetReason())
				found.Agent = d.GetMetadata()[metadataAgent]
				found.CommandID = d.GetMetadata()[metadataCommandID]
				found.CurrentEtag = d.GetMetadata()[metadataCurrentEtag]
			}
		case *errdetails.RetryInfo:
			found.RetryDelay = d.GetRetryDelay().AsDuration()
		case *errdetails.BadRequest:
			for _, violation := range d.GetFieldViolations() {
				found.Fields = append(found.Fields, Field{Pointer: violation.GetField(), Detail: violation.GetDescription()})
			}
		}
	}
	if found.Reason != "" {
		return found
	}
	return withoutInfo(answered, found, cause)
}

// withoutInfo reads a status that did not come from our own table.
func withoutInfo(answered *status.Status, found *Error, cause error) *Error {
	switch answered.Code() {
	case codes.InvalidArgument:
		found.Reason = InvalidArgument
	case codes.Unauthenticated:
		found.Reason = Unauthenticated
	case codes.PermissionDenied:
		found.Reason = PermissionDenied
	case codes.Unimplemented:
		found.Reason = RouteNotFound
	case codes.DeadlineExceeded:
		return New(ReadTimeout, "the request's time ended before it was answered").WithCause(cause)
	case codes.Canceled:
		// Nobody is left to read it; it is no failure of ours either, and must not look like one in the log.
		return New(ReadTimeout, "the caller went away before it was answered").WithCause(cause)
	default:
		return New(Internal, "unexpected; the cause is in the log under the request id").WithCause(cause)
	}
	return found
}
