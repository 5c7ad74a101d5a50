package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/commandcenter/fleet/agent/host/simulated"
	"github.com/commandcenter/fleet/agent/internal/failover/disk"
	"github.com/commandcenter/fleet/agent/internal/standin"
)

// hasty is failover for tests: nothing takes long.
func hasty() FailoverConfig {
	return FailoverConfig{
		ProbeInterval: 100 * time.Millisecond, ReturnGrace: time.Millisecond, ListInterval: 100 * time.Millisecond,
		FailoverGrace: time.Millisecond, ServerInterval: 5 * time.Millisecond, ServerIntervalMax: 20 * time.Millisecond,
		BackoffInterval: 5 * time.Millisecond, BackoffIntervalMax: 20 * time.Millisecond, RefusedInterval: 100 * time.Millisecond,
	}
}

// directConfig of agent BM-1, which keeps its state in a folder of the test.
func directConfig(t *testing.T, cloud *standin.Cloud, registration ...string) Config {
	t.Helper()
	c, err := NewCloud(CloudConfig{Registration: registration, EnrolmentKeyFile: cloud.KeyFile(), Plaintext: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if len(c.links) > 0 {
			t.Errorf("connections are left: %v", c.links)
		}
		_ = c.Close()
	})
	return Config{
		Name: "BM-1", Host: newMachine(simulated.Options{}), HTTP: &HTTPConfig{Listen: "127.0.0.1:0"}, Cloud: c, StateDir: t.TempDir(),
		Heartbeat: HeartbeatConfig{Interval: 100 * time.Millisecond}, Failover: hasty(),
	}
}

// runner is the life of an agent that runs; end it before another has its folder.
type runner struct {
	*Agent
	end func()
}

func runDirect(t *testing.T, cfg Config) *runner {
	t.Helper()
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	l := &runner{a, sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})}
	t.Cleanup(l.end)
	return l
}

func (l *runner) worksWith(t *testing.T, name string) {
	t.Helper()
	eventually(t, func() bool { return l.ControlServer() == name })
}

// calls are the servers and methods of the calls so far, repetitions left out.
func calls(cloud *standin.Cloud) (done []string) {
	for _, c := range cloud.Calls() {
		done = append(done, c.Server+" "+c.Method)
	}
	return slices.Compact(done)
}

func TestI16_TheListsOrderIsFollowed(t *testing.T) {
	cloud := standin.New(t, "a", "b", "c", "d", "e")
	cloud.SetList("e1", "d", "b", "e", "c")
	a := runDirect(t, directConfig(t, cloud, cloud.Server("a").Endpoint))
	for _, name := range []string{"d", "b", "e", "c"} {
		a.worksWith(t, name)
		if name != "c" {
			cloud.Server(name).Kill()
		}
	}
	want := []string{"a Register", "d Heartbeat", "b Heartbeat", "e Heartbeat", "c Heartbeat"}
	if got := calls(cloud); !slices.Equal(got, want) {
		t.Errorf("called %q, want %q", got, want)
	}
	if s := a.Stats(); s.Connects != 4 || s.Failovers != 3 || s.Returns != 0 || s.Registrations != 1 || s.CallsFailed < 3 {
		t.Errorf("%+v", s)
	}
	cloud.Server("e").Revive() // neither its primary nor wanted
	cloud.Server("d").Revive()
	a.worksWith(t, "d")
	if s := a.Stats(); s.Connects != 5 || s.Returns != 1 || s.Failovers != 3 {
		t.Errorf("after the return: %+v", s)
	}
	eventually(t, func() bool { return cloud.Server("c").Connections() == 0 && cloud.Server("d").Connections() == 1 })
}

func TestTLSIsSpokenUnlessToldOtherwise(t *testing.T) {
	cloud, trust := standin.NewTLS(t, "a")
	cfg := directConfig(t, cloud, cloud.Server("a").Endpoint)
	plain := cfg.Cloud.cfg
	for _, c := range []CloudConfig{plain, {Registration: plain.Registration, EnrolmentKeyFile: plain.EnrolmentKeyFile}} {
		var err error
		if cfg.Cloud, err = NewCloud(c); err != nil {
			t.Fatal(err)
		}
		a := runDirect(t, cfg)
		eventually(t, func() bool { return a.Stats().CallsFailed > 0 })
		a.end()
	}
	if n := len(cloud.Calls()); n > 0 {
		t.Errorf("%d calls came in plain text, or from one who does not know the certificate", n)
	}
	plain.TLS, plain.Plaintext = trust, false
	var err error
	if cfg.Cloud, err = NewCloud(plain); err != nil {
		t.Fatal(err)
	}
	runDirect(t, cfg).worksWith(t, "a")
}

