package authn

import (
	"context"
	"slices"
)

// Role is what a principal may do.
type Role string

// People and back-end callers: each includes the one before it.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
)

// Services of ours, for calls among them.
const (
	Heartbeat    Role = "heartbeat"
	Gateway      Role = "gateway"
	Availability Role = "availability"
)

// Agent is the role of agents, which present no token of ours here: no entry of a token file can have it.
const Agent Role = "agent"

var roles = []Role{Viewer, Operator, Admin, Heartbeat, Gateway, Availability}

var rank = map[Role]int{Viewer: 1, Operator: 2, Admin: 3}

// Includes tells whether a principal of this role may do what needs the other.
func (r Role) Includes(needed Role) bool {
	if r == needed {
		return true
	}
	return rank[needed] > 0 && rank[r] > rank[needed]
}

// Principal is who calls.
type Principal struct {
	Name string
	Role Role
}

// LocalPrincipal is everybody, where no token file is configured; only loopback is served then.
var LocalPrincipal = Principal{Name: "local", Role: Admin}

// AgentPrincipal is every agent, before a method has looked at what its request presents.
var AgentPrincipal = Principal{Name: "agent", Role: Agent}

type principalKey struct{}

// WithPrincipal returns a context that carries who calls.
func WithPrincipal(ctx context.Context, principal Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, principal)
}

// PrincipalOf tells who calls; false outside an authenticated call.
func PrincipalOf(ctx context.Context) (Principal, bool) {
	principal, ok := ctx.Value(principalKey{}).(Principal)
	return principal, ok
}

// Policy says which roles may call a method, by its full gRPC name ("/package.Service/Method").
type Policy map[string][]Role

// Allows tells whether the role may call the method. A method that is missing from the table is allowed to nobody.
func (p Policy) Allows(method string, role Role) bool {
	return slices.ContainsFunc(p[method], role.Includes)
}
