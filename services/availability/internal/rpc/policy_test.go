package rpc

import (
	"testing"
	"time"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
)

func TestEveryMethodIsForTheGatewayAndAdmins(t *testing.T) {
	policy := Policy()
	methods := availabilityv1.File_commandcenter_availability_v1_availability_proto.Services().ByName("Availability").Methods()
	if methods.Len() != len(policy) {
		t.Errorf("%d methods, %d in the policy", methods.Len(), len(policy))
	}
	for i := range methods.Len() {
		method := "/commandcenter.availability.v1.Availability/" + string(methods.Get(i).Name())
		for role, want := range map[authn.Role]bool{
			authn.Gateway: true, authn.Admin: true,
			authn.Viewer: false, authn.Operator: false, authn.Heartbeat: false, authn.Availability: false,
		} {
			if policy.Allows(method, role) != want {
				t.Errorf("%s for %s: %v", method, role, !want)
			}
		}
	}
}

// A watch outlives what bounds every other call.
func TestAWatchIsNotCutOffByADeadline(t *testing.T) {
	if deadlines := Deadlines(); len(deadlines) != 1 || deadlines[availabilityv1.Availability_WatchAvailability_FullMethodName] <= 35*time.Minute {
		t.Errorf("%v", deadlines)
	}
}
