// Command availability runs the availability service, or with the argument migrate brings its database's schema up.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/commandcenter/fleet/services/availability"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/telemetry"
)

// migrateTimeout is how long migrate may take, unless -timeout says otherwise.
const migrateTimeout = 10 * time.Minute

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "availability:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	migrate := len(args) > 0 && args[0] == "migrate"
	if migrate {
		args = args[1:]
	}
	flags := flag.NewFlagSet("availability [migrate]", flag.ExitOnError)
	line := config.Flags(flags)
	limit := migrateTimeout
	if migrate {
		flags.DurationVar(&limit, "timeout", migrateTimeout, "how long migrate may take, with waiting for the database")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q; the only one is migrate, before the flags", flags.Arg(0))
	}
	cfg := availability.DefaultConfig()
	if err := config.Load(&cfg, config.Options{EnvPrefix: "AVAILABILITY", File: line.File, Sets: line.Sets, Environ: os.Environ()}); err != nil {
		return err
	}
	logger, err := telemetry.NewLogger(os.Stderr, "availability", cfg.Log)
	if err != nil {
		return err
	}
	cfg.Logger = logger
	if err := cfg.Validate(); err != nil {
		return err
	}
	if line.CheckOnly {
		fmt.Println("availability: the settings are good")
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if migrate {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return availability.Migrate(ctx, cfg)
	}
	return availability.Run(ctx, cfg)
}
