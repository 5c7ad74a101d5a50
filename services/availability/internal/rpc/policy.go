package rpc

import (
	"time"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
)

// Policy says which of our services may call what: the gateway everything, for the operators it knows. An admin, who holds a token
// for repairs by hand, may call everything too.
func Policy() authn.Policy {
	gateway := []authn.Role{authn.Gateway, authn.Admin}
	return authn.Policy{
		availabilityv1.Availability_GetOverview_FullMethodName:              gateway,
		availabilityv1.Availability_ListAvailability_FullMethodName:         gateway,
		availabilityv1.Availability_GetAvailability_FullMethodName:          gateway,
		availabilityv1.Availability_WatchAvailability_FullMethodName:        gateway,
		availabilityv1.Availability_ListOfflineLog_FullMethodName:           gateway,
		availabilityv1.Availability_OrderBrake_FullMethodName:               gateway,
		availabilityv1.Availability_GetMaintenance_FullMethodName:           gateway,
		availabilityv1.Availability_SetMaintenance_FullMethodName:           gateway,
		availabilityv1.Availability_ClearMaintenance_FullMethodName:         gateway,
		availabilityv1.Availability_ListMaintenanceWindows_FullMethodName:   gateway,
		availabilityv1.Availability_CreateMaintenanceWindow_FullMethodName:  gateway,
		availabilityv1.Availability_DeleteMaintenanceWindow_FullMethodName:  gateway,
		availabilityv1.Availability_PreviewMaintenanceWindow_FullMethodName: gateway,
	}
}

// watchDeadline lets a watch go on until its connection ends: a server's connections end after half an hour.
const watchDeadline = time.Hour

// Deadlines are those of calls that take longer than others.
func Deadlines() map[string]time.Duration {
	return map[string]time.Duration{availabilityv1.Availability_WatchAvailability_FullMethodName: watchDeadline}
}
