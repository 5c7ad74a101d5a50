package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	"github.com/commandcenter/fleet/agent/host/simulated"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// pulseOn is an agent's heartbeats, sent to a slice; fail, when set, is why they are not.
func pulseOn(t *testing.T, m *machine, fail *error) (*pulse, *[]*agentv1.Heartbeat) {
	a, err := New(Config{Name: "BM-1", Version: "1.2.3", Hostname: "bm1", Host: m, HTTP: &HTTPConfig{Listen: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.listener.Close() })
	var sent []*agentv1.Heartbeat
	return &pulse{agent: a, send: func(_ context.Context, h *agentv1.Heartbeat) error {
		if fail != nil && *fail != nil {
			return *fail
		}
		sent = append(sent, h)
		return nil
	}}, &sent
}

func TestHeartbeatsAreOrderedWithinTheirBoot(t *testing.T) {
	p, sent := pulseOn(t, newMachine(simulated.Options{}), nil)
	for range 3 {
		p.beat(t.Context())
	}
	other, _ := pulseOn(t, newMachine(simulated.Options{}), nil)
	if other.agent.BootID() == p.agent.BootID() {
		t.Error("two starts have the same boot id")
	}
	for i, h := range *sent {
		if h.GetSequence() != int64(i+1) || h.GetBootId() != p.agent.BootID() {
			t.Errorf("heartbeat %d: sequence %d of boot %s", i, h.GetSequence(), h.GetBootId())
		}
		if h.GetHttpBaseUrl() != "http://"+p.agent.HTTPAddr() || len(h.GetCapabilities()) != 13 || h.GetName() != "BM-1" {
			t.Errorf("heartbeat %d says %v", i, h)
		}
		if err := protovalidate.Validate(h); err != nil {
			t.Error(err)
		}
	}
}

func TestI6_BindingsGoFirstWhenChangedAndEveryTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, fail := newMachine(simulated.Options{}), errors.New("the bus is away")
		p, sent := pulseOn(t, m, &fail)
		p.beat(t.Context()) // not sent, so neither are the bindings
		fail = nil
		with := func() bool {
			t.Helper()
			p.beat(t.Context())
			return (*sent)[len(*sent)-1].GetIisBindings() != nil
		}
		if !with() {
			t.Error("the first heartbeat that was sent goes without bindings")
		}
		time.Sleep(30 * time.Second)
		if with() {
			t.Error("unchanged bindings are repeated at once")
		}
		m.SetBindings([]*agentv1.IisBinding{{SiteName: "One", Protocol: "http", BindingInformation: "*:80:"}})
		if !with() {
			t.Error("changed bindings are not sent")
		}
		m.SetBindings(nil)
		if !with() || len((*sent)[len(*sent)-1].GetIisBindings().GetBindings()) != 0 {
			t.Error("an empty list, which clears what was reported, is not sent")
		}
		time.Sleep(10 * time.Minute)
		if !with() {
			t.Error("bindings are not repeated after ten minutes")
		}
		m.mu.Lock()
		m.failBindings = errors.New("access denied")
		m.mu.Unlock()
		if with() {
			t.Error("bindings that are not known clear what was reported")
		}
	})
}

// stuck is a machine whose IIS does not answer.
type stuck struct{ *machine }

func (stuck) Bindings(ctx context.Context) ([]*agentv1.IisBinding, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAHangingHostDoesNotSilenceItsAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, sent := pulseOn(t, newMachine(simulated.Options{}), nil)
		p.agent.cfg.Host = stuck{newMachine(simulated.Options{})}
		began := time.Now()
		p.beat(t.Context())
		if len(*sent) != 1 || time.Since(began) > 3*time.Second {
			t.Errorf("%d heartbeats in %s", len(*sent), time.Since(began))
		}
	})
}

func TestHeartbeatsComeAtTheirInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 1000 {
			if d := jittered(30*time.Second, 0.1); d < 27*time.Second || d > 33*time.Second {
				t.Fatal(d)
			}
		}
		for failures := range 40 {
			if d := retryDelay(failures + 1); d < 0 || d > 30*time.Second {
				t.Fatal(failures, d)
			}
		}
	})
}

func TestI7_UnacceptableBindingsDoNotPoisonTheHeartbeat(t *testing.T) {
	many := make([]*agentv1.IisBinding, 1200)
	for i := range many {
		many[i] = &agentv1.IisBinding{SiteName: "Site", Protocol: "http", BindingInformation: "*:80:"}
	}
	long := &agentv1.IisBinding{SiteName: strings.Repeat("s", 600)}
	huge := slices.Repeat([]*agentv1.IisBinding{{SiteName: strings.Repeat("s", 500), BindingInformation: strings.Repeat("b", 1000)}}, 900)
	for name, found := range map[string][]*agentv1.IisBinding{"many": many, "long": {long, many[0]}, "huge": huge} {
		kept := &agentv1.IisBindings{Bindings: reportable(found)}
		if err := protovalidate.Validate(kept); err != nil || len(kept.GetBindings()) == 0 || proto.Size(kept) > maxBindingsSize+8<<10 {
			t.Errorf("%s: %d kept, %d bytes, %v", name, len(kept.GetBindings()), proto.Size(kept), err)
		}
	}
}

