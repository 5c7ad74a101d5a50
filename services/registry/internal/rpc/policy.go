package rpc

import "github.com/commandcenter/fleet/services/internal/authn"

const (
	agents  = "/commandcenter.registry.v1.AgentRegistry/"
	servers = "/commandcenter.registry.v1.ServerCatalog/"
)

// Quiet names the calls that our own services make many times a second.
func Quiet() []string {
	return []string{agents + "RecordHeartbeats", agents + "ReportIngestEvidence", agents + "GetAgent", agents + "ClaimHttpVerifications"}
}

// Policy says which of our services may call what. An admin, who holds a token for repairs by hand, may call everything.
func Policy() authn.Policy {
	heartbeats := []authn.Role{authn.Heartbeat, authn.Admin}
	reads := []authn.Role{authn.Gateway, authn.Availability, authn.Admin}
	writes := []authn.Role{authn.Gateway, authn.Admin}
	return authn.Policy{
		agents + "RecordHeartbeats":        heartbeats,
		agents + "ReportIngestEvidence":    heartbeats,
		agents + "GetAgent":                reads,
		agents + "ListAgents":              reads,
		agents + "ListUrlProposals":        reads,
		agents + "AddAgent":                writes,
		agents + "AcceptAgent":             writes,
		agents + "BatchAcceptAgents":       writes,
		agents + "RejectAgent":             writes,
		agents + "UpdateAgent":             writes,
		agents + "RemoveAgent":             writes,
		agents + "ResolveIdentityConflict": writes,
		agents + "RecordHttpVerification":  writes,
		agents + "ClaimHttpVerifications":  writes,
		servers + "ListServers":            reads,
		servers + "GetServer":              reads,
		servers + "ListOfflineLog":         reads,
		servers + "CreateServer":           writes,
		servers + "UpdateServer":           writes,
	}
}
