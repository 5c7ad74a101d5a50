package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // registers "sqlite"

	"github.com/commandcenter/fleet/agent"
	"github.com/commandcenter/fleet/agent/fleet"
	"github.com/commandcenter/fleet/deploy/local"
	"github.com/commandcenter/fleet/deploy/process"
	"github.com/commandcenter/fleet/deploy/story"
	"github.com/commandcenter/fleet/services/registry"
)

const (
	directAgents  = 300
	directBeats   = 2 * time.Second
	failoverGrace = 1500 * time.Millisecond
)

// heartbeatBinary builds the heartbeat service once: a control server that is killed must be a process of its own.
var heartbeatBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "fleet-e2e-*")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "heartbeat")
	build := exec.Command("go", "build", "-o", path, "./services/heartbeat/cmd/heartbeat")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := heartbeatBinary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// controlServer is one that runs in a process of its own, always at the same addresses.
type controlServer struct {
	name, grpc, rest string
	process          *process.Process
}

// cloudWorld is a system whose control servers are processes, and a fleet of direct agents.
type cloudWorld struct {
	t       *testing.T
	dir     string
	system  *local.System
	client  story.Client
	raw     *sql.DB
	servers map[string]*controlServer
	fleet   *fleet.Fleet
}

func newCloudWorld(t *testing.T, names ...string) *cloudWorld {
	t.Helper()
	times := registry.DefaultConfig().Cloud
	times.Debounce, times.LeaseTimeout, times.DrainGrace, times.FreezeInterval, times.EvictionGrace = 300*time.Millisecond, 12*time.Second, 3*time.Second, 20*time.Second, time.Minute
	dir := t.TempDir()
	system, err := local.Start(t.Context(), local.Config{
		Dir: dir, REST: "127.0.0.1:0", AnyPorts: true, WithoutIngest: true, HeartbeatInterval: directBeats, SweepInterval: 500 * time.Millisecond,
		Cloud: &times, Agents: []fleet.Agent{{Name: "BM-BUS-01", ServiceBus: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &cloudWorld{
		t: t, dir: dir, system: system, client: story.Client{Base: system.REST, HTTP: &http.Client{Timeout: 30 * time.Second}}, servers: map[string]*controlServer{},
	}
	t.Cleanup(func() {
		if w.fleet != nil {
			_ = w.fleet.Close()
		}
		for _, server := range w.servers {
			server.process.Stop()
		}
		if err := system.Close(); err != nil {
			t.Error(err)
		}
	})
	if w.raw, err = sql.Open("sqlite", "file:"+system.Database+"?_pragma=busy_timeout(20000)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.raw.Close() })
	for _, name := range names {
		w.start(name)
	}
	return w
}

// start starts a control server, or starts it again where it was.
func (w *cloudWorld) start(name string) {
	w.t.Helper()
	binary, err := heartbeatBinary()
	if err != nil {
		w.t.Fatal(err)
	}
	free := func() string {
		address, err := process.FreeAddress()
		if err != nil {
			w.t.Fatal(err)
		}
		return address
	}
	server := w.servers[name]
	if server == nil {
		server = &controlServer{name: name, grpc: free(), rest: free()}
		w.servers[name] = server
	}
	admin, args := free(), []string{}
	for _, setting := range []string{
		"log.level=info", "admin.listen=" + admin, "grpc.listen=" + free(), "registry.target=" + w.system.Registry, "bus.connectionString=" + w.system.Bus,
		"ingress.name=" + name, "ingress.grpc.listen=" + server.grpc, "ingress.rest.listen=" + server.rest, "ingress.enrolmentKeyFile=" + w.system.EnrolmentKey,
		"ingress.heartbeatInterval=" + directBeats.String(), "ingress.drainTimeout=1s",
	} {
		args = append(args, "-set", setting)
	}
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	if server.process, err = process.StartAt(binary, dir, args...); err != nil {
		w.t.Fatal(err)
	}
	if err := server.process.Ready(w.t.Context(), admin); err != nil {
		log, _ := os.ReadFile(server.process.Log())
		w.t.Fatalf("%v: %.4000s", err, log)
	}
}

// enrolAgents starts the direct agents, which register with one of the control servers, and accepts them all.
func (w *cloudWorld) enrolAgents(registration string) {
	w.t.Helper()
	states := filepath.Join(w.dir, "direct")
	if err := os.MkdirAll(states, 0o750); err != nil {
		w.t.Fatal(err)
	}
	var err error
	w.fleet, err = fleet.Start(context.Background(), fleet.Config{
		Agents: fleet.Numbered(directAgents, fleet.Agent{Name: "BM-D", Direct: true, HTTP: true}), ControlServers: []string{w.servers[registration].grpc},
		EnrolmentKeyFile: w.system.EnrolmentKey, StateDir: states, HeartbeatInterval: directBeats, Logger: slog.New(slog.DiscardHandler),
		Failover: agent.FailoverConfig{
			CallTimeout: 2 * time.Second, ProbeInterval: time.Second, ReturnGrace: 2 * time.Second, FailoverGrace: failoverGrace,
			ServerInterval: 300 * time.Millisecond, BackoffInterval: time.Second, BackoffIntervalMax: 3 * time.Second,
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	until(w.t, "all agents are known", func() bool {
		return w.count("SELECT COUNT(*) FROM TblAgent WHERE TokenHash IS NOT NULL") == directAgents
	})
	items := make([]map[string]any, 0, directAgents)
	for _, name := range w.fleet.Names() {
		if answer, err := w.client.Do(w.t.Context(), http.MethodPost, "/api/config/servers", map[string]any{"name": name, "url": "https://bm.example.test"}, ""); err != nil || answer.Status != http.StatusOK {
			w.t.Fatal(answer.Raw, err)
		}
		items = append(items, map[string]any{"name": name, "etag": get(w.t, w.client, "/api/config/agents/"+name).Text("etag")})
	}
	answer, err := w.client.Do(w.t.Context(), http.MethodPost, "/api/config/agents:accept", map[string]any{"items": items}, "")
	if err != nil || answer.Status != http.StatusOK {
		w.t.Fatal(answer.Raw, err)
	}
	until(w.t, "all servers are online", func() bool { return w.online() == directAgents })
}

func (w *cloudWorld) count(query string, args ...any) (n int) {
	w.t.Helper()
	if err := w.raw.QueryRow(query, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *cloudWorld) online() int {
	return w.count("SELECT COUNT(*) FROM TblServer WHERE Online = 1 AND Name LIKE 'BM-D%'")
}

// nobodyWentOffline is the promise of it all: whatever happens to the control servers, customers do not notice.
func (w *cloudWorld) nobodyWentOffline() {
	w.t.Helper()
	if rows := w.count("SELECT COUNT(*) FROM TblServerOfflineLog"); rows != 0 || w.online() != directAgents {
		w.t.Errorf("%d rows in the offline log, %d servers online", rows, w.online())
	}
}

// loads counts the agents by the control server they work with.
func (w *cloudWorld) loads() map[string]int {
	w.t.Helper()
	loads := map[string]int{}
	for _, name := range w.fleet.Names() {
		at, err := w.fleet.ControlServer(name)
		if err != nil {
			w.t.Fatal(err)
		}
		loads[at]++
	}
	return loads
}

// spread waits until the agents work with these control servers, each of them with so many, within 5 %.
func (w *cloudWorld) spread(when string, each int, names ...string) {
	w.t.Helper()
	want := map[string]int{}
	for _, name := range names {
		want[name] = each
	}
	w.work(when, want)
}

// work waits until so many agents work with each of these control servers, within 5 %, and none with another.
func (w *cloudWorld) work(when string, want map[string]int) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		loads := w.loads()
		good := len(loads) == len(want)
		for name, each := range want {
			good = good && loads[name]*100 >= each*95 && loads[name]*100 <= each*105
		}
		if good {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: %v, expected about %v", when, loads, want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// operate does what an operator does, and returns the answer.
func (w *cloudWorld) operate(method, path string, body any, etag string) story.Answer {
	w.t.Helper()
	answer, err := w.client.Do(w.t.Context(), method, path, body, etag)
	if err != nil || answer.Status != http.StatusOK {
		w.t.Fatal(method, path, answer.Raw, err)
	}
	return answer
}

// change changes a control server, which has the etag that it has now.
func (w *cloudWorld) change(method, name, path string, body map[string]any) {
	w.t.Helper()
	var etag string
	for _, server := range get(w.t, w.client, "/api/config/control-servers").List("servers") {
		if server["name"] == name {
			etag, _ = server["etag"].(string)
		}
	}
	w.operate(method, "/api/config/control-servers/"+name+path, body, etag)
}

// event is the newest partition event.
func (w *cloudWorld) event() map[string]any {
	w.t.Helper()
	events := get(w.t, w.client, "/api/config/partition-events?pageSize=1").List("events")
	if len(events) == 0 {
		return map[string]any{}
	}
	return events[0]
}

func (w *cloudWorld) epoch() string { return fmt.Sprint(w.event()["epoch"]) }
