package command

import (
	"context"
	"time"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// Target is the agent a command goes to, as the registry has it.
type Target struct {
	Name     string // first spelling
	Reported string // latest spelling; messages are addressed so
	BaseURL  string
	Verified bool // whether the base URL was verified, so that a shared credential may go there
}

// Transport sends one command once, and waits for its answer until the context ends.
//
// Prepare does what may take a while before anything is sent. Send calls still once, when nothing is left but to send, and sends
// nothing if that returns an error. An error is a *NotSent when surely nothing was sent; any other error leaves open whether the
// agent got the command.
type Transport interface {
	Prepare(ctx context.Context) error
	Send(ctx context.Context, target Target, command *agentv1.Command, still Still) (*agentv1.CommandResult, error)
}

// Still reports until when the command may begin to go where it was decided to go; an error, which is a *NotSent, means that it may
// not go at all. A transport that could begin only later sends nothing, and returns a *NotSent that is Expired.
type Still func(context.Context) (until time.Time, err error)

// NotSent says that nothing was sent, and why.
type NotSent struct {
	Reason fault.Reason
	Detail string
	Cause  error
	// Expired: by the time it could be sent the decision was too old, or another; decide again.
	Expired bool
	// Unreachable: the agent itself could not be connected to.
	Unreachable bool
}

func (e *NotSent) Error() string {
	if e.Cause != nil {
		return e.Detail + ": " + e.Cause.Error()
	}
	return e.Detail
}

func (e *NotSent) Unwrap() error { return e.Cause }

// NoAnswer says that the command was sent, and that no answer came before the context ended.
type NoAnswer struct {
	// RepliesCome: replies are known to reach this gateway, so that the silence is the agent's.
	RepliesCome bool
	Cause       error // the context's
}

func (e *NoAnswer) Error() string { return "no answer came: " + e.Cause.Error() }

func (e *NoAnswer) Unwrap() error { return e.Cause }
