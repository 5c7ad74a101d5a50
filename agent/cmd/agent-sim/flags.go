package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/commandcenter/fleet/agent/fleet"
)

// kinds of agents, by the name of their transport.
var kinds = map[string]fleet.Agent{
	"servicebus": {ServiceBus: true},
	"http":       {HTTP: true},
	"both":       {ServiceBus: true, HTTP: true},
	"direct":     {Direct: true, HTTP: true},
}

// configure reads the flags.
func configure(args []string) (cfg fleet.Config, control string, err error) {
	flags := flag.NewFlagSet("agent-sim", flag.ContinueOnError)
	agents := flags.Int("agents", 10, "how many agents")
	transport := flags.String("transport", "servicebus", "servicebus, http, both, or direct: heartbeats to control servers, commands over HTTP")
	prefix := flags.String("prefix", "SIM-", "names are this and a number")
	connectionFile := flags.String("connection-string-file", "", "file with the connection string of the Service Bus namespace")
	controlServers := flags.String("control-servers", "", "endpoints to register with, host:port,…; with Service Bus: to ask for failover lists")
	flags.StringVar(&cfg.EnrolmentKeyFile, "enrolment-key-file", "", "file with the key that control servers want")
	flags.StringVar(&cfg.StateDir, "state-dir", "", "folder for the agents' tokens and failover lists, which must exist; empty: in memory only, "+
		"so that agents started anew need another -prefix")
	flags.IntVar(&cfg.AgentsPerConnection, "agents-per-connection", 50, "agents that share a connection, 1 to 200")
	tokenFile := flags.String("token-file", "", "file with the bearer token that commands over HTTP must carry; empty: none")
	flags.DurationVar(&cfg.HeartbeatInterval, "heartbeat", 30*time.Second, "interval between heartbeats")
	flags.StringVar(&cfg.JournalDir, "journal-dir", "", "folder for the agents' journals, which must exist; empty: commands are remembered in memory only")
	flags.Uint64Var(&cfg.Seed, "seed", 1, "seed of what the machines hold")
	level := flags.String("log-level", "warn", "debug, info, warn or error")
	flags.StringVar(&control, "control", "", "loopback address that serves faults over HTTP, such as 127.0.0.1:0; empty: none")
	if err := flags.Parse(args); err != nil {
		return cfg, "", err
	}
	var logLevel slog.Level
	if err := logLevel.UnmarshalText([]byte(*level)); err != nil {
		return cfg, "", fmt.Errorf("-log-level: %w", err)
	}
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: logLevel}))
	if *controlServers != "" {
		cfg.ControlServers = strings.Split(*controlServers, ",")
	}
	if cfg.Agents, err = agentsOf(*agents, *prefix, *transport, *connectionFile, cfg); err != nil {
		return cfg, "", err
	}
	if cfg.Token, err = secret("-token-file", *tokenFile); err != nil {
		return cfg, "", err
	}
	cfg.ConnectionString, err = secret("-connection-string-file", *connectionFile)
	return cfg, control, err
}

// agentsOf that many, if what their transport needs was given.
func agentsOf(n int, prefix, transport, connectionFile string, cfg fleet.Config) ([]fleet.Agent, error) {
	if n < 1 || n > 100_000 {
		return nil, fmt.Errorf("-agents: %d is not within 1 to 100,000", n)
	}
	kind, known := kinds[transport]
	switch {
	case !known:
		return nil, fmt.Errorf("-transport: %q is not servicebus, http, both or direct", transport)
	case kind.ServiceBus && connectionFile == "":
		return nil, fmt.Errorf("-connection-string-file: is required with -transport %s", transport)
	case kind.Direct && len(cfg.ControlServers) == 0:
		return nil, fmt.Errorf("-control-servers: is required with -transport %s", transport)
	case len(cfg.ControlServers) > 0 && !kind.Direct && !kind.ServiceBus:
		return nil, fmt.Errorf("-control-servers: -transport %s sends nothing there", transport)
	case len(cfg.ControlServers) > 0 && cfg.EnrolmentKeyFile == "":
		return nil, fmt.Errorf("-enrolment-key-file: is required with -control-servers")
	}
	kind.Name = prefix
	kind.Direct = len(cfg.ControlServers) > 0
	return fleet.Numbered(n, kind), nil
}

func secret(name, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if value := strings.TrimSpace(string(content)); value != "" {
		return value, nil
	}
	return "", fmt.Errorf("%s: %s is empty", name, path)
}
