package conformance

import (
	"bytes"
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/commandcenter/fleet/agent"
	"github.com/commandcenter/fleet/agent/host/simulated"
	"github.com/commandcenter/fleet/deploy/entities"
	servicebusemulator "github.com/commandcenter/fleet/servicebus-emulator"
)

const (
	testName = "BM-Käfer-1" // with a letter that has a case beyond ASCII
	// interval is long enough that a machine under load does not let three of them pass.
	interval = 4 * time.Second
)

func newEmulator(t *testing.T) *servicebusemulator.Emulator {
	t.Helper()
	topics, err := entities.Config()
	if err != nil {
		t.Fatal(err)
	}
	emulator, err := servicebusemulator.Start(topics, servicebusemulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = emulator.Close() })
	return emulator
}

// reported checks a report, and shows all of it where it is not as wanted.
type reported struct {
	t      *testing.T
	report Report
	said   *bytes.Buffer
}

func check(t *testing.T, options Options) reported {
	t.Helper()
	said := &bytes.Buffer{}
	options.Out = said
	report, err := Run(t.Context(), options)
	if err != nil && report.Count(Failed) == 0 {
		t.Fatalf("%v\n%s", err, said)
	}
	return reported{t, report, said}
}

// all have passed, but for those that may go untried.
func (r reported) all(untried ...string) {
	r.t.Helper()
	allowed := map[string]bool{}
	for _, number := range untried {
		allowed[number] = true
	}
	for _, result := range r.report {
		if result.Status == Failed || (result.Status == NotTried && !allowed[result.Rule]) {
			r.t.Errorf("%s %s: %s: %s", result.Status, result.Rule, result.Title, result.Seen)
		}
	}
	if len(r.report) != len(rules()) {
		r.t.Errorf("%d of %d rules were looked at:\n%s", len(r.report), len(rules()), r.said)
	}
}

// sdkAgent is an agent of the SDK, in this process.
type sdkAgent struct {
	t   *testing.T
	cfg agent.Config

	mu    sync.Mutex
	stop  context.CancelFunc
	ended chan error
}

func (s *sdkAgent) Start(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, err := agent.New(s.cfg)
	if err != nil {
		return err
	}
	if s.cfg.HTTP.Listen == "127.0.0.1:0" {
		s.cfg.HTTP.Listen = made.HTTPAddr() // it comes back to where it was
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s.stop, s.ended = stop, ended
	go func() { ended <- made.Run(ctx); close(ended) }()
	return nil
}

func (s *sdkAgent) Stop(context.Context) (<-chan error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	return s.ended, nil
}

func (s *sdkAgent) Restart(ctx context.Context) error {
	ended, err := s.Stop(ctx)
	if err != nil {
		return err
	}
	<-ended
	return s.Start(ctx)
}

// The Go SDK keeps every rule of the contract, over the bus and over HTTP.
func TestTheSDKsAgentKeepsTheContract(t *testing.T) {
	t.Parallel()
	emulator := newEmulator(t)
	bus, err := agent.NewBus(agent.BusConfig{ConnectionString: emulator.ConnectionString()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = bus.Close(ctx)
	})
	process := &sdkAgent{t: t}
	machine := simulated.New(testName, simulated.Options{
		StartDuration: 4 * time.Second, StopDuration: 4 * time.Second, AgentService: "TheAgent",
		RestartAgent: func() { go func() { _ = process.Restart(context.Background()) }() },
	})
	process.cfg = agent.Config{
		Name: testName, Host: machine, Bus: bus, HTTP: &agent.HTTPConfig{Listen: "127.0.0.1:0", Token: "not-a-real-token"},
		JournalPath: filepath.Join(t.TempDir(), "journal"), Heartbeat: agent.HeartbeatConfig{Interval: interval},
		Commands: agent.CommandConfig{DrainGrace: time.Minute},
	}
	if err := process.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, _ := process.Stop(context.Background())
		<-ended
	})
	check(t, Options{
		Name: testName, ConnectionString: emulator.ConnectionString(), Emulator: emulator, Interval: interval,
		SlowWrite: `{"restartService":{"service":"W3SVC"}}`, OwnService: "TheAgent", Process: process,
		BaseURL: "http://" + process.cfg.HTTP.Listen, Token: "not-a-real-token",
	}).all("4.9", journalRule, hostStateRule) // its process is this one; TestI24_TheSDKsAgentStartsNothingLate has another
}
