package rest

import (
	"context"

	"google.golang.org/grpc"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
)

type fakeAvailability struct {
	operatorv1.UnimplementedAvailabilityConfigServer
	*face
}

func (f fakeAvailability) ListAvailability(ctx context.Context, r *operatorv1.ListAvailabilityRequest) (*operatorv1.ListAvailabilityResponse, error) {
	return note[operatorv1.ListAvailabilityResponse](ctx, f.face, r)
}

func (f fakeAvailability) GetAvailability(ctx context.Context, r *operatorv1.GetAvailabilityRequest) (*availabilityv1.ServerAvailability, error) {
	return note[availabilityv1.ServerAvailability](ctx, f.face, r)
}

func (f fakeAvailability) WatchAvailability(_ *operatorv1.WatchAvailabilityRequest, stream grpc.ServerStreamingServer[availabilityv1.WatchAvailabilityResponse]) error {
	return f.watch(stream)
}

func (f fakeAvailability) OrderBrake(ctx context.Context, r *operatorv1.OrderBrakeRequest) (*availabilityv1.PathStatus, error) {
	return note[availabilityv1.PathStatus](ctx, f.face, r)
}

func (f fakeAvailability) GetMaintenance(ctx context.Context, r *operatorv1.GetMaintenanceRequest) (*availabilityv1.Maintenance, error) {
	return note[availabilityv1.Maintenance](ctx, f.face, r)
}

func (f fakeAvailability) SetMaintenance(ctx context.Context, r *operatorv1.SetMaintenanceRequest) (*availabilityv1.Maintenance, error) {
	return note[availabilityv1.Maintenance](ctx, f.face, r)
}

func (f fakeAvailability) ClearMaintenance(ctx context.Context, r *operatorv1.ClearMaintenanceRequest) (*availabilityv1.Maintenance, error) {
	return note[availabilityv1.Maintenance](ctx, f.face, r)
}

func (f fakeAvailability) CreateMaintenanceWindow(ctx context.Context, r *operatorv1.CreateMaintenanceWindowRequest) (*availabilityv1.MaintenanceWindow, error) {
	return note[availabilityv1.MaintenanceWindow](ctx, f.face, r)
}

func (f fakeAvailability) DeleteMaintenanceWindow(ctx context.Context, r *operatorv1.DeleteMaintenanceWindowRequest) (*operatorv1.DeleteMaintenanceWindowResponse, error) {
	return note[operatorv1.DeleteMaintenanceWindowResponse](ctx, f.face, r)
}
