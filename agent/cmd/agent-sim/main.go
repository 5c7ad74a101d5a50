// Command agent-sim runs simulated agents: real ones of the SDK, on machines that only exist in memory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/commandcenter/fleet/agent/fleet"
)

const summaryInterval = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "agent-sim:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	cfg, control, err := configure(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := fleet.Start(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d agents, %s to %s\n", len(cfg.Agents), cfg.Agents[0].Name, cfg.Agents[len(cfg.Agents)-1].Name)
	if control != "" {
		server, err := serveControl(ctx, control, f)
		if err != nil {
			return errors.Join(err, f.Close())
		}
		defer server.Close()
		fmt.Fprintf(out, "control at http://%s\n", server.Addr)
	}
	go func() {
		if err := f.Ready(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(out, err)
		} else if err == nil {
			fmt.Fprintln(out, "all agents take commands")
		}
	}()
	summarise(ctx, out, f)
	fmt.Fprintln(out, "stopping")
	return f.Close()
}

// configure reads the flags.
func configure(args []string) (cfg fleet.Config, control string, err error) {
	flags := flag.NewFlagSet("agent-sim", flag.ContinueOnError)
	agents := flags.Int("agents", 10, "how many agents")
	transport := flags.String("transport", "servicebus", "servicebus, http or both")
	prefix := flags.String("prefix", "SIM-", "names are this and a number")
	connectionFile := flags.String("connection-string-file", "", "file with the connection string of the Service Bus namespace")
	perConnection := flags.Int("agents-per-connection", 50, "agents that share a Service Bus connection, 1 to 200")
	tokenFile := flags.String("token-file", "", "file with the bearer token that commands over HTTP must carry; empty: none")
	heartbeat := flags.Duration("heartbeat", 30*time.Second, "interval between heartbeats")
	journals := flags.String("journal-dir", "", "folder for the agents' journals, which must exist; empty: commands are remembered in memory only")
	seed := flags.Uint64("seed", 1, "seed of what the machines hold")
	level := flags.String("log-level", "warn", "debug, info, warn or error")
	flags.StringVar(&control, "control", "", "loopback address that serves faults over HTTP, such as 127.0.0.1:0; empty: none")
	if err := flags.Parse(args); err != nil {
		return cfg, "", err
	}
	var logLevel slog.Level
	if err := logLevel.UnmarshalText([]byte(*level)); err != nil {
		return cfg, "", fmt.Errorf("-log-level: %w", err)
	}
	if *agents < 1 || *agents > 100_000 {
		return cfg, "", fmt.Errorf("-agents: %d is not within 1 to 100,000", *agents)
	}
	kind := fleet.Agent{Name: *prefix, ServiceBus: *transport != "http", HTTP: *transport != "servicebus"}
	if !slices.Contains([]string{"servicebus", "http", "both"}, *transport) {
		return cfg, "", fmt.Errorf("-transport: %q is not servicebus, http or both", *transport)
	}
	if kind.ServiceBus && *connectionFile == "" {
		return cfg, "", fmt.Errorf("-connection-string-file: is required with -transport %s", *transport)
	}
	cfg = fleet.Config{
		Agents:              fleet.Numbered(*agents, kind),
		AgentsPerConnection: *perConnection,
		HeartbeatInterval:   *heartbeat,
		JournalDir:          *journals,
		Seed:                *seed,
		Logger:              slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: logLevel})),
	}
	if cfg.Token, err = secret("-token-file", *tokenFile); err != nil {
		return cfg, "", err
	}
	cfg.ConnectionString, err = secret("-connection-string-file", *connectionFile)
	return cfg, control, err
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

// serveControl serves the faults, on loopback only.
func serveControl(ctx context.Context, address string, f *fleet.Fleet) (*http.Server, error) {
	name, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(name); err != nil || ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("-control: %q is not a loopback address with a port", address)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("-control: %w", err)
	}
	server := &http.Server{Addr: listener.Addr().String(), Handler: f.Control(), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return server, nil
}

// summarise prints a line now and then, until the context ends.
func summarise(ctx context.Context, out io.Writer, f *fleet.Fleet) {
	tick := time.NewTicker(summaryInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s := f.Stats()
			fmt.Fprintf(out, "%s heartbeats %d sent, %d failed; commands %d succeeded, %d failed, %d refused, %d not found, %d expired; "+
				"replies lost %d; goroutines %d\n", time.Now().Format(time.TimeOnly), s.HeartbeatsSent, s.HeartbeatsFailed,
				s.Succeeded, s.Failed, s.Refused, s.NotFound, s.Expired, s.RepliesFailed, runtime.NumGoroutine())
		}
	}
}
