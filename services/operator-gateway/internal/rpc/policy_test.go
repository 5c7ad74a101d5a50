package rpc

import (
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
)

// methods are all methods of the services, from the contract itself.
func methods() map[string]protoreflect.MethodDescriptor {
	found := map[string]protoreflect.MethodDescriptor{}
	for _, file := range []protoreflect.FileDescriptor{
		operatorv1.File_commandcenter_operator_v1_operations_proto, operatorv1.File_commandcenter_operator_v1_config_proto, operatorv1.File_commandcenter_operator_v1_availability_proto,
		operatorv1.File_commandcenter_operator_v1_cloud_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				found["/"+string(service.FullName())+"/"+string(method.Name())] = method
			}
		}
	}
	return found
}

func TestNoMethodIsMissingFromThePolicy(t *testing.T) {
	policy, known := Policy(), methods()
	if len(known) != 59 {
		t.Errorf("there are %d methods, not 59", len(known))
	}
	for name := range known {
		if len(policy[name]) != 1 {
			t.Errorf("%s needs one role, and has %v", name, policy[name])
		}
	}
	for name := range policy {
		if known[name] == nil {
			t.Errorf("%s stands in the policy, and nowhere else", name)
		}
	}
}

// Whoever may only look changes nothing: what is no GET over REST needs more than a viewer, save a preview, which stores nothing.
func TestViewersOnlyRead(t *testing.T) {
	policy := Policy()
	for name, method := range methods() {
		rule := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
		if reads := rule.GetGet() != "" || name == availability+"PreviewMaintenanceWindow"; policy.Allows(name, authn.Viewer) != reads {
			t.Errorf("%s: a viewer may call it: %t; it only reads: %t", name, !reads, reads)
		}
		if !policy.Allows(name, authn.Admin) {
			t.Errorf("%s is not allowed to an admin", name)
		}
		for _, role := range []authn.Role{authn.Heartbeat, authn.Gateway, authn.Availability, ""} {
			if policy.Allows(name, role) {
				t.Errorf("%s is allowed to %q", name, role)
			}
		}
	}
}

// What cannot be taken back by the next decision, or hands a name to another machine, takes an admin.
func TestOfTheCloudAnOperatorDecidesAndAnAdminRemoves(t *testing.T) {
	policy := Policy()
	for name, byOperator := range map[string]bool{
		cloud + "SetControlServerMode": true, cloud + "UpdateControlServer": true, cloud + "CreateAffinityGroup": true, cloud + "UpdateAffinityGroup": true,
		cloud + "DeleteAffinityGroup": true, cloud + "RemoveControlServer": false, agents + "ResetToken": false,
	} {
		if policy.Allows(name, authn.Operator) != byOperator {
			t.Errorf("%s: an operator may call it: %t", name, !byOperator)
		}
	}
}

func TestCommandsHaveTheirWholeBudget(t *testing.T) {
	deadlines := Deadlines(time.Minute)
	for name := range methods() {
		deadline, set := deadlines[name]
		if name == availability+"WatchAvailability" { // goes on as long as its caller wants
			if deadline != watchDeadline {
				t.Errorf("a watch may take %s", deadline)
			}
			continue
		}
		if isOperation := len(name) > len(operations) && name[:len(operations)] == operations; set != isOperation || (set && deadline <= time.Minute) {
			t.Errorf("%s may take %s", name, deadline)
		}
	}
}
