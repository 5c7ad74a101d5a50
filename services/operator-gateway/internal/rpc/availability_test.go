package rpc

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// silentAvailability answers nothing that it was not told to.
type silentAvailability struct {
	availabilityv1.UnimplementedAvailabilityServer
	answer func(context.Context) error
}

func (a silentAvailability) ClearMaintenance(ctx context.Context, request *availabilityv1.ClearMaintenanceRequest) (*availabilityv1.ClearMaintenanceResponse, error) {
	changedBy := &availabilityv1.MaintenanceSwitch{ChangedBy: request.GetActor()}
	return &availabilityv1.ClearMaintenanceResponse{Maintenance: &availabilityv1.Maintenance{Server: request.GetServer(), Manual: changedBy}}, a.answer(ctx)
}

func (a silentAvailability) GetOverview(ctx context.Context, _ *availabilityv1.GetOverviewRequest) (*availabilityv1.GetOverviewResponse, error) {
	return &availabilityv1.GetOverviewResponse{}, a.answer(ctx)
}

func newAvailability(t *testing.T, answer func(context.Context) error) (*Availability, *bytes.Buffer, *grpc.Server) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, log := grpc.NewServer(), &bytes.Buffer{}
	availabilityv1.RegisterAvailabilityServer(server, silentAvailability{answer: answer})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &Availability{Service: availabilityv1.NewAvailabilityClient(conn), Logger: slog.New(slog.NewTextHandler(log, nil))}, log, server
}

// Errors name the service that did not answer, and say the same of it as of the registry.
func TestAChangeOfAvailabilityWithoutAnAnswer(t *testing.T) {
	ctx := authn.WithPrincipal(t.Context(), authn.Principal{Name: "alice"})
	for _, row := range []struct {
		name   string
		answer error
		want   fault.Reason
		says   string
	}{
		{"done", nil, "", ""},
		{"refused for a reason", fault.New(fault.StaleEtag, "changed meanwhile"), fault.StaleEtag, "changed meanwhile"},
		{"its database is down, it says", fault.New(fault.AvailabilityUnavailable, "no database"), fault.AvailabilityUnavailable, "no database"},
		{"timed out on the way", status.Error(codes.DeadlineExceeded, "late"), fault.OutcomeUnknown, "the availability service was asked to clear maintenance of server \"BM-1\""},
		{"our own credential is bad", fault.New(fault.Unauthenticated, "who?"), fault.AvailabilityUnavailable, "availability.tokenFile"},
		{"our own role is wrong", fault.New(fault.PermissionDenied, "no"), fault.AvailabilityUnavailable, "availability.tokenFile"},
		{"an older one", status.Error(codes.Unimplemented, "unknown method"), fault.AvailabilityUnavailable, "the availability service is older"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, log, _ := newAvailability(t, func(context.Context) error { return row.answer })
			cleared, err := s.ClearMaintenance(ctx, &operatorv1.ClearMaintenanceRequest{Server: "BM-1", Etag: "e"})
			found, outcome := fault.From(err), "outcome=done"
			switch {
			case row.want == "" && (err != nil || cleared.GetManual().GetChangedBy() != "alice"):
				t.Fatalf("%v %v", cleared, err)
			case row.want != "" && (found == nil || found.Reason != row.want || !strings.Contains(found.Detail, row.says) || strings.Contains(found.Detail, "registry")):
				t.Fatalf("%#v", err)
			case found != nil:
				outcome = "outcome=" + string(row.want)
			}
			if line := log.String(); strings.Count(line, "audit: decision") != 1 || !strings.Contains(line, outcome) || !strings.Contains(line, "server=BM-1") || !strings.Contains(line, `act="clear maintenance of server"`) {
				t.Errorf("audit line: %s", line)
			}
		})
	}
}

func TestAnAvailabilityServiceThatIsNotThereIsNamed(t *testing.T) {
	s, _, server := newAvailability(t, nil)
	server.Stop()
	_, err := s.ClearMaintenance(t.Context(), &operatorv1.ClearMaintenanceRequest{Server: "BM-1", Etag: "e"})
	_, readErr := s.GetOverview(t.Context(), &operatorv1.GetAvailabilityOverviewRequest{})
	for _, err := range []error{err, readErr} {
		if found := fault.From(err); found == nil || found.Reason != fault.AvailabilityUnavailable || found.Detail != "the availability service cannot be reached; nothing was changed" {
			t.Errorf("%v", err)
		}
	}
}

