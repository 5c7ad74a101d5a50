package heartbeat_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	emulator "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/services/heartbeat"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/fault"
)

const (
	normal      = registryv1.ControlServerState_CONTROL_SERVER_STATE_NORMAL
	draining    = registryv1.ControlServerState_CONTROL_SERVER_STATE_DRAINING
	maintenance = registryv1.ControlServerState_CONTROL_SERVER_STATE_MAINTENANCE
)

// As the cloud says, a control server serves, tells its agents to go, and turns them away; whatever it does, it never claims to hear
// while it turns agents away.
func TestI11_AControlServerInMaintenanceTurnsAgentsAwayAndProvesNothing(t *testing.T) {
	t.Parallel()
	registry := newServer(t)
	r := run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry))
	client, agent := agents(t, r), restAgent(t, r)
	_, err := client.Register(t.Context(), registration("BM-1", 1))
	check(t, err)
	eventually(t, "evidence", func() bool {
		newest, _ := registry.registry.directEvidence()
		return newest.GetCanaryRoundTrip() != nil
	})
	eventually(t, "ready", func() bool { ready, _ := r.ready(); return ready })
	becomes := func(state registryv1.ControlServerState) {
		registry.cloud.set(func(c *fakeCloud) { c.state = state })
	}

	becomes(draining)
	eventually(t, "agents are told to go", func() bool {
		heard, err := client.Heartbeat(t.Context(), beat("BM-1", 1, 2))
		check(t, err) // and are served
		return heard.GetDraining()
	})
	pong, err := client.Ping(t.Context(), &heartbeatv1.PingRequest{})
	check(t, err)
	if pong.GetTakesAgents() {
		t.Error("takes agents while draining")
	}
	becomes(maintenance)
	eventually(t, "agents are turned away", func() bool {
		_, err := client.Heartbeat(t.Context(), beat("BM-1", 1, 3))
		return err != nil && fault.From(err).Reason == fault.Draining && status.Code(err) == codes.Unavailable
	})
	_, err = client.Register(t.Context(), registration("BM-1", 1))
	answered(t, "registering in maintenance", err, fault.Draining)
	got := agent.beat("BM-1", 1, 4)
	agent.problem("REST in maintenance", got, 503, "DRAINING")
	if got.header.Get("Retry-After") != "" {
		t.Error("asks to come again instead of going on")
	}
	eventually(t, "evidence without a canary", func() bool {
		newest, _ := registry.registry.directEvidence()
		return newest.GetCanaryRoundTrip() == nil
	})
	// It stays so, though the registry comes and goes.
	_, reports := registry.registry.directEvidence()
	registry.stop()
	registry.start(t)
	eventually(t, "one more report", func() bool { _, now := registry.registry.directEvidence(); return now > reports })
	if newest, _ := registry.registry.directEvidence(); newest.GetCanaryRoundTrip() != nil {
		t.Errorf("claims to hear in maintenance: %v", newest)
	}
	_, err = client.Heartbeat(t.Context(), beat("BM-1", 1, 5))
	answered(t, "without the registry it stays as it was", err, fault.Draining)
	if ready, why := r.ready(); !ready && strings.Contains(why, "cloud") {
		t.Errorf("not ready although it does what operators want: %s", why)
	}
	becomes(normal)
	eventually(t, "agents are taken", func() bool { _, err := client.Heartbeat(t.Context(), beat("BM-1", 1, 6)); return err == nil })
	eventually(t, "evidence again", func() bool {
		newest, _ := registry.registry.directEvidence()
		return newest.GetCanaryRoundTrip() != nil
	})
}

