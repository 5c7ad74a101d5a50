package rpc

import (
	"context"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/internal/paging"
)

// ListAvailability reads a page of servers with their verdicts.
func (a *Availability) ListAvailability(ctx context.Context, request *availabilityv1.ListAvailabilityRequest) (*availabilityv1.ListAvailabilityResponse, error) {
	filter := store.Filter{
		Keys: request.GetServerKeys(), Query: request.GetQuery(),
		Held: choice(request.Held), Maintenance: choice(request.Maintenance), Disagrees: choice(request.Disagrees),
	}
	for _, name := range request.GetVerdicts() {
		if wanted, known := keyOf(verdicts, name); known {
			filter.Verdicts = append(filter.Verdicts, wanted)
		}
	}
	for _, name := range request.GetStates() {
		if wanted, known := keyOf(states, name); known {
			filter.States = append(filter.States, wanted)
		}
	}
	order, err := paging.ParseOrder(request.GetOrderBy(), "key", "key", "name", "verdict", "since")
	if err != nil {
		return nil, err
	}
	type listOf struct {
		Filter store.Filter
		Order  paging.Order
	}
	question := listOf{filter, order}
	after, err := paging.Parse[store.StatusCursor](request.GetPageToken(), question)
	if err != nil {
		return nil, err
	}
	servers, next, err := a.store.SortedStatuses(ctx, filter, order, paging.Size(request.GetPageSize()), after)
	if err != nil {
		return nil, mapped(err, "")
	}
	response := &availabilityv1.ListAvailabilityResponse{}
	for _, server := range servers {
		response.Servers = append(response.Servers, serverMessage(server))
	}
	if next != nil {
		response.NextPageToken, err = paging.Token(*next, question)
	}
	return response, err
}

// GetAvailability reads one server.
func (a *Availability) GetAvailability(ctx context.Context, request *availabilityv1.GetAvailabilityRequest) (*availabilityv1.GetAvailabilityResponse, error) {
	server, err := a.store.StatusOf(ctx, request.GetServer())
	if err != nil {
		return nil, mapped(err, "")
	}
	return &availabilityv1.GetAvailabilityResponse{Server: serverMessage(server)}, nil
}

// choice is -1 for any, 0 for no, 1 for yes.
func choice(given *bool) int {
	switch {
	case given == nil:
		return -1
	case *given:
		return 1
	}
	return 0
}
