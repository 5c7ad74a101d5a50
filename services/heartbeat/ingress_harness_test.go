package heartbeat_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	emulator "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/services/heartbeat"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// direct is what the fake registry knows of direct agents: the first token hash stored for a name wins.
type direct struct {
	tokens map[string]string // by lower-case name
	list   *agentv1.FailoverList
	// verdicts are answers by name, before anything else is looked at.
	verdicts map[string]*registryv1.RecordedHeartbeat
	seen     []*registryv1.ObservedHeartbeat
}

// refuses decides as the registry does; nil takes the heartbeat.
func (d *direct) refuses(stored map[string]int64, one *registryv1.ObservedHeartbeat) *registryv1.RecordedHeartbeat {
	if one.GetPath() != registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT {
		return nil
	}
	d.seen = append(d.seen, one)
	name, token := strings.ToLower(one.GetHeartbeat().GetName()), string(one.GetIdentity().GetTokenHash())
	if verdict := d.verdicts[name]; verdict != nil {
		return verdict
	}
	_, known := stored[one.GetHeartbeat().GetName()]
	held, claimed := d.tokens[name]
	var result registryv1.HeartbeatResult
	switch {
	case claimed && held != token:
		result = registryv1.HeartbeatResult_HEARTBEAT_RESULT_WRONG_TOKEN
	case !claimed && known:
		result = registryv1.HeartbeatResult_HEARTBEAT_RESULT_NOT_CLAIMABLE
	case !claimed && !one.GetIdentity().GetEnrols():
		result = registryv1.HeartbeatResult_HEARTBEAT_RESULT_NOT_REGISTERED
	default:
		if d.tokens == nil {
			d.tokens = map[string]string{}
		}
		d.tokens[name] = token
		return nil
	}
	return &registryv1.RecordedHeartbeat{Result: result}
}

func (d *direct) listFor(one *registryv1.ObservedHeartbeat) *agentv1.FailoverList {
	if one.GetIdentity() == nil || one.GetIdentity().GetListEtag() == d.list.GetEtag() {
		return nil
	}
	return d.list
}

func (r *fakeRegistry) setDirect(change func(*direct)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.direct)
}

// directs are the direct heartbeats that reached the registry.
func (r *fakeRegistry) directs() []*registryv1.ObservedHeartbeat {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.direct.seen)
}

// directEvidence is the newest evidence of the direct path.
func (r *fakeRegistry) directEvidence() (newest *registryv1.ReportIngestEvidenceRequest, reports int) {
	for _, proof := range r.evidence() {
		if proof.GetPath() == registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT {
			newest, reports = proof, reports+1
		}
	}
	return newest, reports
}

// fakeCloud lets control servers in and says what they are, as told.
type fakeCloud struct {
	registryv1.UnimplementedControlCloudServer

	mu       sync.Mutex
	state    registryv1.ControlServerState // unspecified: normal
	refusal  error
	renewals []*registryv1.RenewControlServerRequest
	left     []*registryv1.LeaveCloudRequest
	lists    map[string]*agentv1.FailoverList
	listing  error
}

func (c *fakeCloud) set(change func(*fakeCloud)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

func (c *fakeCloud) RenewControlServer(_ context.Context, request *registryv1.RenewControlServerRequest) (*registryv1.RenewControlServerResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewals = append(c.renewals, request)
	if c.refusal != nil {
		return nil, c.refusal
	}
	state := registryv1.ControlServerState_CONTROL_SERVER_STATE_NORMAL
	if c.state != 0 {
		state = c.state
	}
	return &registryv1.RenewControlServerResponse{State: state, DatabaseTime: timestamppb.New(time.Now().Add(time.Hour))}, nil
}

func (c *fakeCloud) LeaveCloud(_ context.Context, request *registryv1.LeaveCloudRequest) (*registryv1.LeaveCloudResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(c.left, request)
	return &registryv1.LeaveCloudResponse{}, nil
}

func (c *fakeCloud) GetFailoverList(_ context.Context, request *registryv1.GetFailoverListRequest) (*registryv1.GetFailoverListResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listing != nil {
		return nil, c.listing
	}
	list, known := c.lists[request.GetAgent()]
	if !known {
		return nil, fault.New(fault.AgentNotFound, "no such agent").GRPCStatus().Err()
	}
	return &registryv1.GetFailoverListResponse{FailoverList: list}, nil
}

func (c *fakeCloud) leavers() []*registryv1.LeaveCloudRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.left)
}

const enrolmentKey = "fake-enrolment-key"

// tokenOf is the token of the n-th machine: 43 characters of base64url.
func tokenOf(n int) string { return fmt.Sprintf("fake-token-%032d", n) }

// controlServer are the settings of a replica that is a control server too.
func controlServer(t testing.TB, e *emulator.Emulator, registry *server) heartbeat.Config {
	t.Helper()
	cfg := settings(e, registry)
	cfg.Ingress.Name, cfg.Ingress.DrainTimeout, cfg.Ingress.ConnectsPerSecond = "cs-1", 0, 100_000
	cfg.Ingress.GRPC.Listen, cfg.Ingress.REST.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Ingress.EnrolmentKeyFile = filepath.Join(t.TempDir(), "enrolment-key")
	check(t, os.WriteFile(cfg.Ingress.EnrolmentKeyFile, []byte(enrolmentKey+"\n"), 0o600))
	return cfg
}

// agents calls a control server over gRPC.
func agents(t testing.TB, r *replica) heartbeatv1.AgentIngressClient {
	t.Helper()
	conn, err := grpc.NewClient(r.at.IngressGRPC, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	check(t, err)
	t.Cleanup(func() { conn.Close() })
	return heartbeatv1.NewAgentIngressClient(conn)
}

func registration(name string, machine int) *heartbeatv1.RegisterRequest {
	return &heartbeatv1.RegisterRequest{
		Heartbeat: &agentv1.Heartbeat{Name: name, BootId: "b", Sequence: 1}, EnrolmentKey: enrolmentKey, Token: tokenOf(machine),
	}
}

func beat(name string, machine int, sequence int64) *heartbeatv1.HeartbeatRequest {
	return &heartbeatv1.HeartbeatRequest{Heartbeat: &agentv1.Heartbeat{Name: name, BootId: "b", Sequence: sequence}, Token: tokenOf(machine)}
}

// answered checks a refusal's reason and code, and returns it.
func answered(t testing.TB, what string, err error, reason fault.Reason) *fault.Error {
	t.Helper()
	found := fault.From(err)
	if err == nil || found.Reason != reason || status.Code(err) != reason.Code() {
		t.Fatalf("%s: answered %v, wanted %s", what, err, reason)
	}
	return found
}

// retryable checks that a refusal says when to come again.
func retryable(t testing.TB, what string, err error) *fault.Error {
	t.Helper()
	found := answered(t, what, err, fault.Busy)
	if status.Code(err) != codes.ResourceExhausted || found.RetryDelay <= 0 {
		t.Fatalf("%s: no delay in %v", what, err)
	}
	return found
}
