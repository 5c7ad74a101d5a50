package operatorgateway

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

func serverEvent(name string) *availabilityv1.WatchAvailabilityResponse {
	return &availabilityv1.WatchAvailabilityResponse{Event: &availabilityv1.WatchAvailabilityResponse_Server{Server: &availabilityv1.ServerAvailability{Server: name}}}
}

type watchStream = grpc.ServerStreamingServer[availabilityv1.WatchAvailabilityResponse]

// However a watch ends, if not by its caller, the last line is a problem that says so.
func TestAWatchThatEndsSaysWhy(t *testing.T) {
	availability := startAvailability(t)
	g := startGateway(t, startRegistry(t), withAvailability(availability))
	for name, row := range map[string]struct {
		end          error
		reason, says string
	}{
		"it fails":              {status.Error(codes.Unavailable, "gone"), "AVAILABILITY_UNAVAILABLE", "cannot be reached"},
		"it says why":           {fault.New(fault.AvailabilityUnavailable, "no database"), "AVAILABILITY_UNAVAILABLE", "no database"},
		"it just ends":          {nil, "AVAILABILITY_UNAVAILABLE", "watch again"},
		"the caller is slow":    {status.Error(codes.ResourceExhausted, "slow"), "AVAILABILITY_UNAVAILABLE", "too slowly"},
		"the credential is bad": {fault.New(fault.Unauthenticated, "who?"), "AVAILABILITY_UNAVAILABLE", "availability.tokenFile"},
	} {
		availability.watch = func(stream watchStream) error {
			_ = stream.Send(serverEvent("BM-01"))
			_ = stream.Send(&availabilityv1.WatchAvailabilityResponse{Event: &availabilityv1.WatchAvailabilityResponse_SnapshotComplete{SnapshotComplete: &availabilityv1.SnapshotComplete{Servers: 1}}})
			return row.end
		}
		answered := g.do("GET", "/api/availability:watch", "")
		lines := strings.Split(strings.TrimSpace(answered.body), "\n")
		if answered.status != 200 || len(lines) != 3 || !strings.HasPrefix(lines[0], `{"server":{`) || lines[1] != `{"snapshotComplete":{"servers":1}}` {
			t.Fatalf("%s: %d %s", name, answered.status, answered.body)
		}
		var problem map[string]any
		check(t, json.Unmarshal([]byte(lines[2]), &problem))
		if detail, _ := problem["detail"].(string); problem["reason"] != row.reason || !strings.Contains(detail, row.says) {
			t.Errorf("%s: %s", name, lines[2])
		}
	}
}

// watching opens a watch over REST, and gives its lines.
func (g *gateway) watching(ctx context.Context) *bufio.Reader {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	g.t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.at.REST+"/api/availability:watch", nil)
	check(g.t, err)
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	check(g.t, err)
	g.t.Cleanup(func() { response.Body.Close() })
	return bufio.NewReader(response.Body)
}

func readLine(t *testing.T, from *bufio.Reader, want string) {
	t.Helper()
	if line, err := from.ReadString('\n'); err != nil || !strings.Contains(line, want) {
		t.Fatalf("%q, %v: not %s", line, err, want)
	}
}

func TestAWatchEndsWithItsCaller(t *testing.T) {
	availability := startAvailability(t)
	ended := make(chan struct{})
	availability.watch = func(stream watchStream) error {
		_ = stream.Send(serverEvent("BM-01"))
		<-stream.Context().Done()
		close(ended)
		return stream.Context().Err()
	}
	g := startGateway(t, startRegistry(t), withAvailability(availability))
	ctx, leave := context.WithCancel(t.Context())
	readLine(t, g.watching(ctx), "BM-01")
	leave()
	eventually(t, "the watch is over", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
}

// Watches would go on for ever: a gateway that stops ends them, on both faces, and tells.
func TestAGatewayThatStopsEndsItsWatches(t *testing.T) {
	availability := startAvailability(t)
	availability.watch = func(stream watchStream) error {
		_ = stream.Send(serverEvent("BM-01"))
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	g := startGateway(t, startRegistry(t), withAvailability(availability))
	overREST := g.watching(t.Context())
	readLine(t, overREST, "BM-01")
	overGRPC, err := operatorv1.NewAvailabilityConfigClient(g.dial()).WatchAvailability(t.Context(), &operatorv1.WatchAvailabilityRequest{})
	check(t, err)
	if event, err := overGRPC.Recv(); err != nil || event.GetServer().GetServer() != "BM-01" {
		t.Fatalf("%v %v", event, err)
	}
	g.stop()
	readLine(t, overREST, "the gateway is stopping")
	if _, err := overGRPC.Recv(); fault.From(err) == nil || !strings.Contains(fault.From(err).Detail, "the gateway is stopping") {
		t.Errorf("over gRPC: %v", err)
	}
}
