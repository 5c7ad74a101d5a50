package local

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/commandcenter/fleet/agent/fleet"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
)

// A caller over gRPC finds the address in what is printed, and the services by reflection there.
func TestCallersOfGRPCFindTheServices(t *testing.T) {
	system, err := Start(t.Context(), Config{Dir: t.TempDir(), REST: "127.0.0.1:0", AnyPorts: true, Agents: []fleet.Agent{{Name: "BM-1", ServiceBus: true}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = system.Close() })
	var told strings.Builder
	if err := system.Describe(&told, "local.log"); err != nil || !strings.Contains(told.String(), "grpcurl -plaintext "+system.GRPC) {
		t.Errorf("%v: %s", err, told.String())
	}
	conn, err := grpc.NewClient(system.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ask := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, service := range answer.GetListServicesResponse().GetService() {
		listed = append(listed, service.GetName())
	}
	for _, want := range []string{
		operatorv1.AgentOperations_ServiceDesc.ServiceName, operatorv1.AgentConfig_ServiceDesc.ServiceName, operatorv1.ServerConfig_ServiceDesc.ServiceName,
		operatorv1.AvailabilityConfig_ServiceDesc.ServiceName, operatorv1.CloudConfig_ServiceDesc.ServiceName,
	} {
		if !slices.Contains(listed, want) {
			t.Errorf("%s is not among %v", want, listed)
		}
	}
}
