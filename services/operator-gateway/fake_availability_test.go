package operatorgateway

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// fakeAvailability keeps one server's maintenance and one brake by the availability service's rules, as far as these tests go.
type fakeAvailability struct {
	availabilityv1.UnimplementedAvailabilityServer
	addr   string
	health *grpchealth.Server
	server *grpc.Server
	watch  func(grpc.ServerStreamingServer[availabilityv1.WatchAvailabilityResponse]) error

	mu          sync.Mutex
	asked       []proto.Message
	maintenance *availabilityv1.Maintenance
	brake       *availabilityv1.PathStatus
	changes     int
}

// startAvailability runs one that has the server BM-01, of key 1.
func startAvailability(t *testing.T) *fakeAvailability {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	a := &fakeAvailability{
		addr: listener.Addr().String(), health: grpchealth.NewServer(), server: grpc.NewServer(),
		maintenance: &availabilityv1.Maintenance{Server: "BM-01", Manual: &availabilityv1.MaintenanceSwitch{Etag: "m-0"}},
		brake:       &availabilityv1.PathStatus{Path: registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS, Etag: "b-0"},
	}
	availabilityv1.RegisterAvailabilityServer(a.server, a)
	healthv1.RegisterHealthServer(a.server, a.health)
	a.serving(true)
	go func() { _ = a.server.Serve(listener) }()
	t.Cleanup(a.server.Stop)
	return a
}

func (a *fakeAvailability) serving(yes bool) {
	state := healthv1.HealthCheckResponse_SERVING
	if !yes {
		state = healthv1.HealthCheckResponse_NOT_SERVING
	}
	a.health.SetServingStatus(availabilityv1.Availability_ServiceDesc.ServiceName, state)
}

// note remembers a request, and refuses servers that there are none of.
func (a *fakeAvailability) note(request proto.Message) error {
	a.asked = append(a.asked, request)
	if named, ok := request.(interface{ GetServer() string }); ok && !strings.EqualFold(named.GetServer(), a.maintenance.GetServer()) {
		return fault.New(fault.ServerNotFound, "there is no server %q", named.GetServer())
	}
	return nil
}

// last are the requests since the last time, the last one first.
func (a *fakeAvailability) last() proto.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.asked) == 0 {
		return nil
	}
	request := a.asked[len(a.asked)-1]
	a.asked = nil
	return request
}

// etag checks one as the service does, and makes the next.
func (a *fakeAvailability) etag(given string, now *string) error {
	return advance(given, now, &a.changes)
}

// GetOverview has one banner.
func (a *fakeAvailability) GetOverview(_ context.Context, request *availabilityv1.GetOverviewRequest) (*availabilityv1.GetOverviewResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	overview := &availabilityv1.Overview{Mode: availabilityv1.Mode_MODE_OWN, Paths: []*availabilityv1.PathStatus{proto.CloneOf(a.brake)}, Banners: []string{"bus is frozen"}}
	return &availabilityv1.GetOverviewResponse{Overview: overview}, a.note(request)
}

func (a *fakeAvailability) standing() *availabilityv1.ServerAvailability {
	return &availabilityv1.ServerAvailability{ServerKey: 1, Server: "BM-01", Verdict: availabilityv1.Verdict_VERDICT_AVAILABLE, Reason: "heartbeat fresh", State: registryv1.ServerState_SERVER_STATE_ONLINE}
}

// ListAvailability lists the one server.
func (a *fakeAvailability) ListAvailability(_ context.Context, request *availabilityv1.ListAvailabilityRequest) (*availabilityv1.ListAvailabilityResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &availabilityv1.ListAvailabilityResponse{Servers: []*availabilityv1.ServerAvailability{a.standing()}, NextPageToken: "next"}, a.note(request)
}

// GetAvailability shows the one server.
func (a *fakeAvailability) GetAvailability(_ context.Context, request *availabilityv1.GetAvailabilityRequest) (*availabilityv1.GetAvailabilityResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &availabilityv1.GetAvailabilityResponse{Server: a.standing()}, a.note(request)
}

// WatchAvailability does what the test wants.
func (a *fakeAvailability) WatchAvailability(_ *availabilityv1.WatchAvailabilityRequest, stream grpc.ServerStreamingServer[availabilityv1.WatchAvailabilityResponse]) error {
	return a.watch(stream)
}

// ListOfflineLog has one entry.
func (a *fakeAvailability) ListOfflineLog(_ context.Context, request *availabilityv1.ListOfflineLogRequest) (*availabilityv1.ListOfflineLogResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	entry := &availabilityv1.OfflineLogEntry{CreatedAt: timestamppb.New(time.Unix(0, 0))}
	return &availabilityv1.ListOfflineLogResponse{Entries: []*availabilityv1.OfflineLogEntry{entry}, NextPageToken: "next"}, a.note(request)
}

