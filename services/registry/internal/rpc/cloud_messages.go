package rpc

import (
	"fmt"
	"slices"
	"strings"
	"time"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

var states = map[cloud.State]registryv1.ControlServerState{
	cloud.Normal:      registryv1.ControlServerState_CONTROL_SERVER_STATE_NORMAL,
	cloud.Suspect:     registryv1.ControlServerState_CONTROL_SERVER_STATE_SUSPECT,
	cloud.Evicted:     registryv1.ControlServerState_CONTROL_SERVER_STATE_EVICTED,
	cloud.Draining:    registryv1.ControlServerState_CONTROL_SERVER_STATE_DRAINING,
	cloud.Maintenance: registryv1.ControlServerState_CONTROL_SERVER_STATE_MAINTENANCE,
}

func (s *Cloud) controlServerMessage(c store.ControlServer) *registryv1.ControlServer {
	grpc, rest := store.Addresses(c.Endpoints)
	message := &registryv1.ControlServer{
		Name: c.Name, GrpcEndpoint: grpc, RestEndpoint: rest, Version: c.Version, ProtocolMin: int32(c.Protocols.Min), ProtocolMax: int32(c.Protocols.Max),
		Mode: registryv1.ControlServerMode(c.Mode), State: states[c.State], Weight: int32(c.Weight), Standby: c.Standby, AffinityGroup: c.GroupName,
		RenewedAt: instant(c.RenewedAt), AgentsAssigned: int32(c.Assigned), AgentsConnected: int32(c.Connected), ChangedBy: c.ChangedBy, Etag: c.Etag(),
		ClockSkew: skewMessage(c.ClockSkew),
	}
	if c.State == cloud.Draining {
		message.DrainEndsAt = instant(s.Store.DrainEndsAt(c))
	}
	return message
}

func groupMessage(g store.Group, judged cloud.Membership) *registryv1.AffinityGroup {
	return &registryv1.AffinityGroup{
		Name: g.Name, Agents: int32(g.Agents), ControlServers: g.ControlServers, Warning: groupCaution(g, judged), Etag: g.Etag(),
	}
}

func eventMessage(e cloud.Event) *registryv1.PartitionEvent {
	message := &registryv1.PartitionEvent{
		Epoch: e.Epoch, At: instant(e.At), Agents: int32(e.Agents), Placed: int32(e.Placed),
		PrimariesMoved: int32(e.PrimariesMoved), SecondariesMoved: int32(e.SecondariesMoved),
	}
	for _, c := range e.Causes {
		message.Causes = append(message.Causes, &registryv1.PartitionCause{Cause: string(c.Cause), ControlServer: c.Name, From: c.From, To: c.To, Actor: c.Actor})
	}
	return message
}

// cautions tell what is unusual about the cloud.
func cautions(judged cloud.Membership) []string {
	var found []string
	if versions := judged.Versions(); len(versions) > 1 {
		var parts []string
		for _, v := range versions {
			parts = append(parts, fmt.Sprintf("%s (%s)", v.Version, strings.Join(v.Servers, ", ")))
		}
		found = append(found, "the control servers run different versions, as during an upgrade: "+strings.Join(parts, "; "))
	}
	if judged.Frozen() {
		found = append(found, fmt.Sprintf("evictions are held since %s, because more than half of the control servers fell silent at once: see whether they run and reach the registry",
			judged.FrozenSince.Format(time.RFC3339)))
	}
	switch eligible := judged.Eligible(); {
	case len(eligible) == 1:
		found = append(found, fmt.Sprintf("%q is the only control server in the lists: if it fails, direct agents have nowhere to go", eligible[0].Name))
	case len(eligible) == 0 && len(judged.Members) > 0:
		found = append(found, cloud.ErrNobody.Error())
	}
	return found
}

// skewCautions name the control servers whose clocks differ from the database's by more than they should.
func skewCautions(overview store.Overview) []string {
	var found []string
	for _, server := range overview.Servers {
		if skew := server.ClockSkew; server.State == cloud.Normal && skew.Notable() {
			found = append(found, fmt.Sprintf("the clock of control server %q is %s the database's: nothing is decided by it, but its log carries its times; see that its host keeps its time",
				server.Name, skew))
		}
	}
	return found
}

// groupCaution tells that a group's agents are not where they prefer to be; empty: they are.
func groupCaution(g store.Group, judged cloud.Membership) string {
	if slices.ContainsFunc(judged.Eligible(), func(s cloud.Server) bool { return s.Group == g.Key }) {
		return ""
	}
	return fmt.Sprintf("affinity group %q has no control server in the lists: its agents are spread over all others", g.Name)
}
