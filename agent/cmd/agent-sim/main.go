// Command agent-sim runs simulated agents: real ones of the SDK, on machines that only exist in memory. With the argument storm it simulates
// how a fleet of direct agents fails over, without a network.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/commandcenter/fleet/agent/fleet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "agent-sim:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "storm" {
		if err := rehearse(args[1:], out); !errors.Is(err, flag.ErrHelp) {
			return err
		}
		return nil
	}
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
