package rpc

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// stubCatalog has two servers, of which the availability service judges one.
type stubCatalog struct{ registryv1.ServerCatalogClient }

func (stubCatalog) ListServers(context.Context, *registryv1.ListServersRequest, ...grpc.CallOption) (*registryv1.ListServersResponse, error) {
	return &registryv1.ListServersResponse{Servers: []*registryv1.Server{{ServerKey: 7, Name: "BM-7"}, {ServerKey: 8, Name: "WEB-8"}}}, nil
}

func (stubCatalog) GetServer(context.Context, *registryv1.GetServerRequest, ...grpc.CallOption) (*registryv1.GetServerResponse, error) {
	return &registryv1.GetServerResponse{Server: &registryv1.Server{ServerKey: 7, Name: "BM-7"}}, nil
}

func (stubCatalog) CreateServer(context.Context, *registryv1.CreateServerRequest, ...grpc.CallOption) (*registryv1.CreateServerResponse, error) {
	return &registryv1.CreateServerResponse{Server: &registryv1.Server{ServerKey: 7, Name: "BM-7"}}, nil
}

func (stubCatalog) UpdateServer(context.Context, *registryv1.UpdateServerRequest, ...grpc.CallOption) (*registryv1.UpdateServerResponse, error) {
	return &registryv1.UpdateServerResponse{Server: &registryv1.Server{ServerKey: 7, Name: "BM-7"}}, nil
}

func verdictsThat(err error, servers ...*availabilityv1.ServerAvailability) *Verdicts {
	return NewVerdicts(stubVerdicts{answer: func(context.Context, *availabilityv1.ListAvailabilityRequest) (*availabilityv1.ListAvailabilityResponse, error) {
		return &availabilityv1.ListAvailabilityResponse{Servers: servers}, err
	}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

func TestServersAreListedWithTheirState(t *testing.T) {
	maintained := &availabilityv1.ServerAvailability{ServerKey: 7, State: registryv1.ServerState_SERVER_STATE_MAINTENANCE}
	for name, row := range map[string]struct {
		verdicts *Verdicts
		want     registryv1.ServerState
	}{
		"as it is judged":                  {verdictsThat(nil, maintained), registryv1.ServerState_SERVER_STATE_MAINTENANCE},
		"without the availability service": {verdictsThat(errors.New("away")), registryv1.ServerState_SERVER_STATE_UNSPECIFIED},
	} {
		s := &Servers{Registry: Registry{Servers: stubCatalog{}}, Verdicts: row.verdicts, Logger: slog.New(slog.DiscardHandler)}
		listed, err := s.ListServers(t.Context(), &operatorv1.ListServersRequest{})
		if err != nil || listed.GetServers()[0].GetState() != row.want || listed.GetServers()[1].GetState() != registryv1.ServerState_SERVER_STATE_UNSPECIFIED {
			t.Errorf("%s: listed %v, %v", name, listed, err)
		}
		if shown, err := s.GetServer(t.Context(), &operatorv1.GetServerRequest{Server: "BM-7"}); err != nil || shown.GetState() != row.want {
			t.Errorf("%s: shown %v, %v", name, shown, err)
		}
		if shown, err := s.GetServerByKey(t.Context(), &operatorv1.GetServerByKeyRequest{Key: 7}); err != nil || shown.GetState() != row.want {
			t.Errorf("%s: shown by key %v, %v", name, shown, err)
		}
		if created, err := s.CreateServer(t.Context(), &operatorv1.CreateServerRequest{Name: "BM-7"}); err != nil || created.GetState() != row.want {
			t.Errorf("%s: created %v, %v", name, created, err)
		}
		if updated, err := s.UpdateServer(t.Context(), &operatorv1.UpdateServerRequest{Server: "BM-7", Etag: "7-1"}); err != nil || updated.GetState() != row.want {
			t.Errorf("%s: updated %v, %v", name, updated, err)
		}
		if updated, err := s.UpdateServerByKey(t.Context(), &operatorv1.UpdateServerByKeyRequest{Key: 7, Etag: "7-1"}); err != nil || updated.GetState() != row.want {
			t.Errorf("%s: updated by key %v, %v", name, updated, err)
		}
	}
}

// The list of agents reads the registry, which knows the newest heartbeat; what the availability service stored may be hours old.
func TestAgentsAreListedWithTheirNewestHeartbeat(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	agent := linked(7)
	agent.LastBusHeartbeatAt, agent.LastDirectHeartbeatAt = timestamppb.New(now.Add(-time.Hour)), timestamppb.New(now)
	for reason, want := range map[string]*timestamppb.Timestamp{"heartbeat fresh": timestamppb.New(now), "heartbeat silent": timestamppb.New(now), "never accepted": nil} {
		found := verdictsThat(nil, &availabilityv1.ServerAvailability{ServerKey: 7, Reason: reason}).of(t.Context(), []*registryv1.Agent{agent})
		if got := found[7].GetHeardAt(); (got == nil) != (want == nil) || want != nil && !got.AsTime().Equal(want.AsTime()) {
			t.Errorf("%s: heard at %v, want %v", reason, got, want)
		}
	}
}