func TestI11_DirectEvidenceGoesThroughTheWholeIngress(t *testing.T) {
	t.Parallel()
	registry := newServer(t)
	r := run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry))
	eventually(t, "evidence", func() bool {
		newest, _ := registry.registry.directEvidence()
		return newest.GetCanaryRoundTrip() != nil
	})
	newest, _ := registry.registry.directEvidence()
	if newest.GetConsumerId() == "" || newest.GetOldestMessageAge() == nil || newest.GetSinceLastReceive() != nil || newest.GetCanaryRoundTrip().AsDuration() <= 0 {
		t.Errorf("evidence: %v", newest)
	}
	if got := registry.registry.directs(); len(got) != 0 {
		t.Errorf("a canary became a heartbeat: %v", got)
	}
	_, err := agents(t, r).Register(t.Context(), registration("BM-1", 1))
	check(t, err)
	eventually(t, "a receive is shown", func() bool {
		newest, _ := registry.registry.directEvidence()
		return newest.GetSinceLastReceive() != nil
	})
	eventually(t, "takes agents", func() bool { return r.metric(t, "commandcenter_ingress_takes_agents") == "1" })
	if got := r.metric(t, "commandcenter_ingress_agents"); got != "1" {
		t.Errorf("%s agents", got)
	}

	conn, err := grpc.NewClient(r.at.IngressGRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	defer conn.Close()
	serving := func() bool {
		answer, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: heartbeat.IngressHealthService})
		check(t, err)
		return answer.GetStatus() == healthv1.HealthCheckResponse_SERVING
	}
	eventually(t, "serving", serving)
	registry.registry.set(unavailable)
	_, err = agents(t, r).Heartbeat(t.Context(), beat("BM-1", 1, 2))
	retryable(t, "heartbeats cannot be stored", err)
	eventually(t, "not serving", func() bool { return !serving() })
	// A registry that answers, but stores no heartbeats, is no proof.
	eventually(t, "evidence without a canary", func() bool {
		newest, _ := registry.registry.directEvidence()
		return newest.GetCanaryRoundTrip() == nil
	})
}

func TestAControlServerThatIsRefusedAtItsStartSaysWhy(t *testing.T) {
	for _, reason := range []fault.Reason{fault.NameTaken, fault.EndpointTaken, fault.ProtocolsApart} {
		registry := newServer(t)
		registry.cloud.set(func(c *fakeCloud) { c.refusal = fault.New(reason, "held by cs-9 at 10.0.0.9:7422").GRPCStatus().Err() })
		cfg := controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)
		ctx, stop := context.WithCancel(t.Context())
		cfg.Ready = func(heartbeat.Endpoints) { t.Error("it serves"); stop() }
		err := heartbeat.Run(ctx, cfg)
		stop()
		if err == nil || !strings.Contains(err.Error(), string(reason)) || !strings.Contains(err.Error(), "held by cs-9 at 10.0.0.9:7422") || !strings.Contains(err.Error(), `"cs-1"`) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// A registry that is not there yet ends no start; but a refusal is one, however late the first answer comes.
func TestAControlServerThatIsRefusedByTheFirstAnswerEnds(t *testing.T) {
	t.Parallel()
	registry := newServer(t)
	registry.stop()
	registry.cloud.set(func(c *fakeCloud) { c.refusal = fault.New(fault.NameTaken, "held by another").GRPCStatus().Err() })
	cfg := controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, ended := make(chan heartbeat.Endpoints, 1), make(chan error, 1)
	cfg.Ready = func(at heartbeat.Endpoints) { ready <- at }
	go func() { ended <- heartbeat.Run(ctx, cfg) }()
	at := <-ready
	_, err := agents(t, &replica{at: at}).Register(t.Context(), registration("BM-1", 1))
	retryable(t, "before the registry is there", err)
	registry.start(t)
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "NAME_TAKEN") {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("did not end")
	}
}

