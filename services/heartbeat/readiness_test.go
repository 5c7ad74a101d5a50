package heartbeat_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	emulator "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/services/heartbeat"
	"github.com/commandcenter/fleet/services/internal/config"
)

// serving asks a service's gRPC health at an address.
func serving(t *testing.T, address, service string) bool {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	defer conn.Close()
	answer, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
	return err == nil && answer.GetStatus() == healthv1.HealthCheckResponse_SERVING
}

// silent is a listener that takes connections and never says a word.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { check(t, listener.Close()) })
	go func() {
		var held []net.Conn // or the collector would close them
		for {
			conn, err := listener.Accept()
			if err != nil {
				for _, one := range held {
					one.Close()
				}
				return
			}
			held = append(held, conn)
		}
	}()
	return listener.Addr().String()
}

// Readiness is the agents' listener's own: without bus and registry agents still get an answer, and both are told on ?verbose.
func TestReadinessIsThatOfTheAgentsListener(t *testing.T) {
	t.Parallel()
	registry, e := newServer(t), newEmulator(t, emulator.SubscriptionProperties{})
	r := run(t, controlServer(t, e, registry))
	eventually(t, "all works", func() bool { all, _ := r.ready(); return all })
	registry.stop()
	defer registry.start(t)
	check(t, e.Close())
	eventually(t, "bus and registry are told", func() bool {
		status, text := r.readyz()
		if status != http.StatusOK {
			t.Fatalf("not ready without them: %d %s", status, text)
		}
		return strings.Contains(text, "[-] bus: ") && strings.Contains(text, "[-] registry: ") && strings.Contains(text, "[+] serving: ok")
	})
	if !serving(t, r.at.GRPC, heartbeat.IngressHealthService) || !serving(t, r.at.GRPC, "") {
		t.Error("the health that Kubernetes asks for follows the bus or the registry")
	}
	if serving(t, r.at.GRPC, heartbeat.HealthService) {
		t.Error("the ingest claims to work")
	}
}

// safeLog is a log that is read while it is written.
type safeLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *safeLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A lock that is longer than it may be is told on ?verbose and once in the log. Neither readiness nor the service depends on it.
func TestALockThatIsTooLongIsTold(t *testing.T) {
	t.Parallel()
	registry, e := newServer(t), newEmulator(t, emulator.SubscriptionProperties{LockDuration: emulator.Duration(time.Minute)})
	cfg := settings(e, registry)
	var log safeLog
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r := run(t, cfg)
	eventually(t, "the lock is told", func() bool {
		status, text := r.readyz()
		if text != "" && status != http.StatusOK {
			t.Fatalf("not ready for a long lock: %d %s", status, text)
		}
		return strings.Contains(text, "[-] lock of heartbeats: the subscription locks heartbeats for about ") && strings.Contains(text, "[+] bus: ok")
	})
	eventually(t, "the log says so", func() bool { return strings.Contains(log.String(), "the subscription's lock is too long") })
	r.end(t)
	if told := strings.Count(log.String(), "the subscription's lock is too long"); told != 1 {
		t.Errorf("the log says it %d times", told)
	}
}

// A bus and a registry that take connections and never answer hold up neither the start nor the stop.
func TestWhatNeverAnswersHoldsUpNothing(t *testing.T) {
	t.Parallel()
	cfg := controlServer(t, newEmulator(t, emulator.SubscriptionProperties{}), newServer(t))
	cfg.Registry.Target = silent(t)
	cfg.Bus.ConnectionString = config.Secret(fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=a;SharedAccessKey=fake;UseDevelopmentEmulator=true", silent(t)))
	r := run(t, cfg)
	response, err := http.Get("http://" + r.at.Admin + "/livez")
	check(t, err)
	check(t, response.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	eventually(t, "the agents' listener is ready", func() bool { status, _ := r.readyz(); return status == http.StatusOK })
	began := time.Now()
	r.end(t)
	if took := time.Since(began); took > 15*time.Second { // 10 s, and the margin of a busy machine
		t.Errorf("stopped after %s", took)
	}
}
