package rpc

import (
	"strings"
	"time"

	"github.com/commandcenter/fleet/services/internal/authn"
)

const (
	operations   = "/commandcenter.operator.v1.AgentOperations/"
	agents       = "/commandcenter.operator.v1.AgentConfig/"
	servers      = "/commandcenter.operator.v1.ServerConfig/"
	availability = "/commandcenter.operator.v1.AvailabilityConfig/"
	cloud        = "/commandcenter.operator.v1.CloudConfig/"
)

// Policy says which role each method needs. A viewer reads; an operator makes agents act, decides about them, plans maintenance, says how
// agents are spread over control servers and, since that cannot wait for morning, orders brakes; an admin also edits the server catalog,
// removes agents and control servers, and settles whose name it is: resolves identity conflicts and resets tokens. Each role includes
// the one before it.
func Policy() authn.Policy {
	viewer, operator, admin := []authn.Role{authn.Viewer}, []authn.Role{authn.Operator}, []authn.Role{authn.Admin}
	return authn.Policy{
		operations + "ListAgents":        viewer,
		operations + "GetRoute":          viewer,
		operations + "ListInstallations": viewer,
		operations + "ListServices":      viewer,
		operations + "ListAppPools":      viewer,
		operations + "ListCertificates":  viewer,
		operations + "GetCommand":        viewer,
		operations + "Uninstall":         operator,
		operations + "StartService":      operator,
		operations + "StopService":       operator,
		operations + "RestartService":    operator,
		operations + "StartAppPool":      operator,
		operations + "StopAppPool":       operator,
		operations + "RecycleAppPool":    operator,
		operations + "SyncPackages":      operator,
		operations + "BatchRun":          operator,

		agents + "ListAgents":              viewer,
		agents + "GetAgent":                viewer,
		agents + "ListUrlProposals":        viewer,
		agents + "AddAgent":                operator,
		agents + "AcceptAgent":             operator,
		agents + "BatchAcceptAgents":       operator,
		agents + "RelinkAgent":             operator,
		agents + "BatchRelinkAgents":       operator,
		agents + "RejectAgent":             operator,
		agents + "UpdateAgent":             operator,
		agents + "VerifyHttp":              operator,
		agents + "RemoveAgent":             admin,
		agents + "ResolveIdentityConflict": admin,
		agents + "ResetToken":              admin,

		servers + "ListServers":       viewer,
		servers + "GetServer":         viewer,
		servers + "GetServerByKey":    viewer,
		servers + "ListOfflineLog":    viewer,
		servers + "CreateServer":      admin,
		servers + "UpdateServer":      admin,
		servers + "UpdateServerByKey": admin,

		availability + "GetOverview":              viewer,
		availability + "ListAvailability":         viewer,
		availability + "GetAvailability":          viewer,
		availability + "WatchAvailability":        viewer,
		availability + "GetMaintenance":           viewer,
		availability + "ListMaintenanceWindows":   viewer,
		availability + "PreviewMaintenanceWindow": viewer,
		availability + "SetMaintenance":           operator,
		availability + "ClearMaintenance":         operator,
		availability + "CreateMaintenanceWindow":  operator,
		availability + "DeleteMaintenanceWindow":  operator,
		availability + "OrderBrake":               operator,

		cloud + "ListControlServers":   viewer,
		cloud + "ListAffinityGroups":   viewer,
		cloud + "GetFailoverList":      viewer,
		cloud + "ListPartitionEvents":  viewer,
		cloud + "SetControlServerMode": operator,
		cloud + "UpdateControlServer":  operator,
		cloud + "CreateAffinityGroup":  operator,
		cloud + "UpdateAffinityGroup":  operator,
		cloud + "DeleteAffinityGroup":  operator,
		cloud + "RemoveControlServer":  admin,
	}
}

// Deadlines give a command its whole budget; it ends by itself a little earlier, and says how. A batch has many, and a watch goes on.
func Deadlines(budget time.Duration) map[string]time.Duration {
	deadlines := map[string]time.Duration{}
	for method := range Policy() {
		if strings.HasPrefix(method, operations) {
			deadlines[method] = budget + 5*time.Second
		}
	}
	deadlines[operations+"BatchRun"] = batchDeadline
	deadlines[availability+"WatchAvailability"] = watchDeadline
	return deadlines
}
