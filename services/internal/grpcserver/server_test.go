package grpcserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; none of them needs it when all is well.
const patience = 20 * time.Second

const (
	getMethod    = "/commandcenter.registry.v1.ServerCatalog/GetServer"
	acceptMethod = "/commandcenter.registry.v1.AgentRegistry/AcceptAgent"
	watchMethod  = "/test.Watch/Watch"
)

// catalog answers GetServer as the test says.
type catalog struct {
	registryv1.UnimplementedServerCatalogServer
	get func(context.Context, *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error)
}

func (c *catalog) GetServer(ctx context.Context, request *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
	return c.get(ctx, request)
}

type agents struct {
	registryv1.UnimplementedAgentRegistryServer
	accepted int
}

func (a *agents) AcceptAgent(context.Context, *registryv1.AcceptAgentRequest) (*registryv1.AcceptAgentResponse, error) {
	a.accepted++
	return &registryv1.AcceptAgentResponse{}, nil
}

// policy lists all registered methods; only the two that are called matter.
func policy() authn.Policy {
	listed := authn.Policy{watchMethod: {authn.Viewer}}
	for _, service := range []grpc.ServiceDesc{registryv1.ServerCatalog_ServiceDesc, registryv1.AgentRegistry_ServiceDesc} {
		for _, method := range service.Methods {
			listed["/"+service.ServiceName+"/"+method.MethodName] = []authn.Role{authn.Admin}
		}
		for _, stream := range service.Streams {
			listed["/"+service.ServiceName+"/"+stream.StreamName] = []authn.Role{authn.Admin}
		}
	}
	listed[getMethod] = []authn.Role{authn.Viewer, authn.Gateway}
	listed[acceptMethod] = []authn.Role{authn.Operator}
	return listed
}

// shared is a buffer that the server writes and the test reads.
type shared struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (s *shared) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Write(text)
}

// lines are the log's lines about calls.
func (s *shared) lines(t *testing.T) []map[string]any {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []map[string]any
	for text := range strings.Lines(s.buffer.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line["msg"] == "grpc call" {
			found = append(found, line)
		}
	}
	return found
}

// fixture is a running server with everything a test looks at.
type fixture struct {
	*Server
	catalog *catalog
	agents  *agents
	log     *shared
	metrics *prometheus.Registry
	conn    *grpc.ClientConn
	stop    context.CancelFunc
	ended   chan error
}

