package rpc

import (
	"context"

	"google.golang.org/grpc"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
)

// WatchAvailability sends everything, then what changes.
func (a *Availability) WatchAvailability(_ *availabilityv1.WatchAvailabilityRequest, stream grpc.ServerStreamingServer[availabilityv1.WatchAvailabilityResponse]) error {
	ctx := stream.Context()
	err := a.feed.Watch(ctx, stream.Send)
	if gone := ctx.Err(); gone != nil { // whatever sending to nobody said
		err = gone
	}
	return mapped(err, "")
}

// source is the store as the watches read it.
type source struct {
	store  *store.Store
	mode   availabilityv1.Mode
	writes func() error
}

// Overview reads how the job goes. The revision is read first.
func (s *source) Overview(ctx context.Context) (*availabilityv1.Overview, int64, error) {
	overview, err := s.store.Overview(ctx)
	if err != nil {
		return nil, 0, err
	}
	return overviewMessage(overview, s.mode, s.writes()), overview.Revision, nil
}

// serversPerRead keeps transactions that read short.
const serversPerRead = 1000

// Servers reads all servers, page by page.
func (s *source) Servers(ctx context.Context) ([]*availabilityv1.ServerAvailability, error) {
	var all []*availabilityv1.ServerAvailability
	for after, more := int64(0), true; more; {
		page, further, err := s.store.Statuses(ctx, store.Filter{Held: -1, Maintenance: -1, Disagrees: -1}, serversPerRead, after)
		if err != nil {
			return nil, err
		}
		for _, server := range page {
			all, after = append(all, serverMessage(server)), server.Key
		}
		more = further
	}
	return all, nil
}

// ServersSince reads the servers that changed.
func (s *source) ServersSince(ctx context.Context, revision int64) ([]*availabilityv1.ServerAvailability, error) {
	servers, err := s.store.ChangedSince(ctx, revision)
	if err != nil {
		return nil, err
	}
	changed := make([]*availabilityv1.ServerAvailability, 0, len(servers))
	for _, server := range servers {
		changed = append(changed, serverMessage(server))
	}
	return changed, nil
}
