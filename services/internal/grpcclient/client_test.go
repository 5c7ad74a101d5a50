package grpcclient

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// seen is what a call brought along.
type seen struct {
	deadline      time.Duration
	authorization []string
	requestID     []string
}

// catalog notes what each call brings, and fails when it should.
type catalog struct {
	registryv1.UnimplementedServerCatalogServer
	calls []seen
	err   error
	again *registryv1.ServerCatalogClient // a further hop
}

func (c *catalog) GetServer(ctx context.Context, request *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
	incoming, _ := metadata.FromIncomingContext(ctx)
	deadline, _ := ctx.Deadline()
	c.calls = append(c.calls, seen{time.Until(deadline), incoming.Get("authorization"), incoming.Get(grpcserver.RequestIDHeader)})
	if c.again != nil && request.GetName() == "first" {
		return (*c.again).GetServer(ctx, &registryv1.GetServerRequest{Name: "second"})
	}
	return &registryv1.GetServerResponse{}, c.err
}

func serve(t *testing.T, service *catalog, tls grpcserver.TLSConfig) string {
	t.Helper()
	policy := authn.Policy{}
	for _, method := range registryv1.ServerCatalog_ServiceDesc.Methods {
		policy["/"+registryv1.ServerCatalog_ServiceDesc.ServiceName+"/"+method.MethodName] = []authn.Role{authn.Viewer}
	}
	server, err := grpcserver.New(grpcserver.Options{
		Config: grpcserver.ListenConfig{Listen: "127.0.0.1:0", TLS: tls}, Tokens: authn.Local(), Policy: policy, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	registryv1.RegisterServerCatalogServer(server.GRPC(), service)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return server.Addr()
}

func dial(t *testing.T, cfg Config) registryv1.ServerCatalogClient {
	t.Helper()
	if err := cfg.Validate("registry"); err != nil {
		t.Fatal(err)
	}
	conn, err := Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return registryv1.NewServerCatalogClient(conn)
}

func get(t *testing.T, client registryv1.ServerCatalogClient, name string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := client.GetServer(ctx, &registryv1.GetServerRequest{Name: name})
	return err
}

func written(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestI17_BadSettingsAreRefusedByKey(t *testing.T) {
	empty := written(t, "empty", "\n")
	for _, row := range []struct {
		cfg  Config
		want string
	}{
		{Config{Target: "127.0.0.1:7410"}, ""},
		{Config{Target: "dns:///registry:7410", Plaintext: true}, ""},
		{Config{}, "registry.target"},
		{Config{Target: "registry"}, "registry.target"},
		{Config{Target: "http://registry:7410"}, "registry.target"},
		{Config{Target: "dns:///"}, "registry.target"},
		{Config{Target: ":7410"}, "registry.target"},
		{Config{Target: "registry:"}, "registry.target"}, // gRPC would take port 443
		{Config{Target: "registry:0"}, "registry.target"},
		{Config{Target: "registry:grpc"}, "registry.target"},
		{Config{Target: "registry:7410", CAFile: "missing"}, "registry.caFile"},
		{Config{Target: "registry:7410", CAFile: empty}, "registry.caFile"},
		{Config{Target: "registry:7410", CAFile: "missing", Plaintext: true}, "registry.plaintext"},
		{Config{Target: "registry:7410", TokenFile: "missing"}, "registry.tokenFile"},
		{Config{Target: "registry:7410", TokenFile: empty}, "registry.tokenFile"},
	} {
		err := row.cfg.Validate("registry")
		if (row.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), row.want+": ")) {
			t.Errorf("%+v: %v", row.cfg, err)
		}
	}
	if conn, err := Dial(Config{Target: "registry:7410", CAFile: empty}); err == nil {
		conn.Close()
		t.Error("dialled without the certificates it was to trust")
	}
}

func TestOnlyLoopbackIsCalledInPlainText(t *testing.T) {
	for _, row := range []struct {
		cfg  Config
		want string
	}{
		{Config{Target: "127.0.0.1:1"}, "insecure"},
		{Config{Target: "localhost:1"}, "insecure"},
		{Config{Target: "dns:///localhost:1"}, "insecure"},
		{Config{Target: "registry:1"}, "tls"},
		{Config{Target: "10.0.0.1:1"}, "tls"},
		{Config{Target: "dns:///registry:1"}, "tls"},
		{Config{Target: "registry:1", Plaintext: true}, "insecure"},
	} {
		transport, err := row.cfg.credentials()
		if err != nil || transport.Info().SecurityProtocol != row.want {
			t.Errorf("%+v: %v, %v", row.cfg, transport.Info(), err)
		}
	}
}

func TestEveryCallHasADeadline(t *testing.T) {
	service := &catalog{}
	client := dial(t, Config{Target: serve(t, service, grpcserver.TLSConfig{})})
	if _, err := client.GetServer(context.Background(), &registryv1.GetServerRequest{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	if left := service.calls[0].deadline; left <= 0 || left > defaultDeadline {
		t.Errorf("%s are left", left)
	}
	if err := get(t, client, "x"); err != nil {
		t.Fatal(err)
	}
	if left := service.calls[1].deadline; left <= defaultDeadline || left > patience {
		t.Errorf("the caller's own is replaced: %s are left", left)
	}
}

// retrying is a name service that answers with an address and asks for retries.
type retrying struct{ address string }

const retryConfig = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.001s","maxBackoff":"0.001s",
	"backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE","ABORTED","DEADLINE_EXCEEDED","INTERNAL"]}}]}`

func (retrying) Scheme() string { return "retrying" }

func (r retrying) Build(_ resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	return r, conn.UpdateState(resolver.State{
		Addresses: []resolver.Address{{Addr: r.address}}, ServiceConfig: conn.ParseServiceConfig(retryConfig),
	})
}

func (retrying) ResolveNow(resolver.ResolveNowOptions) {}
func (retrying) Close()                                {}

// A call is one attempt, whatever it answers and whatever a name service asks for: it may have been done.
func TestI4_CallsAreNeverRetried(t *testing.T) {
	service := &catalog{}
	address := serve(t, service, grpcserver.TLSConfig{})
	resolver.Register(retrying{address})
	conn, err := Dial(Config{Target: "retrying:///registry", Plaintext: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, client := range []registryv1.ServerCatalogClient{dial(t, Config{Target: address}), registryv1.NewServerCatalogClient(conn)} {
		for _, reason := range []fault.Reason{fault.RegistryUnavailable, fault.StaleEtag, fault.OutcomeUnknown, fault.Internal} {
			service.calls, service.err = nil, fault.New(reason, "busy")
			if err := get(t, client, "x"); status.Code(err) != reason.Code() || len(service.calls) != 1 {
				t.Errorf("%s: %d calls arrive, answered %v", reason, len(service.calls), err)
			}
		}
	}
}

func TestACallWithoutAServerFailsAtOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := get(t, dial(t, Config{Target: listener.Addr().String()}), "x"); status.Code(err) != codes.Unavailable {
		t.Errorf("answered %v", err)
	}
}

// The request id goes along with every hop, so that one request is one id in every log.
func TestTheRequestIDIsPassedOn(t *testing.T) {
	service := &catalog{}
	client := dial(t, Config{Target: serve(t, service, grpcserver.TLSConfig{})})
	service.again = &client
	ctx := metadata.AppendToOutgoingContext(t.Context(), grpcserver.RequestIDHeader, "r-1")
	if _, err := client.GetServer(ctx, &registryv1.GetServerRequest{Name: "first"}); err != nil {
		t.Fatal(err)
	}
	if len(service.calls) != 2 || len(service.calls[1].requestID) != 1 || service.calls[1].requestID[0] != "r-1" {
		t.Errorf("arrived %+v", service.calls)
	}
	if err := get(t, client, "outside a request"); err != nil || service.calls[2].requestID != nil {
		t.Errorf("%v: %+v", err, service.calls[2])
	}
}

func TestTheTokenGoesAlong(t *testing.T) {
	service := &catalog{}
	address := serve(t, service, grpcserver.TLSConfig{})
	if err := get(t, dial(t, Config{Target: address, TokenFile: written(t, "token", "fake-token\n")}), "x"); err != nil {
		t.Fatal(err)
	}
	if err := get(t, dial(t, Config{Target: address}), "x"); err != nil {
		t.Fatal(err)
	}
	if got := service.calls[0].authorization; len(got) != 1 || got[0] != "Bearer fake-token" {
		t.Errorf("presented %v", got)
	}
	if got := service.calls[1].authorization; got != nil {
		t.Errorf("presented %v without a token", got)
	}
}

func TestTheTokenIsReadAgain(t *testing.T) {
	path := written(t, "token", "fake-1")
	synctest.Test(t, func(t *testing.T) {
		b := &bearer{path: path}
		expect := func(what, want string) {
			t.Helper()
			got, err := b.GetRequestMetadata(t.Context())
			if err != nil || got["authorization"] != "Bearer "+want {
				t.Errorf("%s: %v, %v", what, got, err)
			}
		}
		write := func(content string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		expect("at first", "fake-1")
		write("fake-2")
		expect("at once", "fake-1")
		time.Sleep(tokenCheckInterval + time.Second)
		expect("after the interval", "fake-2")
		write("")
		time.Sleep(tokenCheckInterval + time.Second)
		expect("an emptied file keeps the last", "fake-2")
		write("fake\n3")
		time.Sleep(tokenCheckInterval + time.Second)
		if got, err := b.GetRequestMetadata(t.Context()); err == nil || strings.Contains(err.Error(), "fake") {
			t.Errorf("two lines: %v, %v", got, err)
		}
	})
	if got, err := (&bearer{path: filepath.Join(t.TempDir(), "none")}).GetRequestMetadata(t.Context()); err == nil {
		t.Errorf("no file: %v", got)
	}
}

func TestTLSIsCheckedAgainstTheGivenCertificates(t *testing.T) {
	pair := grpcserver.TLSConfig{}
	pair.CertFile, pair.KeyFile = certificate(t)
	other, _ := certificate(t)
	service := &catalog{}
	address := serve(t, service, pair)
	token := written(t, "token", "fake-token")
	if err := get(t, dial(t, Config{Target: address, CAFile: pair.CertFile, TokenFile: token}), "x"); err != nil {
		t.Fatal(err)
	}
	if got := service.calls[0].authorization; len(got) != 1 {
		t.Errorf("presented %v", got)
	}
	for name, cfg := range map[string]Config{
		"another's": {Target: address, CAFile: other, TokenFile: token}, "none": {Target: address, TokenFile: token},
	} {
		if err := get(t, dial(t, cfg), "x"); status.Code(err) != codes.Unavailable || len(service.calls) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	secure := &bearer{secure: true}
	if !secure.RequireTransportSecurity() {
		t.Error("a token meant for TLS goes without")
	}
	if _, err := grpc.NewClient(address, grpc.WithPerRPCCredentials(secure)); err == nil {
		t.Error("a token without a transport")
	}
}

// certificate writes a certificate for 127.0.0.1, which signs itself, and its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))),
		written(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}