func start(t *testing.T, change func(*Options), register ...func(*grpc.Server)) *fixture {
	t.Helper()
	f := &fixture{
		log: &shared{}, metrics: prometheus.NewRegistry(), agents: &agents{}, ended: make(chan error, 1),
		catalog: &catalog{get: func(context.Context, *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
			return &registryv1.GetServerResponse{}, nil
		}},
	}
	options := Options{
		Config: ListenConfig{Listen: "127.0.0.1:0"}, Tokens: authn.Local(), Policy: policy(),
		Logger: slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Metrics: f.metrics,
	}
	if change != nil {
		change(&options)
	}
	server, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	f.Server = server
	registryv1.RegisterServerCatalogServer(server.GRPC(), f.catalog)
	registryv1.RegisterAgentRegistryServer(server.GRPC(), f.agents)
	for _, one := range register {
		one(server.GRPC())
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	go func() { f.ended <- server.Run(ctx) }()
	f.conn = dial(t, server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	t.Cleanup(func() {
		cancel()
		select {
		case <-f.ended:
		case <-time.After(patience):
			t.Error("the server does not stop")
		}
	})
	return f
}

func dial(t *testing.T, address string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (f *fixture) get(ctx context.Context, pairs ...string) error {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, pairs...), patience)
	defer cancel()
	_, err := registryv1.NewServerCatalogClient(f.conn).GetServer(ctx, &registryv1.GetServerRequest{Name: "BM-1"})
	return err
}

// reasonOf is empty where there is no error.
func reasonOf(err error) fault.Reason {
	if err == nil {
		return ""
	}
	return fault.From(err).Reason
}

func tokenFile(t *testing.T) string {
	t.Helper()
	var content strings.Builder
	for token, role := range map[string]authn.Role{"fake-viewer": authn.Viewer, "fake-operator": authn.Operator, "fake-heartbeat": authn.Heartbeat} {
		sum := sha256.Sum256([]byte(token))
		fmt.Fprintf(&content, "- {sha256: %s, principal: %s, role: %s}\n", hex.EncodeToString(sum[:]), "the-"+role, role)
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte(content.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func withTokens(t *testing.T) func(*Options) {
	t.Helper()
	tokens, err := authn.Open(tokenFile(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return func(options *Options) { options.Tokens = tokens }
}

func TestListenConfigRefusesRemoteListenersWithoutTokens(t *testing.T) {
	for _, row := range []struct {
		cfg  ListenConfig
		want string
	}{
		{ListenConfig{Listen: "127.0.0.1:0"}, ""},
		{ListenConfig{Listen: "0.0.0.0:0", TokenFile: "x"}, ""},
		{ListenConfig{Listen: "0.0.0.0:0"}, "grpc.tokenFile"},
		{ListenConfig{Listen: ":0"}, "grpc.tokenFile"},
		{ListenConfig{Listen: "registry"}, "grpc.listen"},
		{ListenConfig{}, "grpc.listen"},
		{ListenConfig{Listen: "127.0.0.1:0", TLS: TLSConfig{CertFile: "x"}}, "grpc.tls"},
		{ListenConfig{Listen: "127.0.0.1:0", TLS: TLSConfig{KeyFile: "x"}}, "grpc.tls"},
		{ListenConfig{Listen: "127.0.0.1:0", TLS: TLSConfig{CertFile: "missing", KeyFile: "missing"}}, "grpc.tls"},
	} {
		err := row.cfg.Validate("grpc")
		if (row.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%+v: %v", row.cfg, err)
		}
	}
	// Not even where nobody validated.
	options := Options{Config: ListenConfig{Listen: "0.0.0.0:0"}, Tokens: authn.Local(), Logger: slog.New(slog.DiscardHandler)}
	if server, err := New(options); err == nil {
		t.Errorf("listens on %s", server.Addr())
	}
}

func TestAMethodWithoutARoleStopsTheStart(t *testing.T) {
	listed := policy()
	delete(listed, getMethod)
	server, err := New(Options{Config: ListenConfig{Listen: "127.0.0.1:0"}, Tokens: authn.Local(), Policy: listed, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	registryv1.RegisterServerCatalogServer(server.GRPC(), &catalog{})
	registryv1.RegisterAgentRegistryServer(server.GRPC(), &agents{})
	if missing := server.Unlisted(); !slices.Equal(missing, []string{getMethod}) {
		t.Errorf("missing are %v", missing)
	}
	if err := server.Run(t.Context()); err == nil || !strings.Contains(err.Error(), getMethod) {
		t.Errorf("ran: %v", err)
	}
	if conn, err := net.Dial("tcp", server.Addr()); err == nil {
		conn.Close()
		t.Error("it listens still")
	}
}

func TestMetricsTwiceIsAnError(t *testing.T) {
	metrics := prometheus.NewRegistry()
	options := Options{Tokens: authn.Local(), Logger: slog.New(slog.DiscardHandler), Metrics: metrics, Config: ListenConfig{Listen: "127.0.0.1:0"}}
	server, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	defer server.listener.Close()
	defer server.grpc.Stop()
	if _, err := New(options); err == nil {
		t.Error("two servers share their metrics")
	}
}

func TestCallersAreWhoTheirTokensSay(t *testing.T) {
	f := start(t, withTokens(t))
	var seen authn.Principal
	f.catalog.get = func(ctx context.Context, _ *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
		seen, _ = authn.PrincipalOf(ctx)
		return &registryv1.GetServerResponse{}, nil
	}
	for _, row := range []struct {
		authorization []string
		want          fault.Reason
		principal     string
	}{
		{nil, fault.Unauthenticated, ""},
		{[]string{"authorization", "fake-viewer"}, fault.Unauthenticated, ""},
		{[]string{"authorization", "Basic fake-viewer"}, fault.Unauthenticated, ""},
		{[]string{"authorization", "Bearer "}, fault.Unauthenticated, ""},
		{[]string{"authorization", "Bearer wrong"}, fault.Unauthenticated, ""},
		{[]string{"authorization", "Bearer wrong", "authorization", "Bearer fake-viewer"}, fault.Unauthenticated, ""},
		{[]string{"authorization", "Bearer fake-heartbeat"}, fault.PermissionDenied, ""},
		{[]string{"authorization", "Bearer fake-viewer"}, "", "the-viewer"},
		{[]string{"authorization", "bearer fake-operator"}, "", "the-operator"},
	} {
		seen = authn.Principal{}
		err := f.get(t.Context(), row.authorization...)
		if reasonOf(err) != row.want || seen.Name != row.principal {
			t.Errorf("%v: %v as %+v", row.authorization, err, seen)
		}
	}
	for _, line := range f.log.lines(t) {
		if text := fmt.Sprint(line); strings.Contains(text, "fake-") {
			t.Errorf("a token is in the log: %s", text)
		}
	}
	_, err := registryv1.NewAgentRegistryClient(f.conn).AcceptAgent(
		metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer fake-viewer"), &registryv1.AcceptAgentRequest{})
	if reasonOf(err) != fault.PermissionDenied || f.agents.accepted != 0 {
		t.Errorf("a viewer accepts agents: %v", err)
	}
}

func TestWithoutTokensEverybodyIsLocal(t *testing.T) {
	f := start(t, nil)
	var seen authn.Principal
	f.catalog.get = func(ctx context.Context, _ *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
		seen, _ = authn.PrincipalOf(ctx)
		return &registryv1.GetServerResponse{}, nil
	}
	if err := f.get(t.Context()); err != nil || seen != authn.LocalPrincipal {
		t.Errorf("%+v, %v", seen, err)
	}
}

func TestHealthIsOpenAndFollowsTheService(t *testing.T) {
	f := start(t, withTokens(t))
	client := healthv1.NewHealthClient(f.conn)
	expect := func(service string, want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		answer, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || answer.GetStatus() != want {
			t.Errorf("%s: %v, %v", service, answer, err)
		}
	}
	f.SetServing("a.Service", true)
	expect("a.Service", healthv1.HealthCheckResponse_SERVING)
	f.SetServing("a.Service", false)
	expect("a.Service", healthv1.HealthCheckResponse_NOT_SERVING)
	if _, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "unheard"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	if lines := f.log.lines(t); len(lines) != 0 {
		t.Errorf("health checks fill the log: %v", lines)
	}
}

func TestReflectionOnlyWhereItIsOn(t *testing.T) {
	for _, on := range []bool{false, true} {
		f := start(t, func(options *Options) { options.Reflection = on })
		found := false
		for service := range f.GRPC().GetServiceInfo() {
			found = found || strings.HasPrefix(service, "grpc.reflection.")
		}
		if found != on {
			t.Errorf("on: %t, found: %t", on, found)
		}
	}
}

// The drain: calls under way are answered, new ones are not taken, health says so first.
func TestDrainAnswersWhatRuns(t *testing.T) {
	f := start(t, nil)
	running, finish := make(chan struct{}), make(chan struct{})
	f.catalog.get = func(context.Context, *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
		close(running)
		<-finish
		return &registryv1.GetServerResponse{}, nil
	}
	f.SetServing("", true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watching, err := healthv1.NewHealthClient(f.conn).Watch(ctx, &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watching.Recv(); err != nil || first.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Fatal(first, err)
	}
	answered := make(chan error, 1)
	go func() { answered <- f.get(context.Background()) }()
	<-running
	f.stop()
	if next, err := watching.Recv(); err != nil || next.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Error(next, err)
	}
	cancel() // a watch is a call under way too; its client leaves on hearing the news
	close(finish)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestDrainIsBounded(t *testing.T) {
	f := start(t, func(options *Options) { options.DrainGrace = time.Millisecond })
	running := make(chan struct{})
	f.catalog.get = func(ctx context.Context, _ *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
		close(running)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	answered := make(chan error, 1)
	go func() { // without a deadline of its own; the server's is longer than the test's patience
		_, err := registryv1.NewServerCatalogClient(f.conn).GetServer(context.Background(), &registryv1.GetServerRequest{Name: "BM-1"})
		answered <- err
	}()
	<-running
	f.stop()
	select {
	case err := <-f.ended:
		if err != nil {
			t.Error(err)
		}
		f.ended <- nil // for the cleanup
	case <-time.After(patience):
		t.Fatal("a stuck call holds the stop up")
	}
	if err := <-answered; err == nil {
		t.Error("the call that was cut off says that all went well")
	}
}

func TestRunSaysThatItsListenerBroke(t *testing.T) {
	f := start(t, nil)
	f.listener.Close()
	select {
	case err := <-f.ended:
		if !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		f.ended <- nil
	case <-time.After(patience):
		t.Fatal("it runs on without a listener")
	}
	f.GRPC().Stop()
}

// A server for agents, which present what they have in their requests, may listen beyond loopback, and refuses requests that are too large.
func TestAServerForAgents(t *testing.T) {
	large := make([]byte, 4096)
	server, err := New(Options{
		Config: ListenConfig{Listen: "0.0.0.0:0"}, Tokens: authn.InRequests(), Logger: slog.New(slog.DiscardHandler),
		Policy: authn.Policy{getMethod: {authn.Agent}}, MaxMessageBytes: 1024, MaxStreams: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	var caller authn.Principal
	registryv1.RegisterServerCatalogServer(server.GRPC(), &catalog{get: func(ctx context.Context, _ *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
		caller, _ = authn.PrincipalOf(ctx)
		return &registryv1.GetServerResponse{}, nil
	}})
	server.policy = authn.Policy{getMethod: {authn.Agent}}
	for _, method := range server.Unlisted() {
		server.policy[method] = nil
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	_, port, _ := net.SplitHostPort(server.Addr())
	conn, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	client := registryv1.NewServerCatalogClient(conn)
	if _, err := client.GetServer(t.Context(), &registryv1.GetServerRequest{Name: "a"}); err != nil || caller != authn.AgentPrincipal {
		t.Errorf("%v, called by %+v", err, caller)
	}
	if _, err := client.GetServer(t.Context(), &registryv1.GetServerRequest{Name: string(large)}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a large request: %v", err)
	}
	if _, err := client.ListServers(t.Context(), &registryv1.ListServersRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a method that is not for agents: %v", err)
	}
	conn.Close()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	server.Close() // again is nothing
}
