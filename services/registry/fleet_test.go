package registry_test

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/registry"
)

// onFile runs a registry on a SQLite file that is open here too, for what would take many calls.
func onFile(t testing.TB) (clients, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.db")
	c := serve(t, func(cfg *registry.Config) { cfg.Database.URL = config.Secret("sqlite:" + path) })
	raw, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	return c, raw
}

// link records n agents and links each to a server of the key of its own.
func (c clients) link(t testing.TB, raw *sql.DB, n int) {
	t.Helper()
	for first := 0; first < n; first += 1000 {
		var names []string
		for i := first; i < min(first+1000, n); i++ {
			names = append(names, fmt.Sprintf("BM-%06d", i))
		}
		c.record(t, beats(names...))
	}
	if _, err := raw.ExecContext(t.Context(), `UPDATE TblAgent SET RegistrationState = 2, ServerKey = AgentKey`); err != nil {
		t.Fatal(err)
	}
}

// fleet reads the whole stream; the head comes first, and only once.
func (c clients) fleet(t testing.TB) (head *registryv1.FleetHead, parts [][]*registryv1.FleetServer) {
	t.Helper()
	stream, err := c.agents.ReadFleet(t.Context(), &registryv1.ReadFleetRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return head, parts
		}
		if err != nil {
			t.Fatal(err)
		}
		if (response.GetHead() != nil) != (head == nil) {
			t.Fatal("the head must come once, and first")
		}
		if head == nil {
			head = response.GetHead()
			continue
		}
		parts = append(parts, response.GetServers().GetServers())
	}
}

func TestReadFleetSendsTheHeadAndThenParts(t *testing.T) {
	c, raw := onFile(t)
	head, parts := c.fleet(t)
	if len(parts) != 0 || len(head.GetPaths()) != 2 || head.GetReadAt() == nil {
		t.Fatal(head, parts)
	}
	for i, path := range head.GetPaths() {
		if int(path.GetPath()) != i+1 || path.GetReportedAt() != nil || path.GetHealthySince() != nil || path.GetBacklog() != nil || path.GetHeardAt() != nil || path.GetDetail() == "" {
			t.Fatal(path)
		}
	}
	c.link(t, raw, 2345)
	second := durationpb.New(time.Second)
	if _, err := c.agents.ReportIngestEvidence(t.Context(), &registryv1.ReportIngestEvidenceRequest{
		Path: registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS, ConsumerId: "one", CanaryRoundTrip: second, OldestMessageAge: second,
	}); err != nil {
		t.Fatal(err)
	}
	head, parts = c.fleet(t)
	if len(parts) != 3 || len(parts[0]) != 1000 || len(parts[1]) != 1000 || len(parts[2]) != 345 {
		t.Fatalf("%d parts", len(parts))
	}
	seen := map[int64]bool{}
	for _, part := range parts {
		for _, server := range part {
			seen[server.GetServerKey()] = true
			if server.GetRegistrationState() != registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED || server.GetRemoved() || server.GetAgent() == "" || server.GetLastBusHeartbeatAt() == nil || server.GetLastDirectHeartbeatAt() != nil {
				t.Fatal(server)
			}
		}
	}
	if len(seen) != 2345 {
		t.Fatalf("%d servers", len(seen))
	}
	bus, direct := head.GetPaths()[0], head.GetPaths()[1]
	if bus.GetReportedAt() == nil || bus.GetHealthySince() == nil || bus.GetBacklog().AsDuration() != time.Second || bus.GetHeardAt() == nil || bus.GetDetail() != "" {
		t.Fatal(bus)
	}
	if direct.GetReportedAt() != nil || direct.GetHeardAt() != nil {
		t.Fatal(direct)
	}
}

