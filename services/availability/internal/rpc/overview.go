package rpc

import (
	"context"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// GetOverview reads how the job goes.
func (a *Availability) GetOverview(ctx context.Context, _ *availabilityv1.GetOverviewRequest) (*availabilityv1.GetOverviewResponse, error) {
	overview, err := a.store.Overview(ctx)
	if err != nil {
		return nil, mapped(err, "")
	}
	return &availabilityv1.GetOverviewResponse{Overview: overviewMessage(overview, a.mode, a.writes())}, nil
}

// OrderBrake stores an operator's order.
func (a *Availability) OrderBrake(ctx context.Context, request *availabilityv1.OrderBrakeRequest) (*availabilityv1.OrderBrakeResponse, error) {
	path, known := keyOf(paths, request.GetPath())
	if !known {
		return nil, fault.Invalid("/path", "must be bus or direct")
	}
	order, known := givenOrders[request.GetOrder()]
	if !known {
		return nil, fault.Invalid("/order", "must be apply, hold or none")
	}
	ordered, err := a.store.OrderBrake(ctx, path, order, request.GetEtag(), request.GetActor())
	if err != nil {
		return nil, mapped(err, "")
	}
	return &availabilityv1.OrderBrakeResponse{Path: pathMessage(path, ordered)}, nil
}
