// Command conformance runs the tests that others wrote for Azure Service Bus against the emulator.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/conformance/live"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// run is also the SDK's fault injector, which its tests start as a program of its own.
func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == "transfer_delay" {
		return live.InjectFaults(ctx, os.Args[2:])
	}
	cfg := live.Config{Out: os.Stdout}
	flag.StringVar(&cfg.Root, "root", "servicebus-emulator", "folder of the emulator's go.mod")
	flag.StringVar(&cfg.Logs, "logs", "out/conformance", "folder for what the tests print")
	flag.StringVar(&cfg.Only, "only", "", "regular expression that chooses suites")
	flag.StringVar(&cfg.Run, "run", "", "regular expression that chooses tests")
	flag.DurationVar(&cfg.Timeout, "timeout", 30*time.Minute, "longest time of a suite")
	flag.BoolVar(&cfg.Serve, "serve", false, "run no tests: keep the emulators up and print the environment for tests by hand")
	flag.Parse()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cfg.FaultInjector = program
	return live.Run(ctx, cfg)
}