// OrderBrake notes an order.
func (a *fakeAvailability) OrderBrake(_ context.Context, request *availabilityv1.OrderBrakeRequest) (*availabilityv1.OrderBrakeResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.note(request)
	if err := a.etag(request.GetEtag(), &a.brake.Etag); err != nil {
		return nil, err
	}
	a.brake.Order, a.brake.OrderedBy = request.GetOrder(), request.GetActor()
	return &availabilityv1.OrderBrakeResponse{Path: proto.CloneOf(a.brake)}, nil
}

// GetMaintenance reads the switch.
func (a *fakeAvailability) GetMaintenance(_ context.Context, request *availabilityv1.GetMaintenanceRequest) (*availabilityv1.GetMaintenanceResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &availabilityv1.GetMaintenanceResponse{Maintenance: proto.CloneOf(a.maintenance)}, a.note(request)
}

// turn turns the switch.
func (a *fakeAvailability) turn(request interface {
	proto.Message
	GetEtag() string
	GetActor() string
}, on bool, reason string,
) (*availabilityv1.Maintenance, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.note(request); err != nil {
		return nil, err
	}
	manual := a.maintenance.GetManual()
	if err := a.etag(request.GetEtag(), &manual.Etag); err != nil {
		return nil, err
	}
	manual.On, manual.Reason, manual.ChangedBy = on, reason, request.GetActor()
	return proto.CloneOf(a.maintenance), nil
}

// SetMaintenance turns the switch on; an end before 2000 is refused as one in the past.
func (a *fakeAvailability) SetMaintenance(_ context.Context, request *availabilityv1.SetMaintenanceRequest) (*availabilityv1.SetMaintenanceResponse, error) {
	if end := request.GetEndAt(); end != nil && end.AsTime().Year() < 2000 {
		return nil, fault.Invalid("/endAt", "is in the past")
	}
	set, err := a.turn(request, true, request.GetReason())
	return &availabilityv1.SetMaintenanceResponse{Maintenance: set}, err
}

// ClearMaintenance turns the switch off.
func (a *fakeAvailability) ClearMaintenance(_ context.Context, request *availabilityv1.ClearMaintenanceRequest) (*availabilityv1.ClearMaintenanceResponse, error) {
	cleared, err := a.turn(request, false, "")
	return &availabilityv1.ClearMaintenanceResponse{Maintenance: cleared}, err
}

// ListMaintenanceWindows has one window.
func (a *fakeAvailability) ListMaintenanceWindows(_ context.Context, request *availabilityv1.ListMaintenanceWindowsRequest) (*availabilityv1.ListMaintenanceWindowsResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &availabilityv1.ListMaintenanceWindowsResponse{Windows: []*availabilityv1.MaintenanceWindow{{Id: 7}}}, a.note(request)
}

// CreateMaintenanceWindow makes one, unless its zone is none.
func (a *fakeAvailability) CreateMaintenanceWindow(_ context.Context, request *availabilityv1.CreateMaintenanceWindowRequest) (*availabilityv1.CreateMaintenanceWindowResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if request.GetRule().GetZone() == "Mars/Olympus" {
		return nil, fault.Invalid("/rule/zone", "is no IANA time zone")
	}
	window := &availabilityv1.MaintenanceWindow{Id: 8, Rule: request.GetRule(), Reason: request.GetReason(), CreatedBy: request.GetActor()}
	return &availabilityv1.CreateMaintenanceWindowResponse{Window: window}, a.note(request)
}

// PreviewMaintenanceWindow has one occurrence.
func (a *fakeAvailability) PreviewMaintenanceWindow(_ context.Context, request *availabilityv1.PreviewMaintenanceWindowRequest) (*availabilityv1.PreviewMaintenanceWindowResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &availabilityv1.PreviewMaintenanceWindowResponse{Occurrences: []*availabilityv1.Occurrence{{StartLocal: "2026-03-29T03:30:00+02:00"}}}, a.note(request)
}

// DeleteMaintenanceWindow removes the seventh.
func (a *fakeAvailability) DeleteMaintenanceWindow(_ context.Context, request *availabilityv1.DeleteMaintenanceWindowRequest) (*availabilityv1.DeleteMaintenanceWindowResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.note(request); err != nil {
		return nil, err
	}
	if request.GetId() != 7 {
		return nil, fault.New(fault.WindowNotFound, "server %q has no window %d", request.GetServer(), request.GetId())
	}
	return &availabilityv1.DeleteMaintenanceWindowResponse{}, nil
}
