package heartbeat_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	emulator "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
	"github.com/commandcenter/fleet/services/heartbeat"
	"github.com/commandcenter/fleet/services/internal/config"
)

// claimRenewer may outlive its link: when many at once use a link of the SDK that was lost, each opens it anew, and closing ends the
// renewals of claims of the last one only.
const claimRenewer = "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal.(*Namespace).startNegotiateClaimRenewer.func3"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(claimRenewer)) }

// patience bounds what must happen, so that a failure does not hang; nothing waits for it to pass.
const patience = 40 * time.Second

const (
	topic        = "agent-state"
	subscription = "commandcenter"
)

// fakeRegistry keeps what was stored by agent, and fails as told.
type fakeRegistry struct {
	registryv1.UnimplementedAgentRegistryServer

	mu     sync.Mutex
	stored map[string]int64 // the highest sequence by agent
	direct direct
	items  int
	calls  int
	proofs []*registryv1.ReportIngestEvidenceRequest
	ages   map[string]*durationpb.Duration // with which each agent's newest heartbeat came
	// databaseAhead is how far the database's clock is ahead of this machine's.
	databaseAhead time.Duration
	// before decides about a call before anything is stored; nil lets all through.
	before func(context.Context, *registryv1.RecordHeartbeatsRequest) error
}

func (r *fakeRegistry) set(before func(context.Context, *registryv1.RecordHeartbeatsRequest) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = before
}

func (r *fakeRegistry) RecordHeartbeats(ctx context.Context, request *registryv1.RecordHeartbeatsRequest) (*registryv1.RecordHeartbeatsResponse, error) {
	r.mu.Lock()
	before := r.before
	r.calls++
	r.mu.Unlock()
	if before != nil {
		if err := before(ctx, request); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := &registryv1.RecordHeartbeatsResponse{}
	for _, one := range request.GetHeartbeats() {
		answer.Results = append(answer.Results, r.store(one))
	}
	return answer, nil
}

func (r *fakeRegistry) store(one *registryv1.ObservedHeartbeat) *registryv1.RecordedHeartbeat {
	name, sequence := one.GetHeartbeat().GetName(), one.GetHeartbeat().GetSequence()
	if name == "" {
		return &registryv1.RecordedHeartbeat{
			Result: registryv1.HeartbeatResult_HEARTBEAT_RESULT_INVALID, Field: "heartbeat.name", Description: "heartbeat.name: is required",
		}
	}
	if refused := r.direct.refuses(r.stored, one); refused != nil {
		return refused
	}
	r.items++
	if r.ages == nil {
		r.ages = map[string]*durationpb.Duration{}
	}
	r.ages[name] = one.GetAge()
	before, known := r.stored[name]
	r.stored[name] = max(before, sequence)
	result := registryv1.HeartbeatResult_HEARTBEAT_RESULT_UPDATED
	switch {
	case !known:
		result = registryv1.HeartbeatResult_HEARTBEAT_RESULT_CREATED
	case sequence == before:
		result = registryv1.HeartbeatResult_HEARTBEAT_RESULT_DUPLICATE
	case sequence < before:
		result = registryv1.HeartbeatResult_HEARTBEAT_RESULT_STALE
	}
	return &registryv1.RecordedHeartbeat{Result: result, FailoverList: r.direct.listFor(one)}
}

func (r *fakeRegistry) ReportIngestEvidence(_ context.Context, request *registryv1.ReportIngestEvidenceRequest) (*registryv1.ReportIngestEvidenceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proofs = append(r.proofs, request)
	return &registryv1.ReportIngestEvidenceResponse{DatabaseTime: timestamppb.New(time.Now().Add(r.databaseAhead))}, nil
}

func (r *fakeRegistry) agents() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.stored)
}

func (r *fakeRegistry) evidence() []*registryv1.ReportIngestEvidenceRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.proofs)
}

// server is a registry that can be stopped and started at one address.
type server struct {
	registry *fakeRegistry
	cloud    *fakeCloud
	address  string
	grpc     *grpc.Server
	served   sync.WaitGroup
}

func (s *server) start(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("tcp", s.address)
	check(t, err)
	s.address = listener.Addr().String()
	s.grpc = grpc.NewServer()
	registryv1.RegisterAgentRegistryServer(s.grpc, s.registry)
	registryv1.RegisterControlCloudServer(s.grpc, s.cloud)
	s.served.Go(func() { _ = s.grpc.Serve(listener) })
}

func (s *server) stop() {
	s.grpc.Stop()
	s.served.Wait()
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{registry: &fakeRegistry{stored: map[string]int64{}}, cloud: &fakeCloud{}, address: "127.0.0.1:0"}
	s.start(t)
	t.Cleanup(s.stop)
	return s
}

func newEmulator(t testing.TB, p emulator.SubscriptionProperties) *emulator.Emulator {
	t.Helper()
	return newEmulatorAt(t, p, nil)
}

