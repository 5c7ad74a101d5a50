package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/restserver"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// face is the REST handler on a real listener, before the real gRPC server with services that only note what they were asked.
type face struct {
	*httptest.Server
	t       *testing.T
	handler *handler
	metrics *prometheus.Registry
	log     *lockedBuffer

	mu     sync.Mutex
	asked  []proto.Message
	answer func(ctx context.Context, request proto.Message) (proto.Message, error)
	watch  func(stream grpc.ServerStreamingServer[availabilityv1.WatchAvailabilityResponse]) error
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(content []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(content)
}

// lines are the log's lines of a request.
func (b *lockedBuffer) lines(requestID string) []map[string]any {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []map[string]any
	for line := range strings.Lines(b.buffer.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && fields["request_id"] == requestID {
			found = append(found, fields)
		}
	}
	return found
}

func newFace(t *testing.T, tokens *authn.Tokens) *face {
	t.Helper()
	f := &face{t: t, metrics: prometheus.NewRegistry(), log: &lockedBuffer{}}
	logger := slog.New(slog.NewJSONHandler(f.log, nil))
	behind, err := grpcserver.NewInProcess(grpcserver.Options{Tokens: tokens, Policy: rpc.Policy(), Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	operatorv1.RegisterAgentOperationsServer(behind, fakeOperations{face: f})
	operatorv1.RegisterAgentConfigServer(behind, fakeAgents{face: f})
	operatorv1.RegisterServerConfigServer(behind, fakeServers{face: f})
	operatorv1.RegisterAvailabilityConfigServer(behind, fakeAvailability{face: f})
	operatorv1.RegisterCloudConfigServer(behind, fakeCloud{face: f})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- behind.Run(ctx) }()
	made, err := NewHandler(ctx, Options{Conn: behind, Logger: logger, Metrics: f.metrics, LoopbackOnly: !tokens.Required()})
	if err != nil {
		t.Fatal(err)
	}
	f.handler = made.(*handler)
	f.Server = httptest.NewServer(made)
	t.Cleanup(func() {
		f.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return f
}

// note remembers a request and answers it.
func note[Response any](ctx context.Context, f *face, request proto.Message) (*Response, error) {
	f.mu.Lock()
	f.asked = append(f.asked, proto.Clone(request))
	answer := f.answer
	f.mu.Unlock()
	if answer == nil {
		return new(Response), nil
	}
	response, err := answer(ctx, request)
	if response == nil {
		return new(Response), err
	}
	return any(response).(*Response), err
}

// last is what the services were asked last; it fails if that is not exactly one request since the last time.
func last[Request proto.Message](f *face) Request {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) != 1 {
		f.t.Fatalf("the services were asked %d times: %v", len(f.asked), f.asked)
	}
	request, ok := f.asked[0].(Request)
	if !ok {
		f.t.Fatalf("the services were asked %T", f.asked[0])
	}
	f.asked = nil
	return request
}

func (f *face) askedNothing() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) != 0 {
		f.t.Errorf("the services were asked all the same: %v", f.asked)
		f.asked = nil
	}
}

func (f *face) answering(answer func(ctx context.Context, request proto.Message) (proto.Message, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// reply is an answer, read whole.
type reply struct {
	*http.Response
	body    []byte
	problem restserver.Problem
}

// do makes one call; headers come in pairs.
func (f *face) do(method, path, body string, headers ...string) reply {
	f.t.Helper()
	request, err := http.NewRequest(method, f.URL+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
		request.Header.Add(headers[i], headers[i+1])
	}
	response, err := f.Client().Do(request)
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	answered := reply{Response: response, body: content}
	if response.StatusCode >= 400 && method != http.MethodHead {
		f.checkProblem(&answered)
	}
	return answered
}

// checkProblem reads problem details, and makes sure of what all have.
func (f *face) checkProblem(answered *reply) {
	f.t.Helper()
	if kind := answered.Header.Get("Content-Type"); kind != "application/problem+json" {
		f.t.Fatalf("%s: the error is %q: %s", answered.Status, kind, answered.body)
	}
	decoder := json.NewDecoder(bytes.NewReader(answered.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&answered.problem); err != nil {
		f.t.Fatalf("%s: %v: %s", answered.Status, err, answered.body)
	}
	p := answered.problem
	if p.Status != answered.StatusCode || p.Title == "" || p.Detail == "" || p.Reason == "" || !strings.HasPrefix(p.Type, "urn:commandcenter:problem:") {
		f.t.Errorf("the problem of %s lacks something: %s", answered.Status, answered.body)
	}
	if id := answered.Header.Get("X-Request-Id"); id == "" || p.Instance != "urn:commandcenter:request:"+id {
		f.t.Errorf("the problem's instance %q does not name the request %q", p.Instance, id)
	}
}

type fakeOperations struct {
	operatorv1.UnimplementedAgentOperationsServer
	*face
}

func (f fakeOperations) ListAgents(ctx context.Context, r *operatorv1.ListAgentsRequest) (*operatorv1.ListAgentsResponse, error) {
	return note[operatorv1.ListAgentsResponse](ctx, f.face, r)
}

func (f fakeOperations) GetRoute(ctx context.Context, r *operatorv1.GetRouteRequest) (*operatorv1.GetRouteResponse, error) {
	return note[operatorv1.GetRouteResponse](ctx, f.face, r)
}

func (f fakeOperations) ListServices(ctx context.Context, r *operatorv1.ListServicesRequest) (*operatorv1.ListServicesResponse, error) {
	return note[operatorv1.ListServicesResponse](ctx, f.face, r)
}

func (f fakeOperations) RestartService(ctx context.Context, r *operatorv1.RestartServiceRequest) (*operatorv1.CommandResponse, error) {
	return note[operatorv1.CommandResponse](ctx, f.face, r)
}

func (f fakeOperations) RecycleAppPool(ctx context.Context, r *operatorv1.RecycleAppPoolRequest) (*operatorv1.CommandResponse, error) {
	return note[operatorv1.CommandResponse](ctx, f.face, r)
}

func (f fakeOperations) Uninstall(ctx context.Context, r *operatorv1.UninstallRequest) (*operatorv1.CommandResponse, error) {
	return note[operatorv1.CommandResponse](ctx, f.face, r)
}

func (f fakeOperations) SyncPackages(ctx context.Context, r *operatorv1.SyncPackagesRequest) (*operatorv1.CommandResponse, error) {
	return note[operatorv1.CommandResponse](ctx, f.face, r)
}

type fakeAgents struct {
	operatorv1.UnimplementedAgentConfigServer
	*face
}

func (f fakeAgents) ListAgents(ctx context.Context, r *operatorv1.ListConfigAgentsRequest) (*operatorv1.ListConfigAgentsResponse, error) {
	return note[operatorv1.ListConfigAgentsResponse](ctx, f.face, r)
}

func (f fakeAgents) GetAgent(ctx context.Context, r *operatorv1.GetAgentRequest) (*registryv1.Agent, error) {
	return note[registryv1.Agent](ctx, f.face, r)
}

func (f fakeAgents) AcceptAgent(ctx context.Context, r *operatorv1.AcceptAgentRequest) (*operatorv1.AcceptedAgent, error) {
	return note[operatorv1.AcceptedAgent](ctx, f.face, r)
}

func (f fakeAgents) BatchAcceptAgents(ctx context.Context, r *operatorv1.BatchAcceptAgentsRequest) (*operatorv1.BatchAcceptAgentsResponse, error) {
	return note[operatorv1.BatchAcceptAgentsResponse](ctx, f.face, r)
}

func (f fakeAgents) ResetToken(ctx context.Context, r *operatorv1.ResetTokenRequest) (*registryv1.Agent, error) {
	return note[registryv1.Agent](ctx, f.face, r)
}

func (f fakeAgents) RemoveAgent(ctx context.Context, r *operatorv1.RemoveAgentRequest) (*operatorv1.RemoveAgentResponse, error) {
	return note[operatorv1.RemoveAgentResponse](ctx, f.face, r)
}

type fakeServers struct {
	operatorv1.UnimplementedServerConfigServer
	*face
}

func (f fakeServers) GetServer(ctx context.Context, r *operatorv1.GetServerRequest) (*registryv1.Server, error) {
	return note[registryv1.Server](ctx, f.face, r)
}

func (f fakeServers) CreateServer(ctx context.Context, r *operatorv1.CreateServerRequest) (*registryv1.Server, error) {
	return note[registryv1.Server](ctx, f.face, r)
}

func (f fakeServers) UpdateServer(ctx context.Context, r *operatorv1.UpdateServerRequest) (*registryv1.Server, error) {
	return note[registryv1.Server](ctx, f.face, r)
}

func (f fakeServers) ListOfflineLog(ctx context.Context, r *operatorv1.ListOfflineLogRequest) (*operatorv1.ListOfflineLogResponse, error) {
	return note[operatorv1.ListOfflineLogResponse](ctx, f.face, r)
}
