package rpc

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// changes are the calls of the services behind the gateway that an operator's decision is in, or a heartbeat's, whose end is waited for.
// Each other one is a read, bounded as such. A new call belongs here or to isRead.
var changes = map[string]bool{
	"RecordHeartbeats": true, "ReportIngestEvidence": true, "ReportCommandAnswer": true,
	"AddAgent": true, "AcceptAgent": true, "BatchAcceptAgents": true, "RejectAgent": true, "UpdateAgent": true, "RemoveAgent": true,
	"RelinkAgent": true, "BatchRelinkAgents": true, "ResolveIdentityConflict": true, "ResetToken": true,
	"CreateServer": true, "UpdateServer": true,
	"RenewControlServer": true, "LeaveCloud": true, "UpdateControlServer": true, "RemoveControlServer": true,
	"CreateAffinityGroup": true, "UpdateAffinityGroup": true, "DeleteAffinityGroup": true,
	"OrderBrake": true, "SetMaintenance": true, "ClearMaintenance": true, "CreateMaintenanceWindow": true, "DeleteMaintenanceWindow": true,
}

func TestEachCallIsAReadOrAChange(t *testing.T) {
	known := map[string]bool{}
	for _, file := range []protoreflect.FileDescriptor{
		registryv1.File_commandcenter_registry_v1_registry_proto, registryv1.File_commandcenter_registry_v1_cloud_proto,
		availabilityv1.File_commandcenter_availability_v1_availability_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				name := string(method.Name())
				known[name] = true
				if method.IsStreamingServer() { // bounded by its first event
					continue
				}
				if full := "/" + string(service.FullName()) + "/" + name; isRead(full) == changes[name] {
					t.Errorf("%s: a read %t, a change %t: it must be one of them", full, isRead(full), changes[name])
				}
			}
		}
	}
	for name := range changes {
		if !known[name] {
			t.Errorf("%s is no call any more", name)
		}
	}
}
