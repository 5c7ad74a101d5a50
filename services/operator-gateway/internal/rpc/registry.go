package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
)

// changeTimeout is how long a change is waited for, whether or not its caller still waits, so that the audit line says how it
// ended. It ends before the deadline that the server sets for such calls (30 s), so that a caller who waits hears of it.
const changeTimeout = 25 * time.Second

// Registry is the registry service as the gateway calls it.
type Registry struct {
	Agents  registryv1.AgentRegistryClient
	Servers registryv1.ServerCatalogClient
}

// GetAgent reads one agent; what is wrong is said in our callers' terms.
func (r Registry) GetAgent(ctx context.Context, name string) (*registryv1.GetAgentResponse, error) {
	known, err := r.Agents.GetAgent(ctx, &registryv1.GetAgentRequest{Name: name})
	return known, read(renamed(err), name)
}

// RecordHttpVerification stores what a ping showed.
func (r Registry) RecordHttpVerification(ctx context.Context, request *registryv1.RecordHttpVerificationRequest) (*registryv1.RecordHttpVerificationResponse, error) {
	return r.Agents.RecordHttpVerification(ctx, request)
}

// ClaimHttpVerifications asks for verifications to repeat.
func (r Registry) ClaimHttpVerifications(ctx context.Context, request *registryv1.ClaimHttpVerificationsRequest) (*registryv1.ClaimHttpVerificationsResponse, error) {
	return r.Agents.ClaimHttpVerifications(ctx, request)
}

// renamed points at the field that our callers fill in: what the registry calls name is agent to them.
func renamed(err error) error {
	found := fault.From(err)
	if found == nil || len(found.Fields) != 1 || found.Fields[0].Pointer != "/name" {
		return err
	}
	return fault.Invalid("/agent", "%s", found.Fields[0].Detail)
}

// act is one change as the audit line tells it.
type act struct {
	logger *slog.Logger
	does   string
	agent  string // empty where it is about a server, or about many agents
	server string
}

// String is the act in words.
func (a act) String() string {
	if subject := a.agent + a.server; subject != "" {
		return fmt.Sprintf("%s %q", a.does, subject)
	}
	return a.does
}

// change asks the registry for one change, once, and writes its audit line. It goes on when the caller goes away.
func change[Request, Response any](ctx context.Context, what act, call func(context.Context, *Request, ...grpc.CallOption) (*Response, error), request *Request) (*Response, error) {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
	defer cancel()
	var reached peer.Peer // stays empty where no connection was found to send the request over
	response, err := call(asking, request, grpc.Peer(&reached))
	err = changed(err, what, reached.Addr != nil)
	audit(ctx, what, err)
	return response, err
}

// audit writes the line of a decision: who did what to which agent or server, and how it ended.
func audit(ctx context.Context, what act, err error) {
	outcome := "done"
	attributes := []any{"principal", actor(ctx), "act", what.does, "agent", what.agent, "server", what.server, "request_id", grpcserver.RequestID(ctx)}
	if err != nil {
		outcome = string(fault.From(err).Reason)
		attributes = append(attributes, "error", err.Error())
	}
	what.logger.InfoContext(ctx, "audit: decision", append(attributes, "outcome", outcome)...)
}

// read says what an error of a read means: what the registry answered, or that it did not.
func read(err error, agent string) error {
	if err == nil {
		return nil
	}
	if passed := passed(err, agent); passed != nil {
		return passed
	}
	switch status.Code(err) {
	case codes.Canceled:
		return fault.From(err)
	case codes.DeadlineExceeded:
		return unavailable(err, agent, "the registry did not answer in time; nothing was changed")
	}
	return unavailable(err, agent, "the registry cannot be reached; nothing was changed")
}

// changed says what an error of a change means. Where the registry was asked and did not answer, the change may have been made.
func changed(err error, what act, reached bool) error {
	if err == nil {
		return nil
	}
	if passed := passed(err, what.agent); passed != nil {
		return passed
	}
	if !reached {
		return unavailable(err, what.agent, "the registry cannot be reached; nothing was changed")
	}
	return fault.New(fault.OutcomeUnknown, "the registry was asked to %s and did not answer: that may be done or not. It was not asked again; look at the present state before repeating it", what).
		WithAgent(what.agent).WithCause(err)
}

// passed is what the registry itself answered, for the caller; nil where it did not answer.
func passed(err error, agent string) error {
	found := fault.From(err)
	switch {
	case found.Reason == fault.Unauthenticated || found.Reason == fault.PermissionDenied:
		return unavailable(err, agent, "the registry does not accept the gateway's own credential (registry.tokenFile); nothing was changed")
	case status.Code(err) == codes.Unimplemented:
		return unavailable(err, agent, "the registry is older than this gateway and does not know the call; nothing was changed. Upgrade the registry first")
	case !Answered(err) || found.Reason == fault.ReadTimeout:
		return nil
	case found.Agent == "":
		return found.WithAgent(agent)
	}
	return found
}

func unavailable(cause error, agent, detail string) error {
	return fault.New(fault.RegistryUnavailable, "%s", detail).WithAgent(agent).WithCause(cause)
}

// Answered tells an error that a service of ours answered with from one that was made on the way.
func Answered(err error) bool {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == fault.Domain {
			return true
		}
	}
	return false
}

// actor is who asks, as decisions record it.
func actor(ctx context.Context) string {
	principal, _ := authn.PrincipalOf(ctx)
	return principal.Name
}
