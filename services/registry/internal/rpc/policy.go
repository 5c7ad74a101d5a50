package rpc

import "github.com/commandcenter/fleet/services/internal/authn"

const (
	agents  = "/commandcenter.registry.v1.AgentRegistry/"
	servers = "/commandcenter.registry.v1.ServerCatalog/"
	clouds  = "/commandcenter.registry.v1.ControlCloud/"
)

// Quiet names the calls that our own services make all the time.
func Quiet() []string {
	return []string{
		agents + "RecordHeartbeats", agents + "ReportIngestEvidence", agents + "GetAgent", agents + "ClaimHttpVerifications", agents + "ReadFleet",
		agents + "ReportCommandAnswer",
		clouds + "RenewControlServer", clouds + "GetFailoverList",
	}
}

// Policy says which of our services may call what. An admin, who holds a token for repairs by hand, may call everything.
func Policy() authn.Policy {
	heartbeats := []authn.Role{authn.Heartbeat, authn.Admin}
	availability := []authn.Role{authn.Availability, authn.Admin}
	readers := []authn.Role{authn.Gateway, authn.Heartbeat, authn.Admin}
	operators := []authn.Role{authn.Gateway, authn.Admin} // the gateway says itself which operator may do what
	return authn.Policy{
		agents + "RecordHeartbeats":        heartbeats,
		agents + "ReportIngestEvidence":    heartbeats,
		agents + "ReadFleet":               availability,
		agents + "GetAgent":                operators,
		agents + "ListAgents":              operators,
		agents + "ListUrlProposals":        operators,
		agents + "AddAgent":                operators,
		agents + "AcceptAgent":             operators,
		agents + "BatchAcceptAgents":       operators,
		agents + "RelinkAgent":             operators,
		agents + "BatchRelinkAgents":       operators,
		agents + "CountAstrayAgents":       operators,
		agents + "RejectAgent":             operators,
		agents + "UpdateAgent":             operators,
		agents + "RemoveAgent":             operators,
		agents + "ResolveIdentityConflict": operators,
		agents + "ResetToken":              operators,
		agents + "RecordHttpVerification":  operators,
		agents + "ClaimHttpVerifications":  operators,
		agents + "ReportCommandAnswer":     operators,
		servers + "ListServers":            operators,
		servers + "GetServer":              operators,
		servers + "CreateServer":           operators,
		servers + "UpdateServer":           operators,
		clouds + "RenewControlServer":      heartbeats,
		clouds + "LeaveCloud":              heartbeats,
		clouds + "ListControlServers":      readers,
		clouds + "ListAffinityGroups":      readers,
		clouds + "GetFailoverList":         readers,
		clouds + "ListPartitionEvents":     readers,
		clouds + "UpdateControlServer":     operators,
		clouds + "RemoveControlServer":     operators,
		clouds + "CreateAffinityGroup":     operators,
		clouds + "UpdateAffinityGroup":     operators,
		clouds + "DeleteAffinityGroup":     operators,
	}
}
