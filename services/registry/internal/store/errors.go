package store

import (
	"fmt"

	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// AgentNotFoundError says that no agent has the name.
type AgentNotFoundError struct{ Name string }

func (e *AgentNotFoundError) Error() string { return fmt.Sprintf("there is no agent %q", e.Name) }

// ServerNotFoundError says that no server has the name, or the key.
type ServerNotFoundError struct {
	Name string
	Key  int64 // 0: it was asked for by name
}

func (e *ServerNotFoundError) Error() string {
	if e.Key != 0 {
		return fmt.Sprintf("there is no server with the ServerKey %d", e.Key)
	}
	return fmt.Sprintf("there is no server %q", e.Name)
}

// NewNameError says that a server would get a name that is not given any more.
type NewNameError struct {
	Name string
	Rule error
}

func (e *NewNameError) Error() string { return fmt.Sprintf("the server's name %+q %v", e.Name, e.Rule) }

// ServerAmbiguousError says that several servers have the name, so that none can be meant.
type ServerAmbiguousError struct {
	Name string
	Keys []int64
}

func (e *ServerAmbiguousError) Error() string {
	return fmt.Sprintf("%d servers are named %q (ServerKey %v)", len(e.Keys), e.Name, e.Keys)
}

// EtagRequiredError says that a change came without the etag of what it changes.
type EtagRequiredError struct{ Current string }

func (e *EtagRequiredError) Error() string { return "the etag of what is changed is required" }

// StaleEtagError says that what is changed was changed meanwhile.
type StaleEtagError struct{ Current string }

func (e *StaleEtagError) Error() string {
	return "it was changed meanwhile; its etag is now " + e.Current
}

// StateError says that an agent's state does not allow a decision.
type StateError struct {
	Name    string
	State   enrollment.State
	Refusal enrollment.Refusal
	By      string
	Astray  bool // its link does not lead to the server of its name
}

func (e *StateError) Error() string { return fmt.Sprintf("agent %q is %s", e.Name, e.State) }

// NameMismatchError says that an agent would be linked to a server of another name.
type NameMismatchError struct{ Agent, Server string }

func (e *NameMismatchError) Error() string {
	return fmt.Sprintf("agent %q and server %q have different names", e.Agent, e.Server)
}

// NameTakenError says that something of that name exists already.
type NameTakenError struct{ Kind, Name, Detail string }

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("%s %q exists already%s", e.Kind, e.Name, e.Detail)
}

// NotAstrayError says that an agent is linked to the server of its name, or to none, so that there is nothing to relink.
type NotAstrayError struct {
	Name   string
	Server *Server // nil: it is not linked
}

func (e *NotAstrayError) Error() string {
	if e.Server == nil {
		return fmt.Sprintf("agent %q is linked to no server; accepting it links it", e.Name)
	}
	return fmt.Sprintf("agent %q is linked to the server of its name already (ServerKey %d)", e.Name, e.Server.Key)
}

// NoServerToRelinkError says that TblServer has no row of an agent's name that it could be linked to.
type NoServerToRelinkError struct{ Agent string }

func (e *NoServerToRelinkError) Error() string {
	return fmt.Sprintf("agent %q cannot be relinked: TblServer has no row of its name", e.Agent)
}

// LinkedError says that a server belongs to another agent.
type LinkedError struct{ Server, Agent string }

func (e *LinkedError) Error() string {
	return fmt.Sprintf("server %q is linked to agent %q", e.Server, e.Agent)
}
