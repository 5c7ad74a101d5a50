package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/paging"
)

// ListOfflineLog reads a page of a server's offline log.
func (a *Availability) ListOfflineLog(ctx context.Context, request *availabilityv1.ListOfflineLogRequest) (*availabilityv1.ListOfflineLogResponse, error) {
	startAt, err := optionalInstant("/startAt", request.GetStartAt())
	if err != nil {
		return nil, err
	}
	endAt, err := optionalInstant("/endAt", request.GetEndAt())
	if err != nil {
		return nil, err
	}
	if !startAt.IsZero() && !endAt.IsZero() && !startAt.Before(endAt) {
		return nil, fault.Invalid("/endAt", "must be after startAt")
	}
	order, err := paging.ParseOrder(request.GetOrderBy(), "created_at desc", "created_at")
	if err != nil {
		return nil, err
	}
	type logOf struct {
		Server     string
		Start, End int64
		Order      paging.Order
	}
	question := logOf{request.GetServer(), startAt.UnixMilli(), endAt.UnixMilli(), order}
	after, err := paging.Parse[store.LogCursor](request.GetPageToken(), question)
	if err != nil {
		return nil, err
	}
	entries, next, err := a.store.OfflineLog(ctx, request.GetServer(), store.LogSpan{StartAt: startAt, EndAt: endAt, OldestFirst: !order.Descending}, paging.Size(request.GetPageSize()), after)
	if err != nil {
		return nil, mapped(err, "")
	}
	response := &availabilityv1.ListOfflineLogResponse{}
	for _, at := range entries {
		response.Entries = append(response.Entries, &availabilityv1.OfflineLogEntry{CreatedAt: timestamppb.New(at)})
	}
	if next != nil {
		response.NextPageToken, err = paging.Token(*next, question)
	}
	return response, err
}
