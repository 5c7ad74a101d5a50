package operatorgateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	emulator "github.com/commandcenter/fleet/servicebus-emulator"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	operatorv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/operator/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

func (g *gateway) dial() *grpc.ClientConn {
	g.t.Helper()
	conn, err := grpc.NewClient(g.at.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(g.t, err)
	g.t.Cleanup(func() { conn.Close() })
	return conn
}

// verbose is what /readyz?verbose says.
func (g *gateway) verbose() string {
	response, err := http.Get("http://" + g.at.Admin + "/readyz?verbose")
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	http.DefaultClient.CloseIdleConnections()
	return string(body)
}

func (g *gateway) readyz() int {
	response, err := http.Get("http://" + g.at.Admin + "/readyz")
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	http.DefaultClient.CloseIdleConnections()
	return response.StatusCode
}

func TestBothFacesGiveTheSameReasons(t *testing.T) {
	registry := startRegistry(t, overHTTP(startAgent(t, "BM-01"), pending))
	g := startGateway(t, registry, nil)
	conn := g.dial()
	_, err := operatorv1.NewAgentOperationsClient(conn).RestartService(t.Context(), &operatorv1.RestartServiceRequest{Agent: "BM-01", Service: "W3SVC"})
	if found := fault.From(err); found == nil || found.Reason != fault.AgentNotAccepted || found.Agent != "BM-01" {
		t.Errorf("%v", err)
	}
	_, err = operatorv1.NewAgentConfigClient(conn).AcceptAgent(t.Context(), &operatorv1.AcceptAgentRequest{Agent: "BM-01", Etag: "1-9"})
	if found := fault.From(err); found == nil || found.Reason != fault.StaleEtag || found.CurrentEtag != "1-0" {
		t.Errorf("%v", err)
	}
	_, err = operatorv1.NewAgentConfigClient(conn).AcceptAgent(t.Context(), &operatorv1.AcceptAgentRequest{Agent: strings.Repeat("x", 129)})
	if found := fault.From(err); found == nil || found.Reason != fault.InvalidArgument || len(found.Fields) != 1 || found.Fields[0].Pointer != "/agent" {
		t.Errorf("%v", err)
	}
}

func TestWithoutABusAgentsOnHTTPAreServed(t *testing.T) {
	t.Parallel()
	agent := startAgent(t, "BM-01")
	registry := startRegistry(t, overHTTP(agent, accepted), &registryv1.Agent{
		Name: "BM-02", ReportedName: "BM-02", RegistrationState: accepted, OnServiceBus: true, BusHeartbeatAge: durationpb.New(time.Second),
	})
	for name, edit := range map[string]func(*Config){
		"httpOnly": nil,
		"the bus cannot be reached": func(c *Config) {
			c.HTTPOnly = false
			c.Bus.ConnectionString.Set(strings.Replace(localBus, "5672", closedPort(t), 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := startGateway(t, registry, edit)
			if answered := g.do("GET", "/api/agents/BM-01/services", ""); answered.status != 200 {
				t.Errorf("over HTTP: %d %s", answered.status, answered.body)
			}
			answered := g.do("POST", "/api/agents/BM-02/services/W3SVC/start", "")
			if answered.status != 503 || answered.reason() != "BUS_UNAVAILABLE" || answered.header.Get("Retry-After") == "" || !strings.Contains(answered.body, "nothing was sent") {
				t.Errorf("over the bus: %d %s", answered.status, answered.body)
			}
			if status := g.readyz(); status != 200 {
				t.Errorf("not ready: %d", status)
			}
		})
	}
}

// What the gateway lacks on the bus ends its start, and is named.
func TestI17_WhatIsMissingOnTheBusEndsTheStart(t *testing.T) {
	t.Parallel()
	sessions := emulator.SubscriptionProperties{RequiresSession: true}
	commands := emulator.Topic{Name: "agent-commands", Subscriptions: []emulator.Subscription{{Name: "agents", Properties: sessions}}}
	for name, row := range map[string]struct {
		topics []emulator.Topic
		want   string
	}{
		"no commands topic":       {[]emulator.Topic{{Name: "agent-replies", Subscriptions: []emulator.Subscription{{Name: "gateways", Properties: sessions}}}}, "topic agent-commands"},
		"no replies topic":        {[]emulator.Topic{commands}, "topic agent-replies"},
		"no replies subscription": {[]emulator.Topic{commands, {Name: "agent-replies"}}, "subscription agent-replies/gateways"},
		"no sessions":             {[]emulator.Topic{commands, {Name: "agent-replies", Subscriptions: []emulator.Subscription{{Name: "gateways"}}}}, "subscription agent-replies/gateways"},
	} {
		t.Run(name, func(t *testing.T) {
			bus, err := emulator.Start(emulator.Config{UserConfig: emulator.UserConfig{Namespaces: []emulator.Namespace{{Topics: row.topics}}}}, emulator.Options{})
			check(t, err)
			defer bus.Close() //nolint:errcheck // a test
			cfg := DefaultConfig()
			cfg.REST.Listen, cfg.GRPC.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
			cfg.Bus.ConnectionString.Set(bus.ConnectionString())
			cfg.Logger = slog.New(slog.DiscardHandler)
			if err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Error(err)
			}
		})
	}
}

// closedPort is a port on which nothing listens.
func closedPort(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	check(t, err)
	return port
}

// Over REST too, a caller's shorter time is kept: too little of it, and nothing is sent.
func TestACallersShorterTimeWins(t *testing.T) {
	agent := startAgent(t, "BM-01")
	g := startGateway(t, startRegistry(t, overHTTP(agent, accepted)), nil)
	for _, short := range []string{"40m", "80m"} {
		answered := g.do("POST", "/api/agents/BM-01/services/W3SVC/start", "", "Grpc-Timeout", short)
		if answered.status != 503 || answered.reason() != "BUDGET_TOO_SHORT" || answered.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", short, answered.status, answered.body)
		}
	}
	if got := agent.commands(); len(got) != 0 {
		t.Errorf("the agent got %v", got)
	}
	g.do("POST", "/api/agents/BM-01/services/W3SVC/start", "", "Grpc-Timeout", "2S")
	if got := agent.commands(); len(got) != 1 || got[0].GetBudget().AsDuration() > time.Second {
		t.Errorf("of 2 s, the agent may start within half: %v", got)
	}
}

