package agent

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/commandcenter/fleet/agent/internal/failover"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
)

// The version of the control servers' protocol that is spoken.
const protocolVersion = 1

// maxCallTimeout bounds one call of a control server.
const maxCallTimeout = 5 * time.Second

// register with a control server, which is a heartbeat too. It tells the bindings in any case: the control plane may have forgotten them
// with the agent.
func (f *follower) register(ctx context.Context, to *link, etag string) (failover.Answered, error) {
	key, err := f.cloud.enrolmentKey()
	if err != nil {
		return failover.Answered{}, &setupError{err}
	}
	f.pulse.sent = nil
	now := time.Now()
	beat := f.pulse.next(ctx, now)
	ctx, cancel := context.WithTimeout(ctx, f.callTimeout)
	defer cancel()
	answer, err := to.Register(ctx, &heartbeatv1.RegisterRequest{
		Heartbeat: beat, EnrolmentKey: key, Token: f.membership.token, ListEtag: etag,
		Protocols: &heartbeatv1.ProtocolRange{Min: protocolVersion, Max: protocolVersion},
	})
	if err != nil {
		return failover.Answered{}, err
	}
	f.pulse.delivered(beat, now)
	f.counters.registrations.Add(1)
	return failover.Answered{List: listOf(answer.GetFailoverList())}, nil
}

func (f *follower) heartbeat(ctx context.Context, to *link, etag string) (failover.Answered, error) {
	now := time.Now()
	beat := f.pulse.next(ctx, now)
	ctx, cancel := context.WithTimeout(ctx, f.callTimeout)
	defer cancel()
	answer, err := to.Heartbeat(ctx, &heartbeatv1.HeartbeatRequest{Heartbeat: beat, Token: f.membership.token, ListEtag: etag})
	if err != nil {
		return failover.Answered{}, err
	}
	f.pulse.delivered(beat, now)
	f.counters.heartbeatsAnswered.Add(1)
	return failover.Answered{List: listOf(answer.GetFailoverList()), Draining: answer.GetDraining()}, nil
}

// ask for the list of an agent that is heard over Service Bus.
func (f *follower) ask(ctx context.Context, to *link, etag string) (failover.Answered, error) {
	key, err := f.cloud.enrolmentKey()
	if err != nil {
		return failover.Answered{}, &setupError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, f.callTimeout)
	defer cancel()
	answer, err := to.GetFailoverList(ctx, &heartbeatv1.GetFailoverListRequest{Name: f.name, EnrolmentKey: key, ListEtag: etag})
	if err != nil {
		return failover.Answered{}, err
	}
	f.counters.listsAnswered.Add(1)
	return failover.Answered{List: listOf(answer.GetFailoverList())}, nil
}

// probe tells whether a control server takes agents, over a connection of its own.
func (f *follower) probe(ctx context.Context, endpoint string) bool {
	l, err := f.cloud.dial(endpoint)
	if err != nil {
		return false
	}
	defer l.conn.Close()
	ctx, cancel := context.WithTimeout(ctx, f.callTimeout)
	defer cancel()
	answer, err := l.Ping(ctx, &heartbeatv1.PingRequest{})
	if err != nil || !answer.GetTakesAgents() {
		return false
	}
	spoken := answer.GetProtocols()
	return spoken == nil || spoken.GetMin() <= protocolVersion && protocolVersion <= spoken.GetMax()
}

// listOf makes the list of what came; empty: none did.
func listOf(came *agentv1.FailoverList) failover.List {
	list := failover.List{Etag: came.GetEtag(), LongestPause: came.GetLongestPause().AsDuration()}
	for _, s := range came.GetServers() {
		list.Servers = append(list.Servers, failover.Server{Name: s.GetName(), Endpoint: s.GetGrpcEndpoint()})
	}
	return list
}

// setupError is that this machine's own set-up keeps the agent out.
type setupError struct{ error }

// Unwrap returns the cause.
func (e *setupError) Unwrap() error { return e.error }

// errorDomain of the control plane's reasons.
const errorDomain = "commandcenter"

// reasons are how the control plane's reasons lead on. All others, and errors without one, mean that somebody else is to be called.
var reasons = map[string]failover.Reason{
	"BUSY": failover.Busy, "DRAINING": failover.Draining,
	"NOT_REGISTERED": failover.Unregistered, "AGENT_NOT_FOUND": failover.Unregistered,
	"NOT_CLAIMABLE": failover.Refused, "IDENTITY_CONFLICT": failover.Refused, "INVALID_ARGUMENT": failover.Refused,
	"UNAUTHENTICATED": failover.Refused, "PERMISSION_DENIED": failover.Refused,
}

// failureOf reads why a call was not answered as hoped; enrols: the enrolment key went with it. A heartbeat with a token that is not the
// name's leads to a registration, since only that shows operators that there are two machines.
func failureOf(err error, enrols bool) failover.Failed {
	var own *setupError
	if errors.As(err, &own) {
		return failover.Failed{Why: failover.Refused, Detail: own.Error()}
	}
	answered := status.Convert(err)
	failed := failover.Failed{Detail: answered.Message()}
	for _, detail := range answered.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() != errorDomain {
				continue
			}
			failed.Why = reasons[d.GetReason()]
			if d.GetReason() == "UNAUTHENTICATED" && !enrols {
				failed.Why = failover.Unregistered
			}
		case *errdetails.RetryInfo:
			failed.RetryAfter = d.GetRetryDelay().AsDuration()
		}
	}
	return failed
}
