package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// watchDeadline bounds one watch; whoever wants to go on watches again.
const watchDeadline = time.Hour

// NoAvailability is the connection to the availability service where none is configured: it refuses every call.
type NoAvailability struct{}

var errNoAvailability = fault.New(fault.AvailabilityUnavailable,
	"this gateway is configured without an availability service: set availability.target to its host:port, and start the gateway again. Nothing was changed")

// Invoke implements grpc.ClientConnInterface.
func (NoAvailability) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return errNoAvailability
}

// NewStream implements grpc.ClientConnInterface.
func (NoAvailability) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errNoAvailability
}

// Availability implements operator.v1.AvailabilityConfig.
type Availability struct {
	operatorv1.UnimplementedAvailabilityConfigServer
	Service  availabilityv1.AvailabilityClient
	Registry Registry // its Agents may be nil: then the overview says nothing of them
	Logger   *slog.Logger
	// Stopping is closed when the gateway begins to stop: watches end then.
	Stopping <-chan struct{}
}

// act is one change made by the availability service.
func (s *Availability) act(does, server string) act {
	return act{logger: s.Logger, by: availabilityService, does: does, server: server}
}

// GetOverview tells how the availability job goes.
func (s *Availability) GetOverview(ctx context.Context, _ *operatorv1.GetAvailabilityOverviewRequest) (*availabilityv1.Overview, error) {
	found, err := s.Service.GetOverview(ctx, &availabilityv1.GetOverviewRequest{})
	if err != nil {
		return nil, availabilityService.read(err, "")
	}
	newBanners(s.Registry).add(ctx, found.GetOverview())
	return found.GetOverview(), nil
}

// bannersAge is how long a watch shows what the registry said for its overview.
const bannersAge = 5 * time.Second

// banners are what the registry says for people in an overview; a watch asks for them not more often than they may be old.
type banners struct {
	registry Registry
	said     []string
	readAt   time.Time
}

func newBanners(registry Registry) *banners { return &banners{registry: registry} }

// add puts them on an overview, if there is one. What was said last stays while the registry does not answer.
func (b *banners) add(ctx context.Context, overview *availabilityv1.Overview) {
	if overview == nil || b.registry.Agents == nil {
		return
	}
	if b.readAt.IsZero() || time.Since(b.readAt) >= bannersAge {
		if agents, said := b.registry.astray(ctx); agents >= 0 {
			b.said = said
		}
		b.readAt = time.Now()
	}
	overview.Banners = append(overview.Banners, b.said...)
}

// ListAvailability lists servers with their verdicts.
func (s *Availability) ListAvailability(ctx context.Context, request *operatorv1.ListAvailabilityRequest) (*operatorv1.ListAvailabilityResponse, error) {
	page, err := s.Service.ListAvailability(ctx, &availabilityv1.ListAvailabilityRequest{
		Verdicts: request.GetVerdicts(), Held: request.Held, Maintenance: request.Maintenance, Disagrees: request.Disagrees,
		Query: request.GetQuery(), States: request.GetStates(), PageSize: request.GetPageSize(), PageToken: request.GetPageToken(), OrderBy: request.GetOrderBy(),
	})
	return &operatorv1.ListAvailabilityResponse{Servers: page.GetServers(), NextPageToken: page.GetNextPageToken()}, availabilityService.read(err, "")
}

// GetAvailability shows one server's verdict.
func (s *Availability) GetAvailability(ctx context.Context, request *operatorv1.GetAvailabilityRequest) (*availabilityv1.ServerAvailability, error) {
	found, err := s.Service.GetAvailability(ctx, &availabilityv1.GetAvailabilityRequest{Server: request.GetServer()})
	return found.GetServer(), availabilityService.read(err, "")
}

// WatchAvailability passes on what the availability service tells, until the caller goes away.
func (s *Availability) WatchAvailability(_ *operatorv1.WatchAvailabilityRequest, stream grpc.ServerStreamingServer[availabilityv1.WatchAvailabilityResponse]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	go func() {
		select {
		case <-s.Stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	begun := time.AfterFunc(snapshotTimeout, cancel)
	defer begun.Stop()
	events, err := s.Service.WatchAvailability(ctx, &availabilityv1.WatchAvailabilityRequest{})
	if err != nil {
		return s.ended(stream.Context(), err)
	}
	banners := newBanners(s.Registry)
	for first := true; ; first = false {
		event, err := events.Recv()
		if first && !begun.Stop() {
			err = status.FromContextError(context.DeadlineExceeded).Err()
		}
		if err != nil {
			return s.ended(stream.Context(), err)
		}
		banners.add(ctx, event.GetOverview())
		if err := stream.Send(event); err != nil {
			return err
		}
	}
}

// ended says why a watch is over.
func (s *Availability) ended(ctx context.Context, err error) error {
	select {
	case <-s.Stopping:
		return fault.New(fault.AvailabilityUnavailable, "the gateway is stopping, which ended the watch; watch again")
	default:
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.New(fault.ReadTimeout, "the watch's time ended; watch again").WithCause(err)
	case errors.Is(err, io.EOF):
		return fault.New(fault.AvailabilityUnavailable, "the availability service ended the watch; watch again")
	case status.Code(err) == codes.ResourceExhausted && !Answered(err):
		return fault.New(fault.AvailabilityUnavailable, "the watch's events were taken too slowly, which ended it; watch again").WithCause(err)
	}
	return availabilityService.read(err, "")
}

// OrderBrake decides about one path's brake.
func (s *Availability) OrderBrake(ctx context.Context, request *operatorv1.OrderBrakeRequest) (*availabilityv1.PathStatus, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	does := fmt.Sprintf("order %s for the brake of %s", request.GetOrder(), request.GetPath())
	ordered, err := change(ctx, s.act(does, ""), s.Service.OrderBrake, &availabilityv1.OrderBrakeRequest{
		Path: request.GetPath(), Order: request.GetOrder(), Etag: etag, Actor: actor(ctx),
	})
	return ordered.GetPath(), err
}
