package rpc

import (
	"errors"

	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// cloudReason is the reason of an error about control servers; nil for any other.
func cloudReason(err error) *fault.Error {
	var (
		refusal   *cloud.Refusal
		noControl *store.ControlServerNotFoundError
		noGroup   *store.GroupNotFoundError
		noAgents  *store.UnknownAgentsError
	)
	switch {
	case errors.As(err, &refusal):
		return refusalReason(refusal)
	case errors.As(err, &noControl):
		return fault.New(fault.ControlServerNotFound, "%v; nothing was changed. A control server appears when it joins", noControl)
	case errors.As(err, &noGroup):
		return fault.New(fault.GroupNotFound, "%v; nothing was changed", noGroup)
	case errors.As(err, &noAgents):
		return fault.New(fault.AgentNotFound, "%v; nothing was changed", noAgents).WithAgent(noAgents.Names[0])
	}
	return nil
}

// pointers are the fields of a request that a candidate's fields come from.
var pointers = map[string]string{"name": "/name", "endpoints": "/grpcEndpoint", "protocols": "/protocolMin"}

var refusals = map[cloud.Reason]fault.Reason{
	cloud.NameTaken: fault.NameTaken, cloud.EndpointTaken: fault.EndpointTaken, cloud.ProtocolsApart: fault.ProtocolsApart, cloud.InUse: fault.InUse,
}

func refusalReason(refusal *cloud.Refusal) *fault.Error {
	if refusal.Reason == cloud.Invalid {
		return fault.Invalid(pointers[refusal.Field], "%v", refusal)
	}
	return fault.New(refusals[refusal.Reason], "%v; nothing was changed", refusal)
}
