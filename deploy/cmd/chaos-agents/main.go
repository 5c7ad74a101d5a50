// Command chaos-agents is the agents that do jobs under chaos, in a process that can be killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/commandcenter/fleet/agent"
	"github.com/commandcenter/fleet/deploy/chaos"
)

type config struct {
	connection, dir, done    string
	count                    int
	direct, controlServers   []string
	enrolmentKeyFile, broken string
}

func main() {
	var cfg config
	flag.StringVar(&cfg.connection, "bus", "", "connection string")
	flag.StringVar(&cfg.dir, "dir", "", "`folder` of the journals, tokens and lists")
	flag.StringVar(&cfg.done, "done", "", "`file` in which machines write what they did")
	flag.IntVar(&cfg.count, "count", 1, "how many agents are on the bus")
	direct := flag.String("direct", "", "`addresses` at which direct agents serve commands, an agent each, separated by commas")
	servers := flag.String("control-servers", "", "`addresses` of control servers to register with, separated by commas")
	flag.StringVar(&cfg.enrolmentKeyFile, "enrolment-key-file", "", "`file` of the key to register with")
	flag.StringVar(&cfg.broken, "break", "", "journal: forget which commands ran")
	flag.Parse()
	cfg.direct, cfg.controlServers = list(*direct), list(*servers)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, cfg); err != nil {
		fmt.Fprintln(os.Stderr, "chaos-agents:", err)
		os.Exit(1)
	}
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func run(ctx context.Context, cfg config) error {
	done, err := os.OpenFile(cfg.done, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer done.Close()
	agents, closeAll, err := cfg.agents(done)
	if err != nil {
		return err
	}
	defer closeAll()
	var group sync.WaitGroup
	failures := make([]error, len(agents))
	for i, one := range agents {
		group.Go(func() { failures[i] = one.Run(ctx) })
	}
	group.Wait()
	return errors.Join(failures...)
}

// agents makes those on the bus and the direct ones, and what closes their connections.
func (c config) agents(done *os.File) (agents []*agent.Agent, closeAll func(), err error) {
	bus, err := agent.NewBus(agent.BusConfig{ConnectionString: c.connection})
	if err != nil {
		return nil, nil, err
	}
	closeAll = func() { _ = bus.Close(context.Background()) } // the process ends
	for i := range c.count {
		settings := c.settings(chaos.WorkingAgent(i), done)
		settings.Bus = bus
		if agents, err = appendAgent(agents, settings); err != nil {
			return nil, closeAll, err
		}
	}
	if len(c.direct) == 0 {
		return agents, closeAll, nil
	}
	cloud, err := agent.NewCloud(agent.CloudConfig{Registration: c.controlServers, EnrolmentKeyFile: c.enrolmentKeyFile, Plaintext: true})
	if err != nil {
		return nil, closeAll, err
	}
	closeAll = func() { _ = cloud.Close(); _ = bus.Close(context.Background()) } // the process ends
	for i, address := range c.direct {
		settings := c.settings(chaos.DirectAgent(i), done)
		settings.Cloud, settings.StateDir, settings.HTTP = cloud, filepath.Join(c.dir, settings.Name), &agent.HTTPConfig{Listen: address}
		settings.Failover = agent.FailoverConfig{
			CallTimeout: time.Second, ProbeInterval: time.Second, ReturnGrace: 2 * time.Second, FailoverGrace: time.Second,
			ServerInterval: 300 * time.Millisecond, ServerIntervalMax: time.Second, BackoffInterval: time.Second, BackoffIntervalMax: 3 * time.Second,
		}
		if err := os.MkdirAll(settings.StateDir, 0o700); err != nil {
			return nil, closeAll, err
		}
		if agents, err = appendAgent(agents, settings); err != nil {
			return nil, closeAll, err
		}
	}
	return agents, closeAll, nil
}

// settings are those that all agents have.
func (c config) settings(name string, done *os.File) agent.Config {
	faults := &agent.Faults{}
	if c.broken == "journal" {
		faults.ForgetCommands()
	}
	return agent.Config{
		Name: name, Host: chaos.NewMachine(name, done), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)).With("agent", name),
		Heartbeat: agent.HeartbeatConfig{Interval: chaos.HeartbeatInterval}, JournalPath: filepath.Join(c.dir, name+".journal"), Faults: faults,
	}
}

func appendAgent(agents []*agent.Agent, settings agent.Config) ([]*agent.Agent, error) {
	one, err := agent.New(settings)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", settings.Name, err)
	}
	return append(agents, one), nil
}
