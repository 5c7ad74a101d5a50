package rpc

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
)

// methods are all methods of the registry's services, from the contract itself.
func methods() []string {
	var found []string
	for _, file := range []protoreflect.FileDescriptor{registryv1.File_commandcenter_registry_v1_registry_proto, registryv1.File_commandcenter_registry_v1_cloud_proto} {
		services := file.Services()
		for i := range services.Len() {
			for j := range services.Get(i).Methods().Len() {
				found = append(found, "/"+string(services.Get(i).FullName())+"/"+string(services.Get(i).Methods().Get(j).Name()))
			}
		}
	}
	return found
}

func TestEachRoleMayCallWhatItNeedsAndNothingElse(t *testing.T) {
	both := []string{clouds + "ListControlServers", clouds + "ListAffinityGroups", clouds + "GetFailoverList", clouds + "ListPartitionEvents"}
	only := map[authn.Role][]string{
		authn.Heartbeat: slices.Concat(both, []string{
			agents + "RecordHeartbeats", agents + "ReportIngestEvidence", clouds + "RenewControlServer", clouds + "LeaveCloud",
		}),
		authn.Availability: {agents + "ReadFleet"},
		authn.Viewer:       nil,
		authn.Operator:     nil,
		"":                 nil,
	}
	policy := Policy()
	for _, method := range methods() {
		for role, may := range only {
			if want := slices.Contains(may, method); policy.Allows(method, role) != want {
				t.Errorf("%s by %q: not %t", method, role, want)
			}
		}
		others := slices.Contains(only[authn.Heartbeat], method) || slices.Contains(only[authn.Availability], method)
		others = others && !slices.Contains(both, method)
		if policy.Allows(method, authn.Gateway) == others {
			t.Errorf("%s by the gateway: %t", method, !others)
		}
		if !policy.Allows(method, authn.Admin) {
			t.Errorf("%s is not allowed to an admin", method)
		}
	}
	for method := range policy {
		if !slices.Contains(methods(), method) {
			t.Errorf("%s stands in the policy, and nowhere else", method)
		}
	}
}

func TestQuietCallsAreKnown(t *testing.T) {
	for _, method := range Quiet() {
		if !slices.Contains(methods(), method) {
			t.Errorf("%s is quiet, and does not exist", method)
		}
	}
	if !slices.Contains(Quiet(), agents+"ReadFleet") {
		t.Error("every sweep would be a line in the log")
	}
	if !slices.Contains(Quiet(), clouds+"RenewControlServer") {
		t.Error("every renewal of every control server would be a line in the log")
	}
	if !slices.Contains(Quiet(), clouds+"GetFailoverList") {
		t.Error("every agent of the bus asks every 10 min, and would be a line in the log")
	}
}
