package rpc

import (
	"context"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/registry/internal/store"
	"github.com/prometheus/client_golang/prometheus"
)

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
