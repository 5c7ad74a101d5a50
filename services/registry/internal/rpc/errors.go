package rpc

import (
	"context"
	"errors"

	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// mapped turns a domain error into the reason callers see. It is the only place that does.
func mapped(err error, agent string) error {
	if err == nil {
		return nil
	}
	found := reason(err)
	if found.Agent == "" {
		found.Agent = agent
	}
	return found
}

func reason(err error) *fault.Error {
	var (
		known         *fault.Error
		noAgent       *store.AgentNotFoundError
		noServer      *store.ServerNotFoundError
		severalServer *store.ServerAmbiguousError
		noEtag        *store.EtagRequiredError
		staleEtag     *store.StaleEtagError
		state         *store.StateError
		mismatch      *store.NameMismatchError
		taken         *store.NameTakenError
		linked        *store.LinkedError
		newName       *store.NewNameError
		notAstray     *store.NotAstrayError
		noRow         *store.NoServerToRelinkError
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &noAgent):
		return fault.New(fault.AgentNotFound, "%v; it appears with its first heartbeat, or when it is added by hand", noAgent)
	case errors.As(err, &noServer):
		return fault.New(fault.ServerNotFound, "%v; nothing was changed. Name an existing server, or give createServer with a URL", noServer)
	case errors.As(err, &severalServer):
		return fault.New(fault.ServerAmbiguous, "%v, so that none of them can be meant; nothing was changed. Show each by its key, GET /api/config/server-keys/{key}, and rename all but one, PATCH there", severalServer)
	case errors.As(err, &noEtag):
		return fault.New(fault.EtagRequired, "%v: read it, and send its etag (over REST as If-Match); nothing was changed", noEtag).WithEtag(noEtag.Current)
	case errors.As(err, &staleEtag):
		return fault.New(fault.StaleEtag, "%v; nothing was changed. Read it again and decide anew", staleEtag).WithEtag(staleEtag.Current)
	case errors.As(err, &state):
		return stateReason(state)
	case errors.As(err, &mismatch):
		return fault.New(fault.NameMismatch, "%v; an agent is linked only to the server of its own name, and nothing was changed", mismatch).WithAgent(mismatch.Agent)
	case errors.As(err, &taken):
		return fault.New(fault.NameTaken, "%v; nothing was changed", taken)
	case errors.As(err, &notAstray):
		return fault.New(fault.AlreadyDecided, "%v; nothing was changed", notAstray).WithAgent(notAstray.Name)
	case errors.As(err, &noRow):
		return fault.New(fault.ServerNotFound, "%v; nothing was changed. Make the row (POST /api/config/servers), or give it its name back, and relink the agent; "+
			"of a server that is decommissioned, reject the agent, and remove it", noRow).WithAgent(noRow.Agent)
	case errors.As(err, &newName):
		return fault.Invalid("/name", "%v; nothing was changed", newName.Rule)
	case errors.As(err, &linked):
		return fault.New(fault.InUse, "%v; nothing was changed", linked)
	}
	if found := cloudReason(err); found != nil {
		return found
	}
	var unwritten *sqldb.WriteError
	if errors.As(err, &unwritten) {
		return fault.New(fault.DatabaseReadOnly, "the registry's database takes no writes: %s; nothing was changed", unwritten.Problem).WithCause(err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fault.From(err)
	}
	if sqldb.Rejected(err) { // a rule of the tables that no check of ours knows, such as a constraint of the legacy ones
		return fault.New(fault.InvalidArgument, "the database refuses a value: %v; nothing was changed", err).WithCause(err)
	}
	if errors.Is(err, sqldb.ErrCommit) {
		return fault.New(fault.OutcomeUnknown, "the registry's database did not confirm the change: it is made or it is not. Look at the present state before repeating it").WithCause(err)
	}
	// What is left came from the database. Callers may ask again, and nothing was sent to any agent.
	return fault.New(fault.RegistryUnavailable, "the registry's database did not answer as it should; the cause is in the log under the request id").WithCause(err)
}

func stateReason(state *store.StateError) *fault.Error {
	if state.Refusal == enrollment.InUse {
		return fault.New(fault.InUse, "agent %q is accepted; reject it first, then remove it. Nothing was changed", state.Name).WithAgent(state.Name)
	}
	if state.Astray {
		return fault.New(fault.AlreadyDecided, "agent %q is %s already, by %s, and its link does not lead to the server of its name: relink it. Nothing was changed", state.Name, state.State, state.By).WithAgent(state.Name)
	}
	return fault.New(fault.AlreadyDecided, "agent %q is %s already, by %s; nothing was changed", state.Name, state.State, state.By).WithAgent(state.Name)
}
