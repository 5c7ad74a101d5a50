package proto

import (
	"os/exec"
	"strings"
	"testing"
)

// A caller over gRPC needs no grpc-gateway: only the packages below gen/gateway do.
func TestCallersOfGRPCNeedNoGateway(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./gen/commandcenter/...").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "grpc-gateway") {
			t.Errorf("it needs %s", strings.TrimSpace(line))
		}
	}
}
