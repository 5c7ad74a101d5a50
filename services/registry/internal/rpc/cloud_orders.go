package rpc

import (
	"cmp"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/spelling"
)

// controlServerOrders are the orders of control servers, which are read whole, by name.
var controlServerOrders = map[string]func(a, b *registryv1.ControlServer) int{
	"name": func(a, b *registryv1.ControlServer) int {
		return cmp.Compare(spelling.Fold(a.GetName()), spelling.Fold(b.GetName()))
	},
	"state":  func(a, b *registryv1.ControlServer) int { return cmp.Compare(a.GetState(), b.GetState()) },
	"weight": func(a, b *registryv1.ControlServer) int { return cmp.Compare(a.GetWeight(), b.GetWeight()) },
	"agents_assigned": func(a, b *registryv1.ControlServer) int {
		return cmp.Compare(a.GetAgentsAssigned(), b.GetAgentsAssigned())
	},
	"agents_connected": func(a, b *registryv1.ControlServer) int {
		return cmp.Compare(a.GetAgentsConnected(), b.GetAgentsConnected())
	},
	"renewed_at": func(a, b *registryv1.ControlServer) int {
		return a.GetRenewedAt().AsTime().Compare(b.GetRenewedAt().AsTime())
	},
}

// groupOrders are the orders of affinity groups, which are read whole, by name.
var groupOrders = map[string]func(a, b *registryv1.AffinityGroup) int{
	"name": func(a, b *registryv1.AffinityGroup) int {
		return cmp.Compare(spelling.Fold(a.GetName()), spelling.Fold(b.GetName()))
	},
	"agents": func(a, b *registryv1.AffinityGroup) int { return cmp.Compare(a.GetAgents(), b.GetAgents()) },
}