func TestI17_BadConfigurationIsRefusedByField(t *testing.T) {
	bus, err := NewBus(BusConfig{ConnectionString: "Endpoint=sb://localhost;SharedAccessKeyName=n;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"})
	if err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Config){
		"Name":                       func(c *Config) { c.Name = "a\tb" },
		"Name: is required":          func(c *Config) { c.Name = "" },
		"Name: is longer":            func(c *Config) { c.Name = strings.Repeat("n", 129) },
		"Host":                       func(c *Config) { c.Host = nil },
		"Bus, HTTP":                  func(c *Config) { c.Bus = nil },
		"Hostname":                   func(c *Config) { c.Hostname = strings.Repeat("h", 256) },
		"Version":                    func(c *Config) { c.Version = strings.Repeat("v", 65) },
		"Heartbeat.Interval":         func(c *Config) { c.Heartbeat.Interval = time.Millisecond },
		"Heartbeat.BindingsInterval": func(c *Config) { c.Heartbeat.BindingsInterval = time.Second },
		"Commands.DrainGrace":        func(c *Config) { c.Commands.DrainGrace = -1 },
		"HTTP.Listen":                func(c *Config) { c.HTTP = &HTTPConfig{Listen: "nonsense"} },
		"HTTP.Token":                 func(c *Config) { c.HTTP = &HTTPConfig{Listen: ":0"} },
		"HTTP.Token: is required":    func(c *Config) { c.HTTP = &HTTPConfig{Listen: "192.0.2.1:80"} },
		"HTTP.AdvertisedURL":         func(c *Config) { c.HTTP = &HTTPConfig{Listen: "127.0.0.1:0", AdvertisedURL: "ftp://x"} },
	} {
		cfg := Config{Name: "BM-1", Host: newMachine(simulated.Options{}), Bus: bus}
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "agent config: "+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for field, cfg := range map[string]BusConfig{
		"ConnectionString":    {},
		"Credential":          {Namespace: "fleet.example"},
		"AgentsPerConnection": {ConnectionString: "x", AgentsPerConnection: 1000},
		"LockRenewalInterval": {ConnectionString: "x", LockRenewalInterval: time.Hour},
		"bus config":          {ConnectionString: "x"},
	} {
		if _, err := NewBus(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// What the registry tells availability of agents on the bus (returns.busReconnect, 70 s: an idle timeout of 1 min and a try) holds for this one, whatever
// its sends come to meanwhile. An interval and its jitter come on top.
func TestI11_AnAgentOnTheBusIsHeardSoonAfterAnOutage(t *testing.T) {
	const idle, interval = time.Minute, 30 * time.Second
	for name, outcome := range map[string]func(context.Context) error{
		"sends are refused": func(context.Context) error { return errors.New("refused") },
		"sends hang": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				synctest.Test(t, func(t *testing.T) {
					p, _ := pulseOn(t, newMachine(simulated.Options{}), nil)
					p.agent.cfg.Heartbeat.Interval = interval
					ctx, stop := context.WithCancel(t.Context())
					noticed := time.Now().Add(10 * time.Minute)
					p.send = func(ctx context.Context, _ *agentv1.Heartbeat) error {
						if time.Now().Before(noticed) { // the broker came back an idle timeout ago, over connections that are dead
							once, cancel := context.WithTimeout(ctx, sendTimeout)
							defer cancel()
							return outcome(once)
						}
						stop()
						return nil
					}
					p.agent.keepBeating(ctx, p)
					if late, bound := time.Since(noticed.Add(-idle)), 70*time.Second+interval+interval/10; late > bound {
						t.Errorf("heard %s after the broker came back, and %s is promised", late, bound)
					}
				})
			}
		})
	}
}

func TestI17_ANameThatARegistryRefusesIsWarnedOfAtTheStart(t *testing.T) {
	for name, says := range map[string]string{
		"SP-1": "", " SP-1\u00a0": "", "Stra\u00dfe 4": "", "..a": "",
		"SP\u200b-1": "U+200B", "SP\u202e-1": "U+202E", "SP\u00a01": "U+00A0", "SP\ufe0f": "U+FE0F", "..": "dots", " . ": "dots",
	} {
		var log bytes.Buffer
		a, err := New(Config{Name: name, Host: newMachine(simulated.Options{}), HTTP: &HTTPConfig{Listen: "127.0.0.1:0"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(name, err)
		}
		a.listener.Close()
		if warned := strings.Contains(log.String(), "level=WARN"); warned != (says != "") || !strings.Contains(log.String(), says) {
			t.Errorf("%q: %s", name, &log)
		}
	}
}
