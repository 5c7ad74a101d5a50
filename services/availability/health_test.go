package availability

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
)

// Readiness and gRPC health follow the database, there and back.
func TestHealthFollowsTheDatabase(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "later")
	opened, err := store.Open("sqlite:" + filepath.Join(folder, "fleet.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	server, err := grpcserver.New(grpcserver.Options{Config: grpcserver.ListenConfig{Listen: "127.0.0.1:0"}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient(server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	watched := &health{store: opened, server: server, logger: slog.New(slog.DiscardHandler)}
	expect := func(serving bool) {
		t.Helper()
		watched.look(t.Context())
		if err := watched.ready(); (err == nil) != serving {
			t.Errorf("ready: %v", err)
		}
		for _, service := range []string{"", availabilityv1.Availability_ServiceDesc.ServiceName} {
			answer, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
			if err != nil || (answer.GetStatus() == healthv1.HealthCheckResponse_SERVING) != serving {
				t.Errorf("%q: %v, %v", service, answer, err)
			}
		}
	}
	expect(false)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	expect(true)
}
