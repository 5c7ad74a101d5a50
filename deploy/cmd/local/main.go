// Command local runs the whole system in one process on loopback, with simulated agents.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/commandcenter/fleet/deploy/local"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "local:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	cfg := local.Config{Agents: local.HandfulOfAgents()}
	flags := flag.NewFlagSet("local", flag.ContinueOnError)
	flags.StringVar(&cfg.Dir, "data", "var", "`folder` of the database and the log; one system at a time runs in it")
	flags.StringVar(&cfg.REST, "rest", "127.0.0.1:8080", "`address` of the REST gateway, on loopback")
	flags.StringVar(&cfg.LogLevel, "log-level", "info", "debug, info, warn or error")
	flags.IntVar(&cfg.AvailabilityReplicas, "availability-replicas", 1, "how many replicas of the availability service compete for its job")
	flags.IntVar(&cfg.ControlServers, "control-servers", 3, "how many control servers there are for direct agents to fail over between")
	ports := flags.String("ports", "usual", "usual: the documented ports; any: wherever there is room")
	fresh := flags.Bool("fresh", false, "start from nothing: remove what earlier systems left in the folder")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg.AnyPorts = *ports == "any"

	// Nothing in the folder is touched before it is ours.
	if cfg.Claim, err = local.Take(cfg.Dir, time.Now()); err != nil {
		return explained(err)
	}
	defer func() { err = errors.Join(err, cfg.Claim.Release()) }()
	if *fresh {
		if err := cfg.Claim.Clear(); err != nil {
			return err
		}
	}
	log, err := cfg.Claim.OpenLog()
	if err != nil {
		return err
	}
	defer log.Close()
	cfg.Log = log

	system, err := local.Start(ctx, cfg)
	if err != nil {
		return explained(err)
	}
	if err := local.Enrol(ctx, system); err != nil {
		return errors.Join(err, system.Close())
	}
	if err := system.Describe(out, log.Name()); err != nil {
		return errors.Join(err, system.Close())
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(out, "stopping …")
		return system.Close()
	case err := <-system.Failed():
		return errors.Join(err, system.Close())
	}
}

// explained adds what to type.
func explained(err error) error {
	var inUse *local.InUseError
	switch {
	case errors.As(err, &inUse):
		advice := "\n"
		if running := inUse.Running; running.REST != "" {
			advice += "\n  Use it:      curl -s " + running.REST + "/api/agents"
		}
		if running := inUse.Running; running.PID != 0 {
			advice += fmt.Sprintf("\n  End it:      Ctrl-C where it runs, or end process %d", running.PID)
		}
		return fmt.Errorf("%w%s\n  A second:    make run ARGS=\"-data var-2 -ports any -rest 127.0.0.1:0\"", err, advice)
	case strings.Contains(err.Error(), "bind: "): // each system words the rest in its own way
		return fmt.Errorf(`%w

  Another program has the port. On free ones:  make run ARGS="-ports any -rest 127.0.0.1:0"`, err)
	}
	return err
}
