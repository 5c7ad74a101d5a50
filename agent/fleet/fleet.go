// Package fleet runs many simulated agents in one process, over one shared bus, for demonstrations, tests and load.
// They are real agents of the SDK; only their machines are simulated.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/commandcenter/fleet/agent"
	"github.com/commandcenter/fleet/agent/host/simulated"
)

// Agent is one member of a fleet. It is on Service Bus, where it sends heartbeats, or on HTTP, or on both.
type Agent struct {
	// Name, unique in the fleet but for case.
	Name string
	// ServiceBus: it sends heartbeats and takes commands there.
	ServiceBus bool
	// HTTP: it serves commands there. On HTTP alone it sends no heartbeats.
	HTTP bool
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
	// AgentsPerConnection that receive over one Service Bus connection, 1 to 200; default 50.
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
	bus     *agent.Bus // nil if no member uses one
	members map[string]*member
	names   []string // in the order of Config.Agents
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	problems []error // of agents that ended before they were told to
}

type member struct {
	agent  *agent.Agent
	host   *simulated.Host
	faults *agent.Faults
}

// Start makes the agents and runs them until Close, or until the context ends; Close is needed either way. It returns
// at once; Ready waits. Errors are those of the configuration, and addresses that can't be listened on.
func Start(ctx context.Context, cfg Config) (*Fleet, error) {
	if len(cfg.Agents) == 0 {
		return nil, errors.New("fleet config: Agents: at least one is required")
	}
	ctx, stop := context.WithCancel(ctx)
	f := &Fleet{members: map[string]*member{}, stop: stop}
	if slices.ContainsFunc(cfg.Agents, func(a Agent) bool { return a.ServiceBus }) {
		var err error
		f.bus, err = agent.NewBus(agent.BusConfig{ConnectionString: cfg.ConnectionString, AgentsPerConnection: cfg.AgentsPerConnection})
		if err != nil {
			stop()
			return nil, err
		}
	}
	for _, a := range cfg.Agents {
		if err := f.enlist(ctx, cfg, a); err != nil {
			return nil, errors.Join(fmt.Errorf("fleet config: Agents: %q: %w", a.Name, err), f.Close())
		}
	}
	return f, nil
}

// enlist makes one agent and runs it.
func (f *Fleet) enlist(ctx context.Context, cfg Config, a Agent) error {
	if f.members[key(a.Name)] != nil {
		return errors.New("the name is there twice")
	}
	if cfg.Version == "" {
		cfg.Version = "simulated"
	}
	cfg.Machine.Seed = cfg.Seed
	m := &member{host: simulated.New(a.Name, cfg.Machine), faults: &agent.Faults{}}
	if a.Silent {
		m.faults.Silence()
	}
	config := agent.Config{
		Name: a.Name, Hostname: simulated.Hostname(a.Name), Version: cfg.Version, Host: m.host, Faults: m.faults,
		Heartbeat: agent.HeartbeatConfig{Interval: cfg.HeartbeatInterval}, Logger: cfg.Logger,
		Commands: agent.CommandConfig{DrainGrace: drainGrace},
	}
	if cfg.JournalDir != "" {
		config.JournalPath = filepath.Join(cfg.JournalDir, url.QueryEscape(key(a.Name))+".journal")
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
	var err error
	if m.agent, err = agent.New(config); err != nil {
		return err
	}
	f.members[key(a.Name)] = m
	f.names = append(f.names, a.Name)
	f.running.Go(func() {
		if err := m.agent.Run(ctx); err != nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.problems = append(f.problems, fmt.Errorf("agent %q: %w", a.Name, err))
		}
	})
	return nil
}

// drainGrace is short: nothing of value is lost on a machine that only exists in memory.
const drainGrace = 3 * time.Second

func key(name string) string { return strings.ToLower(name) }

// Close ends the agents, waits for them, and closes the bus. It returns what went wrong with any of them meanwhile.
func (f *Fleet) Close() error {
	f.stop()
	f.running.Wait()
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
			case <-f.members[key(name)].agent.Ready():
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
		s := m.agent.Stats()
		sum.HeartbeatsSent += s.HeartbeatsSent
		sum.HeartbeatsFailed += s.HeartbeatsFailed
		sum.BusCommands += s.BusCommands
		sum.HTTPCommands += s.HTTPCommands
		sum.Succeeded += s.Succeeded
		sum.Failed += s.Failed
		sum.Refused += s.Refused
		sum.NotFound += s.NotFound
		sum.Expired += s.Expired
		sum.RepliesFailed += s.RepliesFailed
	}
	return sum
}
