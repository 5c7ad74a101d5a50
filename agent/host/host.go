// Package host is what an agent does on its machine: the interface between the SDK, which speaks to the control
// plane, and the code that speaks to Windows.
//
// Reads may run at any time, several at once and beside a write. The SDK runs at most one write at a time. Every
// call ends soon after its context does; what a write has changed by then stays changed and is returned.
package host

import (
	"context"
	"fmt"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// Host is one machine.
type Host interface {
	Services
	AppPools
	Certificates
	Installations
	Packages
	Bindings
}

// Services are the Windows services. Names are service names, not display names, compared case-insensitively.
//
// The writes return once the service has reached its new state, with what they changed: nothing, if it was there
// already. An unknown name is a *NotFoundError; a service that is in no state for it, such as a disabled one that is to be started or
// restarted, is a *StateError.
type Services interface {
	Services(ctx context.Context) ([]*agentv1.Service, error)
	StartService(ctx context.Context, name string) ([]*agentv1.Change, error)
	StopService(ctx context.Context, name string) ([]*agentv1.Change, error)
	RestartService(ctx context.Context, name string) ([]*agentv1.Change, error)
	// RestartsAgent says whether the agent itself runs as the service, so that restarting it ends the agent's process and
	// starts another. RestartService of such a one may return before that happens. It is called only after its answer
	// was sent; the next process completes it. Any other way of ending the agent, such as stopping its service or
	// updating it, leaves the outcome of what it was doing unknown.
	RestartsAgent(name string) bool
}

// AppPools are the IIS application pools. Names are compared case-insensitively; the rest is as for Services. Recycling a pool that is not
// started is a *StateError.
type AppPools interface {
	AppPools(ctx context.Context) ([]*agentv1.AppPool, error)
	StartAppPool(ctx context.Context, name string) ([]*agentv1.Change, error)
	StopAppPool(ctx context.Context, name string) ([]*agentv1.Change, error)
	RecycleAppPool(ctx context.Context, name string) ([]*agentv1.Change, error)
}

// Certificates is the machine's certificate store.
type Certificates interface {
	Certificates(ctx context.Context) ([]*agentv1.Certificate, error)
}

// Installations are the installed products. Uninstall takes an id; an unknown one is a *NotFoundError.
type Installations interface {
	Installations(ctx context.Context) ([]*agentv1.Installation, error)
	Uninstall(ctx context.Context, id string) ([]*agentv1.Change, error)
}

// Packages brings the machine's packages to exactly the wanted set; an empty one means the set the machine is
// configured with. It returns what it installed, changed and removed.
type Packages interface {
	SyncPackages(ctx context.Context, wanted []*agentv1.Package) ([]*agentv1.Change, error)
}

// Bindings are the IIS bindings, exactly as IIS has them, in its order.
type Bindings interface {
	Bindings(ctx context.Context) ([]*agentv1.IisBinding, error)
}

// NotFoundError says that what a command names does not exist on the host. Nothing was done.
type NotFoundError struct {
	Kind string // "service", "application pool", "installation"
	Name string // as the command gave it
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no %s %q on this host; nothing was done", e.Kind, e.Name)
}

// StateError says that what a command names is in a state that does not allow it. Nothing was done; once the state is another, the same
// command may be given again.
type StateError struct {
	Subject string // "service W3SVC"
	Detail  string // the state, and what it does not allow: "it is disabled, so it can't be started"
}

func (e *StateError) Error() string {
	return e.Subject + ": " + e.Detail + "; nothing was done"
}

// FailedError says that the host tried and failed. Errors of other types are reported as failures too.
type FailedError struct {
	Subject string // "service W3SVC"
	Detail  string // what happened, and the state it is in now
	Err     error  // the cause; may be nil
}

func (e *FailedError) Error() string {
	if e.Err == nil {
		return e.Subject + ": " + e.Detail
	}
	return e.Subject + ": " + e.Detail + ": " + e.Err.Error()
}

func (e *FailedError) Unwrap() error { return e.Err }