// What an agent may answer also passes from the gRPC services to REST.
func TestALargeAnswerArrives(t *testing.T) {
	agent := startAgent(t, "BM-01")
	services := &agentv1.Services{}
	for i := range 50_000 {
		services.Services = append(services.Services, &agentv1.Service{Name: fmt.Sprintf("service-%05d", i), DisplayName: strings.Repeat("x", 90)})
	}
	agent.answering(func(context.Context, *agentv1.Command) *agentv1.CommandResult {
		return &agentv1.CommandResult{Outcome: agentv1.Outcome_OUTCOME_SUCCEEDED, Payload: &agentv1.CommandResult_Services{Services: services}}
	})
	g := startGateway(t, startRegistry(t, overHTTP(agent, accepted)), nil)
	if answered := g.do("GET", "/api/agents/BM-01/services", ""); answered.status != 200 || len(answered.body) < 5<<20 {
		t.Errorf("%d, %d bytes: %.300s", answered.status, len(answered.body), answered.body)
	}
}

// Readiness is that of the own listeners: without the registry callers still get answers that say what is missing.
func TestReadinessIsThatOfTheListeners(t *testing.T) {
	t.Parallel()
	registry := startRegistry(t)
	g := startGateway(t, registry, nil)
	health := healthv1.NewHealthClient(g.dial())
	serving := func() bool {
		answer, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "commandcenter.operator.v1.AgentOperations"})
		cloud, cloudErr := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "commandcenter.operator.v1.CloudConfig"})
		if err != nil || cloudErr != nil {
			t.Fatal(err, cloudErr)
		}
		return answer.GetStatus() == healthv1.HealthCheckResponse_SERVING && cloud.GetStatus() == healthv1.HealthCheckResponse_SERVING
	}
	told := func() bool { return strings.Contains(g.verbose(), "[-] registry: the registry cannot be used") }
	eventually(t, "all works", func() bool { return serving() && g.readyz() == 200 && !told() })
	registry.serving(false)
	eventually(t, "the registry is told", told)
	if !serving() || g.readyz() != 200 {
		t.Error("not ready without the registry")
	}
	registry.serving(true)
	eventually(t, "the registry is back", func() bool { return !told() })
}

func TestNothingIsSentWithoutTheRegistry(t *testing.T) {
	g := startGateway(t, &fakeRegistry{addr: "127.0.0.1:" + closedPort(t)}, nil)
	for path, method := range map[string]string{
		"/api/agents": "GET", "/api/agents/BM-01/services": "GET", "/api/agents/BM-01/services/W3SVC/start": "POST", "/api/agents/BM-01/route": "GET",
		"/api/config/agents/BM-01": "GET", "/api/config/servers/BM-01": "GET", "/api/config/agents/BM-01:reject": "POST",
	} {
		answered := g.do(method, path, "", "If-Match", "1-0")
		if answered.status != 503 || answered.reason() != "REGISTRY_UNAVAILABLE" || answered.header.Get("Retry-After") == "" || !strings.Contains(answered.body, "nothing was") {
			t.Errorf("%s %s: %d %s", method, path, answered.status, answered.body)
		}
	}
}

