package rpc

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/registry/internal/store"
	"github.com/prometheus/client_golang/prometheus"
)

// A value that a constraint of the legacy tables refuses will be refused again: it is the caller's to mend, and no outage.
func TestI17_AValueTheDatabaseRefusesIsNoOutage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	raw, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.ExecContext(t.Context(), `CREATE TABLE TblServer (ServerKey INTEGER PRIMARY KEY, Name TEXT NOT NULL, Url TEXT CONSTRAINT ShortUrl CHECK (length(Url) < 20), Type TEXT, Active INTEGER, Online INTEGER)`); err != nil {
		t.Fatal(err)
	}
	opened, err := store.Open("sqlite:"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if _, _, err := opened.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	servers := &Servers{Store: opened}
	_, err = servers.CreateServer(t.Context(), &registryv1.CreateServerRequest{Name: "BM-1", Url: "https://bm-1.a-long-name.example.test"})
	if refused := fault.From(err); refused.Reason != fault.InvalidArgument || !strings.Contains(refused.Detail, "ShortUrl") || !strings.Contains(refused.Detail, "nothing was changed") {
		t.Fatal(err)
	}
	if _, err := servers.GetServer(t.Context(), &registryv1.GetServerRequest{Name: "BM-1"}); fault.From(err).Reason != fault.ServerNotFound {
		t.Fatal(err)
	}
}

// A database that fails gives no result for any heartbeat, and a reason on which callers may try again.
func TestI7_AFailingDatabaseIsAnsweredWithAnErrorAndNoResult(t *testing.T) {
	opened, err := store.Open("sqlite:"+filepath.Join(t.TempDir(), "fleet.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := opened.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	agents := &Agents{Store: opened, Metrics: NewMetrics(prometheus.NewRegistry())}
	response, err := agents.RecordHeartbeats(context.WithoutCancel(t.Context()), &registryv1.RecordHeartbeatsRequest{Heartbeats: []*registryv1.ObservedHeartbeat{
		{Heartbeat: &agentv1.Heartbeat{Name: "BM-1"}, Path: registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS, ObservedAt: timestamppb.Now()},
	}})
	if response != nil || fault.From(err).Reason != fault.RegistryUnavailable {
		t.Fatal(response, err)
	}
	if _, err := agents.GetAgent(t.Context(), &registryv1.GetAgentRequest{Name: "BM-1"}); fault.From(err).Reason != fault.RegistryUnavailable {
		t.Fatal(err)
	}
}