func TestABusyServerIsAskedThreeTimes(t *testing.T) {
	cloud := standin.New(t, "a", "b")
	cloud.Server("a").Before(func(_ context.Context, call standin.Call) error {
		if call.Method == "Register" {
			return nil
		}
		return standin.Error(codes.ResourceExhausted, "BUSY", durationpb.New(time.Millisecond))
	})
	a := runDirect(t, directConfig(t, cloud, cloud.Server("a").Endpoint))
	a.worksWith(t, "b")
	asked := 0
	for _, c := range cloud.Calls() {
		if c.Server == "b" {
			break
		}
		if c.Method == "Heartbeat" {
			asked++
		}
	}
	if s := a.Stats(); asked != 3 || s.CallsBusy < 3 {
		t.Errorf("asked %d times, %+v", asked, s)
	}
}

func TestADrainingServerIsLeft(t *testing.T) {
	cloud := standin.New(t, "a", "b", "c")
	a := runDirect(t, directConfig(t, cloud, cloud.Server("b").Endpoint))
	a.worksWith(t, "a")
	cloud.Server("a").Drain(true) // it serves, and asks the agent to go
	a.worksWith(t, "b")
	cloud.Server("b").Before(func(context.Context, standin.Call) error {
		return standin.Error(codes.Unavailable, "DRAINING", nil)
	})
	a.worksWith(t, "c")
	if s := a.Stats(); s.Failovers != 2 {
		t.Errorf("%+v", s)
	}
	before, pings := len(cloud.Calls()), cloud.Server("a").Pings()
	eventually(t, func() bool { return cloud.Server("a").Pings() >= pings+5 })
	for _, c := range cloud.Calls()[before:] {
		if c.Server != "c" {
			t.Errorf("%s is called, and it drains", c.Server)
		}
	}
	cloud.Server("a").Drain(false)
	a.worksWith(t, "a")
}

func TestAListThatComesIsFollowed(t *testing.T) {
	cloud := standin.New(t, "a", "b", "c")
	cfg := directConfig(t, cloud, cloud.Server("a").Endpoint)
	a := runDirect(t, cfg)
	a.worksWith(t, "a")
	cloud.SetList("e2", "c", "b")
	a.worksWith(t, "c")
	eventually(t, func() bool {
		list, err := disk.Load(filepath.Join(cfg.StateDir, "control-servers.json"))
		return err == nil && list.Etag == "e2"
	})
	eventually(t, func() bool { return cloud.Server("a").Connections() == 0 })
	for _, c := range cloud.Calls() {
		if c.Server == "c" && c.Etag != "e2" {
			t.Errorf("%s presents the etag %q", c.Server, c.Etag)
		}
	}
}

// log is what an agent logs.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), s)
}

func TestARefusedAgentSaysSoOnceAndAsksOn(t *testing.T) {
	for _, reason := range []string{"IDENTITY_CONFLICT", "NOT_CLAIMABLE", "UNAUTHENTICATED", "INVALID_ARGUMENT"} {
		cloud := standin.New(t, "a", "b")
		cloud.Server("a").Before(func(context.Context, standin.Call) error {
			return standin.Error(codes.FailedPrecondition, reason, nil)
		})
		said := &log{}
		cfg := directConfig(t, cloud, cloud.Server("a").Endpoint)
		cfg.Logger = slog.New(slog.NewTextHandler(said, nil))
		a := runDirect(t, cfg)
		eventually(t, func() bool { return a.Stats().CallsRefused >= 3 })
		if n := said.count("the stand-in says " + reason); n != 1 || a.ControlServer() != "" {
			t.Errorf("%s: said %d times, works with %q", reason, n, a.ControlServer())
		}
		cloud.Server("a").Before(nil)
		a.worksWith(t, "a")
		a.end()
	}
}

// Only a registration shows operators that there are two machines.
func TestAMachineWhoseNameWasTakenRegisters(t *testing.T) {
	cloud := standin.New(t, "a")
	a := runDirect(t, directConfig(t, cloud, cloud.Server("a").Endpoint))
	a.worksWith(t, "a")
	cloud.Claim("bm-1", "another machine's")
	eventually(t, func() bool { return a.Stats().CallsRefused > 0 })
	if got := cloud.Calls(); got[len(got)-1].Method != "Register" {
		t.Errorf("called %q", calls(cloud))
	}
	cloud.Forget("bm-1") // an operator reset the token
	a.worksWith(t, "a")
}

