package registry_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry"
)

type clients struct {
	address string
	agents  registryv1.AgentRegistryClient
	servers registryv1.ServerCatalogClient
	cloud   registryv1.ControlCloudClient
	health  healthv1.HealthClient
}

// serve runs a registry on a fresh SQLite file until the test ends.
func serve(t testing.TB, changes ...func(*registry.Config)) clients {
	t.Helper()
	cfg := registry.DefaultConfig()
	cfg.GRPC.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Database.URL, cfg.Database.Migrate = config.Secret("sqlite:"+filepath.Join(t.TempDir(), "fleet.db")), true
	cfg.Logger = slog.New(slog.DiscardHandler)
	for _, change := range changes {
		change(&cfg)
	}
	ready, ended := make(chan registry.Endpoints, 1), make(chan error, 1)
	cfg.Ready = func(e registry.Endpoints) { ready <- e }
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- registry.Run(ctx, cfg) }()
	var endpoints registry.Endpoints
	select {
	case endpoints = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	connection, err := grpc.NewClient(endpoints.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = connection.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error("Run: ", err)
		}
	})
	return clients{
		endpoints.GRPC, registryv1.NewAgentRegistryClient(connection), registryv1.NewServerCatalogClient(connection),
		registryv1.NewControlCloudClient(connection), healthv1.NewHealthClient(connection),
	}
}

func beats(names ...string) *registryv1.RecordHeartbeatsRequest {
	request := &registryv1.RecordHeartbeatsRequest{}
	for _, name := range names {
		request.Heartbeats = append(request.Heartbeats, &registryv1.ObservedHeartbeat{
			Heartbeat: &agentv1.Heartbeat{Name: name, BootId: "a", Sequence: 1, Hostname: "host"}, Path: registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS, ObservedAt: timestamppb.Now(),
		})
	}
	return request
}