// Once it is in, a refusal does not end it: it turns agents away until that is resolved.
func TestAControlServerThatIsRefusedLaterTurnsAgentsAway(t *testing.T) {
	t.Parallel()
	registry := newServer(t)
	r := run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry))
	client := agents(t, r)
	_, err := client.Register(t.Context(), registration("BM-1", 1))
	check(t, err)
	registry.cloud.set(func(c *fakeCloud) { c.refusal = fault.New(fault.EndpointTaken, "held by another").GRPCStatus().Err() })
	eventually(t, "turned away", func() bool {
		_, err := client.Heartbeat(t.Context(), beat("BM-1", 1, 2))
		return err != nil && fault.From(err).Reason == fault.Draining
	})
	if ready, why := r.ready(); ready || !strings.Contains(why, "refuses") {
		t.Errorf("ready %v: %s", ready, why)
	}
	registry.cloud.set(func(c *fakeCloud) { c.refusal = nil })
	eventually(t, "taken", func() bool { _, err := client.Heartbeat(t.Context(), beat("BM-1", 1, 3)); return err == nil })
	eventually(t, "told how many agents it has", func() bool {
		registry.cloud.mu.Lock()
		defer registry.cloud.mu.Unlock()
		return registry.cloud.renewals[len(registry.cloud.renewals)-1].GetAgentsConnected() == 1
	})
}

// At its stop it leaves the cloud, serves its agents once more to tell them to go, and ends as soon as all know.
func TestAStopTellsAgentsToGo(t *testing.T) {
	registry := newServer(t)
	cfg := controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)
	cfg.Ingress.DrainTimeout = 20 * time.Second
	cfg.Ingress.AdvertisedGRPC = "cs-1.example.test:7422"
	r := run(t, cfg)
	client := agents(t, r)
	for i, name := range []string{"BM-1", "BM-2"} {
		_, err := client.Register(t.Context(), registration(name, i))
		check(t, err)
	}
	r.stop()
	eventually(t, "it leaves", func() bool { return len(registry.cloud.leavers()) == 1 })
	if left := registry.cloud.leavers()[0]; left.GetName() != "cs-1" || left.GetGrpcEndpoint() != "cs-1.example.test:7422" {
		t.Errorf("left as %v", left)
	}
	select {
	case err := <-r.ended:
		t.Fatalf("ended before its agents knew: %v", err)
	default:
	}
	for i, name := range []string{"BM-1", "BM-2"} {
		heard, err := client.Heartbeat(t.Context(), beat(name, i, 2))
		check(t, err)
		if !heard.GetDraining() {
			t.Errorf("%s is not told to go", name)
		}
	}
	r.end(t)
	registry.registry.mu.Lock()
	defer registry.registry.mu.Unlock()
	if registry.registry.stored["BM-1"] != 2 || registry.registry.stored["BM-2"] != 2 {
		t.Errorf("stored: %v", registry.registry.stored)
	}
}

// A replica that stops while the registry is slow answers first what it was asked.
func TestI7_AStopAnswersWhatWasAsked(t *testing.T) {
	registry := newServer(t)
	r := run(t, controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry))
	client := agents(t, r)
	arrived, store := make(chan struct{}, 10), make(chan struct{})
	registry.registry.set(func(context.Context, *registryv1.RecordHeartbeatsRequest) error {
		arrived <- struct{}{}
		<-store
		return nil
	})
	ended := make(chan error, 1)
	go func() {
		_, err := client.Register(context.WithoutCancel(t.Context()), registration("BM-1", 1))
		ended <- err
	}()
	<-arrived
	r.stop()
	eventually(t, "it leaves", func() bool { return len(registry.cloud.leavers()) == 1 })
	close(store)
	check(t, <-ended)
	r.end(t)
	if got := registry.registry.agents(); got != 1 {
		t.Errorf("%d agents stored", got)
	}
}

func TestWithoutANameThereIsNoIngress(t *testing.T) {
	registry := newServer(t)
	r := run(t, settings(newEmulator(t, emulator.SubscriptionProperties{}), registry))
	if r.at.IngressGRPC != "" || r.at.IngressREST != "" {
		t.Errorf("listens at %+v", r.at)
	}
	eventually(t, "ready", func() bool { ready, _ := r.ready(); return ready })
	if newest, _ := registry.registry.directEvidence(); newest != nil {
		t.Errorf("claims to hear agents: %v", newest)
	}
}