func TestARestartNeedsNoRegistration(t *testing.T) {
	cloud := standin.New(t, "a", "b", "gone")
	cloud.SetList("e1", "a", "b")
	cfg := directConfig(t, cloud, cloud.Server("gone").Endpoint)
	first := runDirect(t, cfg)
	first.worksWith(t, "a")
	first.end()
	if first.ControlServer() != "" {
		t.Error("an agent that ended works with a control server")
	}
	before := cloud.Calls()
	cloud.Server("gone").Kill()
	cloud.Server("a").Kill()
	if err := os.Remove(cfg.Cloud.cfg.EnrolmentKeyFile); err != nil {
		t.Fatal(err)
	}
	second := runDirect(t, cfg)
	second.worksWith(t, "b")
	for _, c := range cloud.Calls()[len(before):] {
		if c.Method != "Heartbeat" || c.Token != before[0].Token || c.Etag != "e1" {
			t.Errorf("after the restart: %+v", c)
		}
	}
}

// The token is on disk before anybody hears of it, and a lost answer is repeated with it.
func TestI6_ALostAnswerIsRepeatedAsTheSameMachine(t *testing.T) {
	cloud := standin.New(t, "a")
	cfg := directConfig(t, cloud, cloud.Server("a").Endpoint)
	cfg.Failover.CallTimeout = 200 * time.Millisecond
	var mu sync.Mutex
	var onDisk []string
	cloud.Server("a").Before(func(context.Context, standin.Call) error {
		token, _ := os.ReadFile(filepath.Join(cfg.StateDir, "token"))
		mu.Lock()
		defer mu.Unlock()
		onDisk = append(onDisk, strings.TrimSpace(string(token)))
		return nil
	})
	lost := 0
	cloud.Server("a").After(func(ctx context.Context, call standin.Call) error {
		mu.Lock()
		lost++
		lose := lost <= 2 || lost == 4
		mu.Unlock()
		if lose {
			<-ctx.Done() // until nobody waits any more
			return ctx.Err()
		}
		return nil
	})
	a := runDirect(t, cfg)
	eventually(t, func() bool { return a.Stats().HeartbeatsAnswered >= 2 })
	mu.Lock()
	defer mu.Unlock()
	seen := cloud.Calls()
	for i, c := range seen[:len(onDisk)] {
		if c.Token == "" || c.Token != onDisk[i] || c.Token != seen[0].Token {
			t.Errorf("call %d presents %q, with %q on disk", i, c.Token, onDisk[i])
		}
		if c.Heartbeat.GetSequence() != int64(i+1) || c.Heartbeat.GetBootId() != a.BootID() || c.Heartbeat.GetHttpBaseUrl() != a.HTTPBaseURL() {
			t.Errorf("call %d carries %v", i, c.Heartbeat)
		}
		// Three registrations, the last of which was answered, carry the bindings. Later heartbeats need not.
		if with := c.Heartbeat.GetIisBindings() != nil; with != (c.Method == "Register") {
			t.Errorf("call %d, a %s, has bindings: %t", i, c.Method, with)
		}
	}
	if info, err := os.Stat(filepath.Join(cfg.StateDir, "token")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token: %v, %v", info.Mode(), err)
	}
}

func TestI6_BindingsAreRepeatedUntilAHeartbeatWithThemWasAnswered(t *testing.T) {
	cloud := standin.New(t, "a", "b")
	a := runDirect(t, directConfig(t, cloud, cloud.Server("a").Endpoint))
	eventually(t, func() bool { return a.Stats().HeartbeatsAnswered >= 2 })
	cloud.Server("a").After(func(_ context.Context, call standin.Call) error {
		if call.Heartbeat.GetIisBindings() != nil {
			return standin.Error(codes.Internal, "INTERNAL", nil)
		}
		return nil
	})
	a.cfg.Host.(*machine).SetBindings(nil)
	a.worksWith(t, "b")
	var with []string
	for _, c := range cloud.Calls() {
		if bindings := c.Heartbeat.GetIisBindings(); bindings != nil && len(bindings.GetBindings()) == 0 {
			with = append(with, c.Server)
		}
	}
	if !slices.Equal(with, []string{"a", "b"}) {
		t.Errorf("the bindings went to %q", with)
	}
	cloud.Server("b").Kill()
	cloud.Forget("BM-1")
	cloud.Server("a").After(nil)
	eventually(t, func() bool { return a.Stats().Registrations == 2 }) // which brings them again
	for _, c := range cloud.Calls() {
		if c.Method == "Register" && c.Heartbeat.GetIisBindings() == nil {
			t.Error("a registration goes without bindings")
		}
	}
}