// A command under way when the gateway is told to stop is answered; new ones are turned away first.
func TestCommandsUnderWayAreAnsweredAtTheStop(t *testing.T) {
	agent := startAgent(t, "BM-01")
	began, released := make(chan struct{}, 2), make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	defer release()
	agent.answering(func(context.Context, *agentv1.Command) *agentv1.CommandResult {
		began <- struct{}{}
		<-released
		return &agentv1.CommandResult{Outcome: agentv1.Outcome_OUTCOME_SUCCEEDED}
	})
	g := startGateway(t, startRegistry(t, overHTTP(agent, accepted)), nil)
	conn := g.dial()
	overREST, overGRPC := make(chan string, 1), make(chan error, 1)
	go func() {
		answered, err := g.try("POST", "/api/agents/BM-01/services/a/start", "")
		overREST <- fmt.Sprint(answered.status, err)
	}()
	go func() {
		_, err := operatorv1.NewAgentOperationsClient(conn).StartService(t.Context(), &operatorv1.StartServiceRequest{Agent: "BM-01", Service: "b"})
		overGRPC <- err
	}()
	<-began
	<-began
	g.stop()
	eventually(t, "not ready", func() bool { return g.readyz() == 503 })
	eventually(t, "no new requests", func() bool { _, err := g.try("GET", "/", ""); return err != nil })
	select {
	case err := <-g.done:
		t.Fatalf("ended with commands under way: %v", err)
	default:
	}
	release()
	if got := <-overREST; got != "200 <nil>" {
		t.Errorf("over REST: %s", got)
	}
	if err := <-overGRPC; err != nil {
		t.Errorf("over gRPC: %v", err)
	}
}

// Every write leaves its audit line, whether or not its caller stayed to hear of it.
func TestADisconnectedCallersWriteIsAudited(t *testing.T) {
	agent := startAgent(t, "BM-01")
	began := make(chan struct{})
	agent.answering(func(ctx context.Context, _ *agentv1.Command) *agentv1.CommandResult {
		close(began)
		<-ctx.Done()
		return &agentv1.CommandResult{}
	})
	g := startGateway(t, startRegistry(t, overHTTP(agent, accepted)), nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	request, err := http.NewRequestWithContext(ctx, "POST", "http://"+g.at.REST+"/api/agents/BM-01/services/W3SVC/stop", nil)
	check(t, err)
	request.Header.Set("X-Request-Id", "order-66")
	if response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request); err == nil {
		response.Body.Close()
	}
	eventually(t, "an audit line", func() bool {
		for line := range strings.Lines(g.log.String()) {
			if strings.Contains(line, "audit: command") && strings.Contains(line, "outcome=OUTCOME_UNKNOWN") && strings.Contains(line, "request_id=order-66") {
				return true
			}
		}
		return false
	})
}

func TestTokensAndTLSOnBothFaces(t *testing.T) {
	folder := t.TempDir()
	certFile, keyFile, pool := certificate(t, folder)
	sum := sha256.Sum256([]byte("fake-token-of-alice"))
	tokens := filepath.Join(folder, "tokens.yaml")
	check(t, os.WriteFile(tokens, []byte("- {sha256: "+hex.EncodeToString(sum[:])+", principal: alice, role: operator}\n"), 0o600))
	agent := startAgent(t, "BM-01")
	registry := startRegistry(t, overHTTP(agent, pending))
	g := startGateway(t, registry, func(c *Config) {
		c.TokenFile = tokens
		c.REST.TLS.CertFile, c.REST.TLS.KeyFile = certFile, keyFile
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	call := func(method, path, token string) (int, string) {
		request, err := http.NewRequest(method, "https://"+g.at.REST+path, nil)
		check(t, err)
		request.Header.Set("If-Match", "1-0")
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := (&http.Client{Transport: transport}).Do(request)
		check(t, err)
		defer response.Body.Close()
		if response.ProtoMajor != 2 {
			t.Errorf("over TLS, HTTP/2 is spoken, not %s", response.Proto)
		}
		content, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(content)
	}
	if status, body := call("GET", "/api/agents", ""); status != 401 {
		t.Errorf("without a token: %d %s", status, body)
	}
	if status, body := call("POST", "/api/config/agents/BM-01:accept", "fake-token-of-alice"); status != 200 || !strings.Contains(body, `"decidedBy":"alice"`) {
		t.Errorf("as alice: %d %s", status, body)
	}
	client := operatorv1.NewAgentOperationsClient(g.dial())
	if _, err := client.ListAgents(t.Context(), &operatorv1.ListAgentsRequest{}); fault.From(err) == nil || fault.From(err).Reason != fault.Unauthenticated {
		t.Errorf("over gRPC without a token: %v", err)
	}
	with := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer fake-token-of-alice")
	if _, err := client.ListAgents(with, &operatorv1.ListAgentsRequest{}); err != nil {
		t.Errorf("over gRPC as alice: %v", err)
	}
	if strings.Contains(g.log.String(), "fake-token") {
		t.Error("a token is in the log")
	}
}

// certificate makes one for loopback that signs itself.
func certificate(t *testing.T, folder string) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gateway.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	certFile, keyFile, pool = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"), x509.NewCertPool()
	check(t, os.WriteFile(certFile, certPEM, 0o600))
	check(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	pool.AppendCertsFromPEM(certPEM)
	return certFile, keyFile, pool
}
