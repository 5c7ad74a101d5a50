package rpc

import (
	"context"
	"fmt"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
)

// GetMaintenance shows a server's switch and windows.
func (s *Availability) GetMaintenance(ctx context.Context, request *operatorv1.GetMaintenanceRequest) (*availabilityv1.Maintenance, error) {
	found, err := s.Service.GetMaintenance(ctx, &availabilityv1.GetMaintenanceRequest{Server: request.GetServer()})
	return found.GetMaintenance(), availabilityService.read(err, "")
}

// SetMaintenance turns a server's switch on.
func (s *Availability) SetMaintenance(ctx context.Context, request *operatorv1.SetMaintenanceRequest) (*availabilityv1.Maintenance, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	set, err := change(ctx, s.act("set maintenance of server", request.GetServer()), s.Service.SetMaintenance, &availabilityv1.SetMaintenanceRequest{
		Server: request.GetServer(), Etag: etag, Reason: request.GetReason(), EndAt: request.GetEndAt(), Duration: request.GetDuration(), Actor: actor(ctx),
	})
	return set.GetMaintenance(), err
}

// ClearMaintenance turns a server's switch off.
func (s *Availability) ClearMaintenance(ctx context.Context, request *operatorv1.ClearMaintenanceRequest) (*availabilityv1.Maintenance, error) {
	etag, err := etag(ctx, request.GetEtag())
	if err != nil {
		return nil, err
	}
	cleared, err := change(ctx, s.act("clear maintenance of server", request.GetServer()), s.Service.ClearMaintenance, &availabilityv1.ClearMaintenanceRequest{
		Server: request.GetServer(), Etag: etag, Actor: actor(ctx),
	})
	return cleared.GetMaintenance(), err
}

// ListMaintenanceWindows lists a server's windows.
func (s *Availability) ListMaintenanceWindows(ctx context.Context, request *operatorv1.ListMaintenanceWindowsRequest) (*operatorv1.ListMaintenanceWindowsResponse, error) {
	found, err := s.Service.ListMaintenanceWindows(ctx, &availabilityv1.ListMaintenanceWindowsRequest{Server: request.GetServer(), OrderBy: request.GetOrderBy()})
	return &operatorv1.ListMaintenanceWindowsResponse{Windows: found.GetWindows()}, availabilityService.read(err, "")
}

// CreateMaintenanceWindow adds a window.
func (s *Availability) CreateMaintenanceWindow(ctx context.Context, request *operatorv1.CreateMaintenanceWindowRequest) (*availabilityv1.MaintenanceWindow, error) {
	key, err := idempotencyKey(ctx)
	if err != nil {
		return nil, err
	}
	created, err := change(ctx, s.act("create maintenance window of server", request.GetServer()), s.Service.CreateMaintenanceWindow, &availabilityv1.CreateMaintenanceWindowRequest{
		Server: request.GetServer(), Rule: request.GetRule(), Reason: request.GetReason(), Actor: actor(ctx), IdempotencyKey: key,
	})
	return created.GetWindow(), err
}

// PreviewMaintenanceWindow tells when a window would be.
func (s *Availability) PreviewMaintenanceWindow(ctx context.Context, request *operatorv1.PreviewMaintenanceWindowRequest) (*operatorv1.PreviewMaintenanceWindowResponse, error) {
	found, err := s.Service.PreviewMaintenanceWindow(ctx, &availabilityv1.PreviewMaintenanceWindowRequest{Server: request.GetServer(), Rule: request.GetRule()})
	return &operatorv1.PreviewMaintenanceWindowResponse{Occurrences: found.GetOccurrences()}, availabilityService.read(err, "")
}

// DeleteMaintenanceWindow removes a window.
func (s *Availability) DeleteMaintenanceWindow(ctx context.Context, request *operatorv1.DeleteMaintenanceWindowRequest) (*operatorv1.DeleteMaintenanceWindowResponse, error) {
	does := fmt.Sprintf("delete maintenance window %d of server", request.GetId())
	_, err := change(ctx, s.act(does, request.GetServer()), s.Service.DeleteMaintenanceWindow, &availabilityv1.DeleteMaintenanceWindowRequest{
		Server: request.GetServer(), Id: request.GetId(), Actor: actor(ctx),
	})
	return &operatorv1.DeleteMaintenanceWindowResponse{}, err
}
