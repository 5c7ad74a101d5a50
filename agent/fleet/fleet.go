// Package fleet runs many simulated agents in one process, over shared connections, for demonstrations, tests and load.
// They are real agents of the SDK; only their machines are simulated.
package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/commandcenter/fleet/agent"
	"github.com/commandcenter/fleet/agent/host/simulated"
)

// Agent is one member of a fleet. It takes commands on Service Bus, or on HTTP, or on both.
type Agent struct {
	// Name, unique in the fleet but for case.
	Name string
	// ServiceBus: it sends heartbeats and takes commands there.
	ServiceBus bool
	// HTTP: it serves commands there. On HTTP alone it sends no heartbeats.
	HTTP bool
	// Direct: it sends its heartbeats to control servers, and needs HTTP to take commands. With ServiceBus it sends them there, and only
	// asks control servers for its failover list.
	Direct bool
	// Listen is the HTTP address; default "127.0.0.1:0", a free port.
	Listen string
	// Silent: it sends no heartbeat until Wake.
	Silent bool
}

// Numbered makes n agents like the given one, named by it and a number: SIM-0001, SIM-0002, ….
func Numbered(n int, like Agent) []Agent {
	agents := make([]Agent, n)
	for i := range agents {
		agents[i] = like
		agents[i].Name = fmt.Sprintf("%s%04d", like.Name, i+1)
	}
	return agents
}

// Config of a fleet.
type Config struct {
	// Agents; at least one.
	Agents []Agent
	// ConnectionString of the Service Bus namespace that the agents on Service Bus use, a secret.
	ConnectionString string
	// ControlServers are the endpoints that Direct agents register with, host:port; and EnrolmentKeyFile holds the key for that.
	ControlServers   []string
	EnrolmentKeyFile string
	// ControlServerTLS of the calls to control servers; nil: they are called in plain text.
	ControlServerTLS *tls.Config
	// Failover says how Direct agents call them; the zero value is good.
	Failover agent.FailoverConfig
	// StateDir is a folder, which must exist, for a folder per Direct agent with its token and list; empty: they are in memory, so that a
	// restarted one is another machine to the control plane.
	StateDir string
	// AgentsPerConnection that receive over one Service Bus connection, or share one to a control server, 1 to 200; default 50.
	AgentsPerConnection int
	// HeartbeatInterval; default 30 s.
	HeartbeatInterval time.Duration
	// Token is the bearer token that commands over HTTP must carry; empty: none.
	Token string
	// Version that the agents report; default "simulated".
	Version string
	// JournalDir is a folder, which must exist, for a journal per agent; empty: they remember commands in memory only.
	JournalDir string
	// Seed, with each agent's name, decides what its machine holds.
	Seed uint64
	// Machine is how the machines behave; its Seed is not used.
	Machine simulated.Options
	// Logger of the agents; default none.
	Logger *slog.Logger
}

// Fleet is running agents. Its methods are safe for concurrent use; names are compared case-insensitively.
type Fleet struct {
	bus     *agent.Bus   // nil if no member uses one
	cloud   *agent.Cloud // nil if no member uses one
	members map[string]*member
	names   []string // in the order of Config.Agents
	running context.Context
	stop    context.CancelFunc

	mu       sync.Mutex
	problems []error // of agents that ended before they were told to
}

// Start makes the agents and runs them until Close, or until the context ends; Close is needed either way. It returns
// at once; Ready waits. Errors are those of the configuration, and addresses that can't be listened on.
func Start(ctx context.Context, cfg Config) (*Fleet, error) {
	if len(cfg.Agents) == 0 {
		return nil, errors.New("fleet config: Agents: at least one is required")
	}
	f := &Fleet{members: map[string]*member{}}
	f.running, f.stop = context.WithCancel(ctx)
	if err := f.connect(cfg); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	for _, a := range cfg.Agents {
		if err := f.enlist(cfg, a); err != nil {
			return nil, errors.Join(fmt.Errorf("fleet config: Agents: %q: %w", a.Name, err), f.Close())
		}
	}
	return f, nil
}