func (c clients) record(t testing.TB, request *registryv1.RecordHeartbeatsRequest) []registryv1.HeartbeatResult {
	t.Helper()
	response, err := c.agents.RecordHeartbeats(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var results []registryv1.HeartbeatResult
	for _, result := range response.GetResults() {
		results = append(results, result.GetResult())
	}
	return results
}

func (c clients) read(t testing.TB, name string) *registryv1.Agent {
	t.Helper()
	response, err := c.agents.GetAgent(t.Context(), &registryv1.GetAgentRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return response.GetAgent()
}

func refused(t testing.TB, err error, reason fault.Reason, detail string) *fault.Error {
	t.Helper()
	found := fault.From(err)
	if found == nil || found.Reason != reason || !strings.Contains(fmt.Sprint(found.Detail, found.Fields), detail) {
		t.Fatalf("got %v, want %s that says %q", err, reason, detail)
	}
	return found
}

func TestI17_OneBadHeartbeatNamesItsFieldAndHarmsNoOther(t *testing.T) {
	c := serve(t)
	request := beats("BM-1", "", "BM-2", "bad\x00name", "BM-3", "BM-4", "BM-5")
	request.Heartbeats[4].ObservedAt = nil
	request.Heartbeats[5].Path = registryv1.HeartbeatPath_HEARTBEAT_PATH_UNSPECIFIED
	request.Heartbeats[6].Heartbeat = nil
	response, err := c.agents.RecordHeartbeats(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	for i, field := range []string{"", "heartbeat.name", "", "heartbeat.name", "observed_at", "path", "heartbeat"} {
		result := response.GetResults()[i]
		if result.GetField() != field || (result.GetResult() == registryv1.HeartbeatResult_HEARTBEAT_RESULT_INVALID) != (field != "") || (field != "" && result.GetDescription() == "") {
			t.Errorf("item %d: %v, want field %q", i, result, field)
		}
	}
	list, err := c.agents.ListAgents(t.Context(), &registryv1.ListAgentsRequest{})
	if err != nil || len(list.GetAgents()) != 2 {
		t.Fatal(list, err)
	}
}

func TestI1_OnlyAnOperatorAcceptsAnAgent(t *testing.T) {
	c := serve(t)
	for range 3 {
		c.record(t, beats("BM-1"))
		if state := c.read(t, "bm-1").GetRegistrationState(); state != registryv1.RegistrationState_REGISTRATION_STATE_PENDING {
			t.Fatal(state)
		}
	}
}

func TestDecisionsAreCheckedInOrder(t *testing.T) {
	c := serve(t)
	c.record(t, beats("BM-1"))
	etag := c.read(t, "BM-1").GetEtag()
	accept := func(name, etag, server, url string) (*registryv1.AcceptAgentResponse, error) {
		request := &registryv1.AcceptAgentRequest{Name: name, Etag: etag, ServerName: server, Actor: "tester"}
		if url != "" {
			request.CreateServer = &registryv1.NewServer{Url: url}
		}
		return c.agents.AcceptAgent(t.Context(), request)
	}
	_, err := accept("BM-9", "", "BM-2", "")
	refused(t, err, fault.AgentNotFound, "BM-9")
	_, err = accept("bm-1", "", "BM-2", "")
	if found := refused(t, err, fault.EtagRequired, "etag"); found.CurrentEtag != etag || found.Agent == "" {
		t.Fatalf("%+v", found)
	}
	_, err = accept("bm-1", "1-77", "BM-2", "")
	if found := refused(t, err, fault.StaleEtag, ""); found.CurrentEtag != etag {
		t.Fatalf("%+v", found)
	}
	_, err = accept("bm-1", etag, "BM-2", "")
	refused(t, err, fault.NameMismatch, "BM-2")
	_, err = accept("bm-1", etag, "", "")
	refused(t, err, fault.ServerNotFound, "BM-1")
	for _, bad := range []string{"ftp://x", "https://", "x", "https://user@x", "https://x#y", "https://x:99999", "https://x:0", "https://x:"} {
		_, err = accept("bm-1", etag, "", bad)
		refused(t, err, fault.InvalidArgument, "/createServer/url")
	}
	accepted, err := accept("bm-1", etag, "bM-1", "https://bm-1.example.test")
	if err != nil || !accepted.GetServerCreated() || accepted.GetAgent().GetServer().GetName() != "BM-1" || accepted.GetAgent().GetDecidedBy() != "tester" {
		t.Fatal(accepted, err)
	}
	_, err = accept("bm-1", etag, "", "")
	refused(t, err, fault.StaleEtag, "")
	now := accepted.GetAgent().GetEtag()
	_, err = accept("bm-1", now, "", "")
	refused(t, err, fault.AlreadyDecided, "tester")
	_, err = c.agents.RemoveAgent(t.Context(), &registryv1.RemoveAgentRequest{Name: "bm-1", Etag: now, Actor: "tester"})
	refused(t, err, fault.InUse, "reject it first")
	_, err = c.servers.CreateServer(t.Context(), &registryv1.CreateServerRequest{Name: "bm-1", Url: "https://x", Actor: "tester"})
	refused(t, err, fault.NameTaken, "BM-1")
}

func TestBatchAcceptAnswersPerItem(t *testing.T) {
	c := serve(t)
	c.record(t, beats("BM-1", "BM-2", "BM-3"))
	if _, err := c.servers.CreateServer(t.Context(), &registryv1.CreateServerRequest{Name: "BM-1", Url: "https://x", Actor: "tester"}); err != nil {
		t.Fatal(err)
	}
	response, err := c.agents.BatchAcceptAgents(t.Context(), &registryv1.BatchAcceptAgentsRequest{Actor: "tester", Items: []*registryv1.BatchAcceptItem{
		{Name: "bm-2", Etag: c.read(t, "bm-2").GetEtag()},
		{Name: "nobody", Etag: "1-1"},
		{Name: "bm-3"},
		{Name: "", Etag: "1-1"},
		{Name: strings.Repeat("x", 129), Etag: strings.Repeat("y", 129)},
		{Name: "bm-1", Etag: c.read(t, "bm-1").GetEtag()},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, result := range response.GetResults() {
		reasons = append(reasons, result.GetReason())
	}
	if want := []string{"SERVER_NOT_FOUND", "AGENT_NOT_FOUND", "ETAG_REQUIRED", "INVALID_ARGUMENT", "INVALID_ARGUMENT", ""}; !slices.Equal(reasons, want) || response.GetResults()[5].GetAgent() == nil {
		t.Fatal(reasons)
	}
}

func TestPageTokensBelongToTheirQuestion(t *testing.T) {
	c := serve(t)
	c.record(t, beats("BM-1", "BM-2", "BM-3"))
	first, err := c.agents.ListAgents(t.Context(), &registryv1.ListAgentsRequest{PageSize: 2})
	if err != nil || len(first.GetAgents()) != 2 || first.GetNextPageToken() == "" {
		t.Fatal(first, err)
	}
	second, err := c.agents.ListAgents(t.Context(), &registryv1.ListAgentsRequest{PageSize: 2, PageToken: first.GetNextPageToken()})
	if err != nil || len(second.GetAgents()) != 1 || second.GetNextPageToken() != "" || second.GetAgents()[0].GetName() != "BM-3" {
		t.Fatal(second, err)
	}
	_, err = c.agents.ListAgents(t.Context(), &registryv1.ListAgentsRequest{PageSize: 2, Query: "bm", PageToken: first.GetNextPageToken()})
	refused(t, err, fault.InvalidArgument, "/pageToken")
	for _, broken := range []string{"x", "!!", strings.Repeat("A", 40)} {
		_, err = c.agents.ListAgents(t.Context(), &registryv1.ListAgentsRequest{PageToken: broken})
		refused(t, err, fault.InvalidArgument, "/pageToken")
		_, err = c.servers.ListServers(t.Context(), &registryv1.ListServersRequest{PageToken: broken})
		refused(t, err, fault.InvalidArgument, "/pageToken")
	}
}

func TestHealth(t *testing.T) {
	c := serve(t)
	for _, service := range []string{"", "commandcenter.registry.v1.AgentRegistry", "commandcenter.registry.v1.ServerCatalog", "commandcenter.registry.v1.ControlCloud"} {
		answer, err := c.health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v %v", service, answer, err)
		}
	}
}

func TestI17_SettingsThatAreWrongAreNamed(t *testing.T) {
	for key, change := range map[string]func(*registry.Config){
		"grpc.listen":      func(c *registry.Config) { c.GRPC.Listen = "0.0.0.0:7410" },
		"database":         func(c *registry.Config) { c.Database.URL = "" },
		"database.url":     func(c *registry.Config) { c.Database.URL = "oracle://x" },
		"database.urlFile": func(c *registry.Config) { c.Database.URL, c.Database.URLFile = "", "/nonexistent/url" },
		"database.migrate": func(c *registry.Config) { c.Database.URL, c.Database.Migrate = "sqlserver://u:p@h?encrypt=true", true },
		"grpc.tokenFile":   func(c *registry.Config) { c.GRPC.TokenFile = "/nonexistent/tokens" },

		"cloud.debounce":       func(c *registry.Config) { c.Cloud.Debounce = -1 },
		"cloud.leaseTimeout":   func(c *registry.Config) { c.Cloud.LeaseTimeout = 0 },
		"cloud.freezeInterval": func(c *registry.Config) { c.Cloud.FreezeInterval = 0 },
		"cloud.drainGrace":     func(c *registry.Config) { c.Cloud.DrainGrace = -time.Second },
		"returns.longestPause": func(c *registry.Config) { c.Returns.LongestPause = 11 * time.Minute },
		"returns.busReconnect": func(c *registry.Config) { c.Returns.BusReconnect = 0 },
		"cloud.evictionGrace":  func(c *registry.Config) { c.Cloud.EvictionGrace = c.Cloud.FreezeInterval },
	} {
		cfg := registry.DefaultConfig()
		cfg.Database.URL = "sqlite:/tmp/never-opened.db"
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// What the driver would refuse only at its first connection is refused at the start, under the key that was set.
func TestI17_ADatabaseURLTheDriverWouldRefuseIsNamed(t *testing.T) {
	for _, bad := range []string{"sqlserver://user:hidden@h?encrypt=banana", "sqlserver://user:hidden@h?encrypt=true&connection+timeout=x"} {
		file := filepath.Join(t.TempDir(), "url")
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		for key, database := range map[string]sqldb.Config{"database.url: ": {URL: config.Secret(bad)}, "database.urlFile: ": {URLFile: file}} {
			cfg := registry.DefaultConfig()
			cfg.Database.Config = database
			if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
	cfg := registry.DefaultConfig()
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Database.URLFile = filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(cfg.Database.URLFile, []byte("sqlite:"+filepath.Join(t.TempDir(), "empty.db")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := registry.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "database.urlFile: ") {
		t.Errorf("a start that fails must name the key: %v", err)
	}
}

func TestI17_TheAgeOfAVerificationIsChecked(t *testing.T) {
	c := serve(t)
	c.record(t, beats("BM-1"))
	for age, field := range map[time.Duration]string{0: "", time.Hour: "", time.Hour + 1: "/age", -1: "/age"} {
		_, err := c.agents.RecordHttpVerification(t.Context(), &registryv1.RecordHttpVerificationRequest{
			Name: "BM-1", HttpBaseUrl: "http://x", Outcome: registryv1.VerificationOutcome_VERIFICATION_OUTCOME_FAILED, Age: durationpb.New(age),
		})
		if field == "" {
			if err != nil {
				t.Error(age, err)
			}
			continue
		}
		refused(t, err, fault.InvalidArgument, field)
	}
}

func BenchmarkRecordHeartbeatsOverGRPC(b *testing.B) {
	c := serve(b)
	const agents = 10_000
	var requests []*registryv1.RecordHeartbeatsRequest
	for first := 0; first < agents; first += 1000 {
		var names []string
		for i := range 1000 {
			names = append(names, fmt.Sprintf("BM-%05d", first+i))
		}
		requests = append(requests, beats(names...))
		c.record(b, requests[len(requests)-1])
	}
	at := time.Now().Add(-24 * time.Hour)
	i := 0
	for b.Loop() {
		request := requests[i%len(requests)]
		i++
		at = at.Add(time.Second)
		for _, h := range request.GetHeartbeats() {
			h.Heartbeat.Sequence++
			h.ObservedAt = timestamppb.New(at)
		}
		c.record(b, request)
	}
	b.ReportMetric(float64(i*1000)/b.Elapsed().Seconds(), "heartbeats/s")
}