func TestAWatchWhoseTimeEndsSaysSo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	err := (&Availability{}).ended(ctx, status.FromContextError(ctx.Err()).Err())
	if found := fault.From(err); found == nil || found.Reason != fault.ReadTimeout || !strings.Contains(found.Detail, "watch again") {
		t.Errorf("%v", err)
	}
}

// stubVerdicts answers lists.
type stubVerdicts struct {
	availabilityv1.AvailabilityClient
	answer func(context.Context, *availabilityv1.ListAvailabilityRequest) (*availabilityv1.ListAvailabilityResponse, error)
}

func (s stubVerdicts) ListAvailability(ctx context.Context, request *availabilityv1.ListAvailabilityRequest, _ ...grpc.CallOption) (*availabilityv1.ListAvailabilityResponse, error) {
	return s.answer(ctx, request)
}

func linked(key int64) *registryv1.Agent {
	return &registryv1.Agent{Server: &registryv1.ServerLink{ServerKey: key}}
}

func TestVerdictsAreAskedForByServerKey(t *testing.T) {
	var asked *availabilityv1.ListAvailabilityRequest
	v := NewVerdicts(stubVerdicts{answer: func(_ context.Context, request *availabilityv1.ListAvailabilityRequest) (*availabilityv1.ListAvailabilityResponse, error) {
		asked = request
		return &availabilityv1.ListAvailabilityResponse{Servers: []*availabilityv1.ServerAvailability{{ServerKey: 9, Server: "BM-9"}}}, nil
	}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	agents := []*registryv1.Agent{{}, linked(7), linked(9)}
	for range 50 {
		agents = append(agents, linked(int64(100+len(agents))))
	}
	found := v.of(t.Context(), agents)
	if keys := asked.GetServerKeys(); len(keys) != 52 || keys[0] != 7 || keys[1] != 9 || asked.GetPageSize() != 52 {
		t.Errorf("asked %v", asked)
	}
	if len(found) != 1 || found[9].GetServer() != "BM-9" || found[0] != nil {
		t.Errorf("found %v", found)
	}
	asked = nil
	if found := v.of(t.Context(), []*registryv1.Agent{{}}); len(found) != 0 || asked != nil {
		t.Error("asked without a server to ask for")
	}
}

// However many lists go without verdicts, each waits a second at most, and the log says so once a minute.
func TestVerdictsThatDoNotComeAreToldNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &bytes.Buffer{}
		v := NewVerdicts(stubVerdicts{answer: func(ctx context.Context, _ *availabilityv1.ListAvailabilityRequest) (*availabilityv1.ListAvailabilityResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, slog.New(slog.NewTextHandler(log, nil)), prometheus.NewRegistry())
		began := time.Now()
		for range 120 {
			if found := v.of(t.Context(), []*registryv1.Agent{linked(7)}); len(found) != 0 {
				t.Fatal(found)
			}
		}
		if took := time.Since(began); took != 120*verdictsTimeout {
			t.Errorf("120 lists waited %s", took)
		}
		if told, counted := strings.Count(log.String(), "listed without availability"), testutil.ToFloat64(v.missing); told != 2 || counted != 120 {
			t.Errorf("told %d times, counted %v", told, counted)
		}
	})
}

// Neither a caller who leaves nor a gateway without an availability service is a failure to tell.
func TestWhatIsNoFailureOfTheAvailabilityServiceIsNotTold(t *testing.T) {
	log := &bytes.Buffer{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	gone, leave := context.WithCancel(t.Context())
	leave()
	left := NewVerdicts(stubVerdicts{answer: func(ctx context.Context, _ *availabilityv1.ListAvailabilityRequest) (*availabilityv1.ListAvailabilityResponse, error) {
		return nil, errors.New("gone")
	}}, logger, prometheus.NewRegistry())
	none := NewVerdicts(availabilityv1.NewAvailabilityClient(NoAvailability{}), logger, prometheus.NewRegistry())
	left.of(gone, []*registryv1.Agent{linked(7)})
	none.of(t.Context(), []*registryv1.Agent{linked(7)})
	if log.Len() != 0 || testutil.ToFloat64(left.missing) != 0 || testutil.ToFloat64(none.missing) != 0 {
		t.Errorf("told: %s", log)
	}
}
