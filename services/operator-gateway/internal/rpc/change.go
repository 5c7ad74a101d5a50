package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
)

// changeTimeout is how long a change is waited for, whether or not its caller still waits, so that the audit line says how it
// ended. It ends before the deadline that the server sets for such calls (30 s), so that a caller who waits hears of it.
const changeTimeout = 25 * time.Second

// act is one change as the audit line tells it.
type act struct {
	logger *slog.Logger
	by     upstream // who makes it
	does   string
	fields renaming // of the fields that errors point at

	// What it is about; all are empty where it is about something else, or about many agents.
	agent, server, controlServer, group string
}

// String is the act in words.
func (a act) String() string {
	if subject := a.agent + a.server + a.controlServer + a.group; subject != "" {
		return fmt.Sprintf("%s %q", a.does, subject)
	}
	return a.does
}

// maxEtags is how often a change is asked for with another of the caller's etags. Each time the resource was changed in between.
const maxEtags = 3

// change asks an upstream for one change, once, and writes its audit line. It goes on when the caller goes away. Where the caller named
// several etags, and was refused because the present one is another of them, it asks with that one.
func change[Request, Response any](ctx context.Context, what act, call func(context.Context, *Request, ...grpc.CallOption) (*Response, error), request *Request) (*Response, error) {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
	defer cancel()
	var reached peer.Peer // stays empty where no connection was found to send the request over
	response, err := call(asking, request, grpc.Peer(&reached))
	if message, ok := any(request).(proto.Message); ok {
		for range maxEtags {
			if !otherEtag(ctx, message, err) {
				break
			}
			response, err = call(asking, request, grpc.Peer(&reached))
		}
	}
	err = what.by.changed(what.fields.of(err), what, reached.Addr != nil)
	audit(ctx, what, err)
	return response, err
}

// audit writes the line of a decision: who did what to whom, and how it ended.
func audit(ctx context.Context, what act, err error) {
	outcome := "done"
	attributes := []any{
		"principal", actor(ctx), "act", what.does, "agent", what.agent, "server", what.server, "control_server", what.controlServer, "group", what.group,
		"request_id", grpcserver.RequestID(ctx),
	}
	if err != nil {
		outcome = string(fault.From(err).Reason)
		attributes = append(attributes, "error", err.Error())
	}
	what.logger.InfoContext(ctx, "audit: decision", append(attributes, "outcome", outcome)...)
}

// actor is who asks, as decisions record it.
func actor(ctx context.Context) string {
	principal, _ := authn.PrincipalOf(ctx)
	return principal.Name
}
