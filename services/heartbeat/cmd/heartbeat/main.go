// Command heartbeat runs the heartbeat service.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/commandcenter/fleet/services/heartbeat"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/telemetry"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "heartbeat:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("heartbeat", flag.ExitOnError)
	line := config.Flags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg := heartbeat.DefaultConfig()
	if err := config.Load(&cfg, config.Options{EnvPrefix: "HEARTBEAT", File: line.File, Sets: line.Sets, Environ: os.Environ()}); err != nil {
		return err
	}
	logger, err := telemetry.NewLogger(os.Stderr, "heartbeat", cfg.Log)
	if err != nil {
		return err
	}
	cfg.Logger = logger
	if err := cfg.Validate(); err != nil {
		return err
	}
	if line.CheckOnly {
		fmt.Println("heartbeat: the settings are good")
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return heartbeat.Run(ctx, cfg)
}
