// Command operator-gateway runs the operator gateway.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/telemetry"
	operatorgateway "github.com/commandcenter/fleet/services/operator-gateway"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "operator-gateway:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("operator-gateway", flag.ExitOnError)
	line := config.Flags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg := operatorgateway.DefaultConfig()
	if err := config.Load(&cfg, config.Options{EnvPrefix: "GATEWAY", File: line.File, Sets: line.Sets, Environ: os.Environ()}); err != nil {
		return err
	}
	logger, err := telemetry.NewLogger(os.Stderr, "operator-gateway", cfg.Log)
	if err != nil {
		return err
	}
	cfg.Logger = logger
	if err := cfg.Validate(); err != nil {
		return err
	}
	if line.CheckOnly {
		fmt.Println("operator-gateway: the settings are good")
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return operatorgateway.Run(ctx, cfg)
}