// newEmulatorAt is one with a clock of its own; nil is this machine's.
func newEmulatorAt(t testing.TB, p emulator.SubscriptionProperties, clock broker.Clock) *emulator.Emulator {
	t.Helper()
	if p.LockDuration == 0 {
		p.LockDuration = emulator.Duration(20 * time.Second) // as in production; the emulator's default is a minute
	}
	e, err := emulator.Start(emulator.Config{UserConfig: emulator.UserConfig{Namespaces: []emulator.Namespace{{
		Topics: []emulator.Topic{{Name: topic, Subscriptions: []emulator.Subscription{{Name: subscription, Properties: p}}}},
	}}}}, emulator.Options{Clock: clock})
	check(t, err)
	t.Cleanup(func() { check(t, e.Close()) })
	return e
}

// replica is a heartbeat service under way.
type replica struct {
	at    heartbeat.Endpoints
	stop  context.CancelFunc
	ended chan error
}

func settings(e *emulator.Emulator, registry *server) heartbeat.Config {
	cfg := heartbeat.DefaultConfig()
	cfg.GRPC.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Registry.Target = registry.address
	cfg.Bus.ConnectionString = config.Secret(e.ConnectionString())
	cfg.Logger = slog.New(slog.DiscardHandler)
	return cfg
}

func run(t testing.TB, cfg heartbeat.Config) *replica {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &replica{stop: stop, ended: make(chan error, 1)}
	ready := make(chan heartbeat.Endpoints, 1)
	cfg.Ready = func(at heartbeat.Endpoints) { ready <- at }
	go func() { r.ended <- heartbeat.Run(ctx, cfg) }()
	select {
	case r.at = <-ready:
	case err := <-r.ended:
		stop()
		t.Fatalf("did not start: %v", err)
	case <-time.After(patience):
		t.Fatal("not ready in time")
	}
	t.Cleanup(func() { r.end(t) })
	return r
}

// end stops it gracefully; again is nothing.
func (r *replica) end(t testing.TB) {
	t.Helper()
	r.stop()
	select {
	case err, open := <-r.ended:
		if open {
			check(t, err)
			close(r.ended)
		}
	case <-time.After(patience):
		t.Fatal("did not stop in time")
	}
}

// ready reports whether all works that /readyz?verbose tells of, also what readiness does not depend on.
func (r *replica) ready() (bool, string) {
	status, text := r.readyz()
	return status == http.StatusOK && !strings.Contains(text, "[-]"), text
}

// readyz asks /readyz?verbose.
func (r *replica) readyz() (status int, text string) {
	response, err := http.Get("http://" + r.at.Admin + "/readyz?verbose")
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// bus is the SDK as agents use it.
func bus(t testing.TB, e *emulator.Emulator) *azservicebus.Client {
	t.Helper()
	client, err := azservicebus.NewClientFromConnectionString(e.ConnectionString(), &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{RetryDelay: 10 * time.Millisecond},
	})
	check(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = client.Close(ctx)
	})
	return client
}

// send sends bodies in batches.
func send(t testing.TB, e *emulator.Emulator, bodies ...string) {
	t.Helper()
	sender, err := bus(t, e).NewSender(topic, nil)
	check(t, err)
	for part := range slices.Chunk(bodies, 100) {
		batch, err := sender.NewMessageBatch(t.Context(), nil)
		check(t, err)
		for _, body := range part {
			check(t, batch.AddMessage(&azservicebus.Message{Body: []byte(body)}, nil))
		}
		check(t, sender.SendMessageBatch(t.Context(), batch, nil))
	}
}

// bodies are heartbeats of so many agents.
func bodies(agents, sequence int) []string {
	all := make([]string, agents)
	for i := range all {
		all[i] = fmt.Sprintf(`{"name":"AGENT-%06d","bootId":"b","sequence":"%d"}`, i, sequence)
	}
	return all
}

// deadLetters receives what was dead-lettered.
func deadLetters(t testing.TB, e *emulator.Emulator, n int) map[string]*azservicebus.ReceivedMessage {
	t.Helper()
	r, err := bus(t, e).NewReceiverForSubscription(topic, subscription, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	found := map[string]*azservicebus.ReceivedMessage{}
	for len(found) < n {
		messages, err := r.ReceiveMessages(ctx, n, nil)
		check(t, err)
		for _, message := range messages {
			found[string(message.Body)] = message
		}
	}
	return found
}

func counts(t testing.TB, e *emulator.Emulator) emulator.Counts {
	t.Helper()
	found, err := e.Counts(topic, subscription)
	check(t, err)
	return found
}

func drained(t testing.TB, e *emulator.Emulator) {
	t.Helper()
	eventually(t, "the subscription is empty", func() bool { c := counts(t, e); return c.Active == 0 && c.Locked == 0 })
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ticker, late := time.NewTicker(2*time.Millisecond), time.After(patience)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-late:
			t.Fatalf("%s: not in time", what)
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func unavailable(context.Context, *registryv1.RecordHeartbeatsRequest) error {
	return status.Error(codes.Unavailable, "down")
}

// metric is the value of one time series; empty if there is none.
func (r *replica) metric(t testing.TB, series string) string {
	t.Helper()
	response, err := http.Get("http://" + r.at.Admin + "/metrics")
	check(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	check(t, err)
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, series+" "); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(content []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(content)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