// Over TLS agents are served and the own canary goes through, whatever name the certificate is for.
func TestAControlServerOverTLS(t *testing.T) {
	registry := newServer(t)
	cfg := controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), registry)
	cert, key, pool := certificate(t, "cs-1.example.test")
	for _, one := range []*heartbeat.IngressListenConfig{&cfg.Ingress.GRPC, &cfg.Ingress.REST} {
		one.TLS.CertFile, one.TLS.KeyFile = cert, key
	}
	r := run(t, cfg)
	trust := &tls.Config{RootCAs: pool, ServerName: "cs-1.example.test", MinVersion: tls.VersionTLS12}
	conn, err := grpc.NewClient(r.at.IngressGRPC, grpc.WithTransportCredentials(credentials.NewTLS(trust)))
	check(t, err)
	defer conn.Close()
	_, err = heartbeatv1.NewAgentIngressClient(conn).Register(t.Context(), registration("BM-1", 1))
	check(t, err)
	transport := &http.Transport{TLSClientConfig: trust}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("https://" + r.at.IngressREST + "/agent/v1/control-server")
	check(t, err)
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("REST: %s", response.Status)
	}
	eventually(t, "evidence", func() bool {
		newest, _ := registry.registry.directEvidence()
		return newest.GetCanaryRoundTrip() != nil
	})
	if joined := registry.cloud.renewals[0]; joined.GetRestEndpoint() != "https://"+r.at.IngressREST {
		t.Errorf("joined as %v", joined)
	}
}