func TestI17_BadStateStopsTheAgent(t *testing.T) {
	cloud := standin.New(t, "a")
	cfg := directConfig(t, cloud, cloud.Server("a").Endpoint)
	token := filepath.Join(cfg.StateDir, "token")
	refused := func(want ...string) {
		t.Helper()
		a, err := New(cfg)
		if err == nil {
			t.Fatalf("%v is taken", a.cfg)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v does not say %q", err, w)
			}
		}
	}
	for _, damaged := range []string{"", "\n", "short", strings.Repeat("A", 42), strings.Repeat("A", 44), strings.Repeat("!", 43), strings.Repeat("\x00", 43)} {
		if err := os.WriteFile(token, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(token, "damaged", "reset")
		if left, _ := os.ReadFile(token); string(left) != damaged {
			t.Error("the damaged file was changed")
		}
	}
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	running := runDirect(t, cfg)
	refused("StateDir", "another agent")
	running.end()
	cfg.StateDir = filepath.Join(cfg.StateDir, "nowhere")
	refused("StateDir")
	cfg.StateDir = ""
	if err := os.Remove(cfg.Cloud.cfg.EnrolmentKeyFile); err != nil {
		t.Fatal(err)
	}
	refused("EnrolmentKeyFile")
	cfg.Failover.CallTimeout = time.Minute
	refused("Failover.CallTimeout")
	cfg.Failover = FailoverConfig{ProbeInterval: 1}
	refused("ProbeInterval")
	cfg.Cloud, cfg.StateDir = nil, "somewhere"
	refused("StateDir", "Cloud")
}

func TestI17_BadCloudsAreRefused(t *testing.T) {
	good := CloudConfig{Registration: []string{"cs-1:7422"}, EnrolmentKeyFile: "key", Plaintext: true}
	if _, err := NewCloud(good); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*CloudConfig){
		"Registration: at least":        func(c *CloudConfig) { c.Registration = nil },
		`Registration: "cs-1" is not`:   func(c *CloudConfig) { c.Registration = []string{"cs-1"} },
		`Registration: ":1" is not`:     func(c *CloudConfig) { c.Registration = []string{":1"} },
		`Registration: "a:0" has no`:    func(c *CloudConfig) { c.Registration = []string{"a:1", "a:0"} },
		"EnrolmentKeyFile: is required": func(c *CloudConfig) { c.EnrolmentKeyFile = "" },
		"Plaintext: contradicts":        func(c *CloudConfig) { c.TLS = &tls.Config{MinVersion: tls.VersionTLS12} },
		"AgentsPerConnection":           func(c *CloudConfig) { c.AgentsPerConnection = 1001 },
	} {
		bad := good
		change(&bad)
		if _, err := NewCloud(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestAnAgentOnTheBusKeepsItsList(t *testing.T) {
	cloud := standin.New(t, "a", "b")
	cfg := directConfig(t, cloud, cloud.Server("b").Endpoint)
	cfg.HTTP, cfg.Name = nil, "BM-BUS"
	g := newGateway(t)
	a := g.run(cfg)
	g.heartbeat()
	list := func(etag string) func() bool {
		return func() bool {
			list, err := disk.Load(filepath.Join(cfg.StateDir, "control-servers.json"))
			return err == nil && list.Etag == etag
		}
	}
	eventually(t, list("e1"))
	cloud.SetList("e2", "b", "a")
	cloud.Server("a").Kill()
	eventually(t, list("e2"))
	for _, c := range cloud.Calls() {
		if c.Method != "GetFailoverList" || c.Agent != "BM-BUS" {
			t.Errorf("%+v", c)
		}
	}
	if _, err := os.Stat(filepath.Join(cfg.StateDir, "token")); err == nil || a.ControlServer() != "" || a.Stats().ListsAnswered < 2 {
		t.Errorf("it has a token or works with %q; %+v", a.ControlServer(), a.Stats())
	}
}