// connect makes what the agents share.
func (f *Fleet) connect(cfg Config) (err error) {
	if slices.ContainsFunc(cfg.Agents, func(a Agent) bool { return a.ServiceBus }) {
		f.bus, err = agent.NewBus(agent.BusConfig{ConnectionString: cfg.ConnectionString, AgentsPerConnection: cfg.AgentsPerConnection})
		if err != nil {
			return err
		}
	}
	if slices.ContainsFunc(cfg.Agents, func(a Agent) bool { return a.Direct }) {
		f.cloud, err = agent.NewCloud(agent.CloudConfig{
			Registration: cfg.ControlServers, EnrolmentKeyFile: cfg.EnrolmentKeyFile, AgentsPerConnection: cfg.AgentsPerConnection,
			TLS: cfg.ControlServerTLS, Plaintext: cfg.ControlServerTLS == nil,
		})
	}
	return err
}

// enlist makes one agent and runs it.
func (f *Fleet) enlist(cfg Config, a Agent) error {
	if f.members[key(a.Name)] != nil {
		return errors.New("the name is there twice")
	}
	cfg.Machine.Seed = cfg.Seed
	m := &member{host: simulated.New(a.Name, cfg.Machine), faults: &agent.Faults{}}
	if a.Silent {
		m.faults.Silence()
	}
	m.failed = func(err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.problems = append(f.problems, fmt.Errorf("agent %q: %w", a.Name, err))
	}
	var err error
	if m.config, err = f.configure(cfg, a, m); err != nil {
		return err
	}
	if err := m.start(f.running); err != nil {
		return err
	}
	f.members[key(a.Name)] = m
	f.names = append(f.names, a.Name)
	return nil
}

// configure one agent.
func (f *Fleet) configure(cfg Config, a Agent, m *member) (agent.Config, error) {
	if cfg.Version == "" {
		cfg.Version = "simulated"
	}
	config := agent.Config{
		Name: a.Name, Hostname: simulated.Hostname(a.Name), Version: cfg.Version, Host: m.host, Faults: m.faults,
		Heartbeat: agent.HeartbeatConfig{Interval: cfg.HeartbeatInterval}, Logger: cfg.Logger,
		Commands: agent.CommandConfig{DrainGrace: drainGrace},
	}
	if cfg.JournalDir != "" {
		config.JournalPath = filepath.Join(cfg.JournalDir, fileName(a.Name)+".journal")
	}
	if a.ServiceBus {
		config.Bus = f.bus
	}
	if a.HTTP {
		config.HTTP = &agent.HTTPConfig{Listen: a.Listen, Token: cfg.Token}
		if a.Listen == "" {
			config.HTTP.Listen = "127.0.0.1:0"
		}
	}
	if a.Direct {
		config.Cloud, config.Failover = f.cloud, cfg.Failover
		if cfg.StateDir != "" {
			config.StateDir = filepath.Join(cfg.StateDir, fileName(a.Name))
			if err := os.MkdirAll(config.StateDir, 0o700); err != nil {
				return config, err
			}
		}
	}
	return config, nil
}

// fileName of an agent's own files.
func fileName(name string) string { return url.QueryEscape(key(name)) }

// drainGrace is short: nothing of value is lost on a machine that only exists in memory.
const drainGrace = 3 * time.Second

func key(name string) string { return strings.ToLower(name) }

// Close ends the agents, waits for them, and closes the connections. It returns what went wrong with any of them meanwhile.
func (f *Fleet) Close() error {
	f.stop()
	for _, m := range f.members {
		m.end()
	}
	if f.cloud != nil {
		_ = f.cloud.Close() // the agents have left it
	}
	if f.bus != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = f.bus.Close(ctx) // what matters was sent; a broken connection can't be closed any better
	}
	return f.failed()
}

func (f *Fleet) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.problems...)
}

// Ready waits until every agent takes commands, or one has failed.
func (f *Fleet) Ready(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond) // for failures; being ready is told at once
	defer tick.Stop()
	for _, name := range f.names {
		for ready := false; !ready; {
			select {
			case <-f.members[key(name)].present().Ready():
				ready = true
			case <-ctx.Done():
				return fmt.Errorf("fleet: agent %q takes no commands yet: %w", name, ctx.Err())
			case <-tick.C:
				if err := f.failed(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Names of the agents, in the order they were configured in.
func (f *Fleet) Names() []string { return slices.Clone(f.names) }

// Stats are those of all agents together.
func (f *Fleet) Stats() (sum agent.Stats) {
	for _, m := range f.members {
		sum = sum.Plus(m.stats())
	}
	return sum
}