func TestI17_IngressConfigurationErrorsNameTheKey(t *testing.T) {
	cert, certKey, _ := certificate(t, "cs-1.example.test")
	keyFile, empty := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "empty")
	check(t, os.WriteFile(keyFile, []byte("fake-key"), 0o600))
	check(t, os.WriteFile(empty, nil, 0o600))
	good := func() heartbeat.Config {
		cfg := heartbeat.DefaultConfig()
		cfg.Bus.ConnectionString = config.Secret("Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=fake;UseDevelopmentEmulator=true")
		cfg.Ingress.Name, cfg.Ingress.EnrolmentKeyFile = "cs-1", keyFile
		cfg.Ingress.GRPC.Listen, cfg.Ingress.REST.Listen = "0.0.0.0:7422", "0.0.0.0:7423"
		cfg.Ingress.AdvertisedGRPC, cfg.Ingress.AdvertisedREST = "cs-1:7422", "https://cs-1:7423"
		cfg.Ingress.GRPC.TLS.CertFile, cfg.Ingress.GRPC.TLS.KeyFile = cert, certKey
		cfg.Ingress.REST.Plaintext = true
		return cfg
	}
	check(t, good().Validate())
	for _, row := range []struct {
		key    string
		change func(*heartbeat.IngressConfig)
	}{
		{"ingress.name", func(c *heartbeat.IngressConfig) { c.Name = strings.Repeat("n", 129) }},
		{"ingress.name", func(c *heartbeat.IngressConfig) { c.Name = "cs\u200b-1" }},
		{"ingress.name", func(c *heartbeat.IngressConfig) { c.Name = "cs\u00a01" }},
		{"ingress.name", func(c *heartbeat.IngressConfig) { c.Name = ".." }},
		{"ingress.grpc.listen", func(c *heartbeat.IngressConfig) { c.GRPC.Listen = "nowhere" }},
		{"ingress.grpc.listen", func(c *heartbeat.IngressConfig) { c.EnrolmentKeyFile = "" }},
		{"ingress.rest.listen", func(c *heartbeat.IngressConfig) { c.EnrolmentKeyFile = "" }},
		{"ingress.rest.listen", func(c *heartbeat.IngressConfig) { c.REST.Plaintext = false }},
		{"ingress.grpc.plaintext", func(c *heartbeat.IngressConfig) { c.GRPC.Plaintext = true }},
		{"ingress.grpc.tls", func(c *heartbeat.IngressConfig) { c.GRPC.TLS.KeyFile = "" }},
		{"ingress.advertisedGrpc", func(c *heartbeat.IngressConfig) { c.AdvertisedGRPC = "" }},
		{"ingress.advertisedGrpc", func(c *heartbeat.IngressConfig) { c.AdvertisedGRPC = "https://cs-1" }},
		{"ingress.advertisedGrpc", func(c *heartbeat.IngressConfig) { c.AdvertisedGRPC = "0.0.0.0:7422" }},
		{"ingress.advertisedGrpc", func(c *heartbeat.IngressConfig) { c.AdvertisedGRPC = "cs-1:0" }},
		{"ingress.advertisedRest", func(c *heartbeat.IngressConfig) { c.AdvertisedREST = "https://[::]:7423" }},
		{"ingress.rest.listen", func(c *heartbeat.IngressConfig) { c.REST.Listen = c.GRPC.Listen }},
		{"ingress.advertisedRest", func(c *heartbeat.IngressConfig) { c.AdvertisedREST = "" }},
		{"ingress.advertisedRest", func(c *heartbeat.IngressConfig) { c.AdvertisedREST = "cs-1:7423" }},
		{"ingress.advertisedRest", func(c *heartbeat.IngressConfig) { c.REST.Listen = "" }},
		{"ingress.enrolmentKeyFile", func(c *heartbeat.IngressConfig) { c.EnrolmentKeyFile = "/does/not/exist" }},
		{"ingress.enrolmentKeyFile", func(c *heartbeat.IngressConfig) { c.EnrolmentKeyFile = empty }},
		{"ingress.connectsPerSecond", func(c *heartbeat.IngressConfig) { c.ConnectsPerSecond = 0 }},
		{"ingress.heartbeatInterval", func(c *heartbeat.IngressConfig) { c.HeartbeatInterval = time.Millisecond }},
		{"ingress.drainTimeout", func(c *heartbeat.IngressConfig) { c.DrainTimeout = time.Minute }},
		{"ingress.protocolMin", func(c *heartbeat.IngressConfig) { c.ProtocolMin = 2 }},
	} {
		cfg := good()
		row.change(&cfg.Ingress)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), row.key+":") {
			t.Errorf("%s: %v", row.key, err)
		}
	}
	// Without a name there is no control server: then nothing of it may be set, or it would do nothing without a word.
	cfg := heartbeat.DefaultConfig()
	cfg.Bus = good().Bus
	check(t, cfg.Validate())
	for key, change := range map[string]func(*heartbeat.IngressConfig){
		"ingress.grpc":              func(c *heartbeat.IngressConfig) { c.GRPC.Listen = "0.0.0.0:7422" },
		"ingress.rest":              func(c *heartbeat.IngressConfig) { c.REST.TLS.CertFile = cert },
		"ingress.advertisedGrpc":    func(c *heartbeat.IngressConfig) { c.AdvertisedGRPC = "cs-1:7422" },
		"ingress.advertisedRest":    func(c *heartbeat.IngressConfig) { c.AdvertisedREST = "https://cs-1:7423" },
		"ingress.enrolmentKeyFile":  func(c *heartbeat.IngressConfig) { c.EnrolmentKeyFile = keyFile },
		"ingress.connectsPerSecond": func(c *heartbeat.IngressConfig) { c.ConnectsPerSecond = 1 },
		"ingress.heartbeatInterval": func(c *heartbeat.IngressConfig) { c.HeartbeatInterval = time.Second },
		"ingress.drainTimeout":      func(c *heartbeat.IngressConfig) { c.DrainTimeout = time.Second },
		"ingress.protocolMin":       func(c *heartbeat.IngressConfig) { c.ProtocolMax = 2 },
	} {
		unnamed := cfg
		change(&unnamed.Ingress)
		if err := unnamed.Validate(); err == nil || !strings.Contains(err.Error(), key+": is set, and ingress.name is not") {
			t.Errorf("%s without a name: %v", key, err)
		}
	}
}

// certificate makes a certificate of its own issuer.
func certificate(t testing.TB, name string) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	check(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	check(t, err)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	check(t, os.WriteFile(certFile, certPEM, 0o600))
	check(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return certFile, keyFile, pool
}
