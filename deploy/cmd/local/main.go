// Command local runs the whole system in one process on loopback, with simulated agents.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/commandcenter/fleet/deploy/local"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "local:", err)
		os.Exit(1)
	}
}

func run() error {
	cfg := local.Config{Agents: local.HandfulOfAgents()}
	flag.StringVar(&cfg.Dir, "data", "var", "`folder` of the database and the log")
	flag.StringVar(&cfg.REST, "rest", "127.0.0.1:8080", "`address` of the REST gateway, on loopback")
	flag.StringVar(&cfg.LogLevel, "log-level", "info", "debug, info, warn or error")
	flag.IntVar(&cfg.AvailabilityReplicas, "availability-replicas", 1, "how many replicas of the availability service compete for its job")
	flag.IntVar(&cfg.ControlServers, "control-servers", 3, "how many control servers there are for direct agents to fail over between")
	ports := flag.String("ports", "usual", "usual: the documented ports; any: wherever there is room")
	flag.Parse()
	cfg.AnyPorts = *ports == "any"
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(cfg.Dir, "local.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cfg.Log = log

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	system, err := local.Start(ctx, cfg)
	if err != nil {
		return fmt.Errorf("%w (if a port is taken: out/bin/local -ports any -rest 127.0.0.1:0)", err)
	}
	if err := local.Enrol(ctx, system); err != nil {
		return errors.Join(err, system.Close())
	}
	if err := system.Describe(os.Stdout, log.Name()); err != nil {
		return errors.Join(err, system.Close())
	}
	select {
	case <-ctx.Done():
		fmt.Println("stopping …")
		return system.Close()
	case err := <-system.Failed():
		return errors.Join(err, system.Close())
	}
}
