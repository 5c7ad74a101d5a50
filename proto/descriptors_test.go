package proto

import (
	"os"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// The descriptor set needs no other file, and has every service with its comments.
func TestTheDescriptorSetHoldsEveryService(t *testing.T) {
	content, err := os.ReadFile("gen/commandcenter.binpb")
	if err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(content, set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	services := 0
	for _, file := range []protoreflect.FileDescriptor{
		availabilityv1.File_commandcenter_availability_v1_availability_proto, heartbeatv1.File_commandcenter_heartbeat_v1_ingress_proto,
		operatorv1.File_commandcenter_operator_v1_availability_proto, operatorv1.File_commandcenter_operator_v1_cloud_proto,
		operatorv1.File_commandcenter_operator_v1_config_proto, operatorv1.File_commandcenter_operator_v1_operations_proto,
		registryv1.File_commandcenter_registry_v1_cloud_proto, registryv1.File_commandcenter_registry_v1_registry_proto,
	} {
		for i := range file.Services().Len() {
			services++
			want := file.Services().Get(i)
			found, err := files.FindDescriptorByName(want.FullName())
			if err != nil {
				t.Errorf("%s: %v", want.FullName(), err)
				continue
			}
			if got := found.(protoreflect.ServiceDescriptor); got.Methods().Len() != want.Methods().Len() {
				t.Errorf("%s has %d methods, not %d", want.FullName(), got.Methods().Len(), want.Methods().Len())
			}
			if found.ParentFile().SourceLocations().ByDescriptor(found).LeadingComments == "" {
				t.Errorf("%s has no comment", want.FullName())
			}
		}
	}
	if services < 10 {
		t.Errorf("%d services", services)
	}
}