func TestReadFleetTellsHowServersAgentsStand(t *testing.T) {
	c, _ := onFile(t)
	c.record(t, beats("BM-1", "BM-2", "BM-3"))
	for _, name := range []string{"BM-1", "BM-2"} {
		if _, err := c.agents.AcceptAgent(t.Context(), &registryv1.AcceptAgentRequest{
			Name: name, Etag: c.read(t, name).GetEtag(), CreateServer: &registryv1.NewServer{Url: "https://x"}, Actor: "tester",
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.agents.RejectAgent(t.Context(), &registryv1.RejectAgentRequest{Name: name, Etag: c.read(t, name).GetEtag(), Actor: "tester"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.agents.RemoveAgent(t.Context(), &registryv1.RemoveAgentRequest{Name: "BM-2", Etag: c.read(t, "BM-2").GetEtag(), Actor: "tester"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.agents.AddAgent(t.Context(), &registryv1.AddAgentRequest{
		Name: "QA-1", HttpBaseUrl: "http://127.0.0.1:9/", CreateServer: &registryv1.NewServer{Url: "https://x"}, Actor: "tester",
	}); err != nil {
		t.Fatal(err)
	}
	base := c.read(t, "QA-1").GetHttpBaseUrl()
	if _, err := c.agents.RecordHttpVerification(t.Context(), &registryv1.RecordHttpVerificationRequest{
		Name: "QA-1", HttpBaseUrl: base, Outcome: registryv1.VerificationOutcome_VERIFICATION_OUTCOME_SUCCEEDED,
	}); err != nil {
		t.Fatal(err)
	}
	_, parts := c.fleet(t)
	if len(parts) != 1 || len(parts[0]) != 3 {
		t.Fatal(parts)
	}
	rejected, removed, added := parts[0][0], parts[0][1], parts[0][2]
	if rejected.GetAgent() != "BM-1" || rejected.GetRemoved() || rejected.GetRegistrationState() != registryv1.RegistrationState_REGISTRATION_STATE_REJECTED {
		t.Error(rejected)
	}
	if removed.GetAgent() != "BM-2" || !removed.GetRemoved() || removed.GetRegistrationState() != registryv1.RegistrationState_REGISTRATION_STATE_UNSPECIFIED || removed.GetLastBusHeartbeatAt() != nil {
		t.Error(removed)
	}
	if added.GetAgent() != "QA-1" || added.GetHttpBaseUrl() != base || !added.GetHttpVerified() || added.GetRegistrationState() != registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED {
		t.Error(added)
	}
}

// A transaction that were open while a caller is slow would keep the write-ahead log from being emptied.
func TestASlowReaderOfTheFleetHoldsNoTransactionOpen(t *testing.T) {
	c, raw := onFile(t)
	c.link(t, raw, 6000)
	const window = 64 << 10 // and it does not grow, so that it takes a part of what is sent
	connection, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	stream, err := registryv1.NewAgentRegistryClient(connection).ReadFleet(t.Context(), &registryv1.ReadFleetRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	c.record(t, beats("BM-NEW"))
	busy := 1
	for deadline := time.Now().Add(2 * time.Minute); busy != 0; { // the registry's own short reads may be in the way
		if time.Now().After(deadline) {
			t.Fatal("a transaction stays open")
		}
		if err := raw.QueryRowContext(t.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, new(int), new(int)); err != nil {
			t.Fatal(err)
		}
	}
	parts := 0
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		parts++
	}
	if parts != 6 {
		t.Fatalf("%d parts", parts)
	}
}

func TestRolesOverAConnection(t *testing.T) {
	var file string
	for _, role := range []string{"availability", "gateway", "heartbeat", "admin", "viewer"} {
		file += fmt.Sprintf("- {sha256: %x, principal: the-%s, role: %s}\n", sha256.Sum256([]byte("fake-"+role)), role, role)
	}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	c := serve(t, func(cfg *registry.Config) { cfg.GRPC.TokenFile = path })
	for role, may := range map[string]struct{ fleet, list bool }{"availability": {fleet: true}, "gateway": {list: true}, "heartbeat": {}, "admin": {true, true}, "viewer": {}} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer fake-"+role)
		_, listed := c.servers.ListServers(ctx, &registryv1.ListServersRequest{})
		stream, read := c.agents.ReadFleet(ctx, &registryv1.ReadFleetRequest{})
		if read == nil {
			_, read = stream.Recv()
		}
		for what, answer := range map[string]struct {
			err     error
			allowed bool
		}{"ReadFleet": {read, may.fleet}, "ListServers": {listed, may.list}} {
			if (answer.err == nil) != answer.allowed || (answer.err != nil && fault.From(answer.err).Reason != fault.PermissionDenied) {
				t.Errorf("%s by %s: %v", what, role, answer.err)
			}
		}
	}
}

// BenchmarkReadFleetOverGRPC is one read as the availability service makes it, until all of it has arrived.
func BenchmarkReadFleetOverGRPC(b *testing.B) {
	for _, agents := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) {
			c, raw := onFile(b)
			c.link(b, raw, agents)
			if _, err := raw.ExecContext(b.Context(), `UPDATE TblAgent SET HttpBaseUrl = 'https://' || Name || '.example.test:8443', HttpVerification = 1, IisBindings = hex(randomblob(500))`); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, parts := c.fleet(b); len(parts) != agents/1000 {
					b.Fatalf("%d parts", len(parts))
				}
			}
		})
	}
}
