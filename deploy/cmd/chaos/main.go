// Command chaos breaks a running system on purpose and counts what was lost, run twice or told wrongly. It exits with 1 when a
// promise was broken.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/commandcenter/fleet/deploy/chaos"
)

func main() {
	cfg := chaos.Config{Out: os.Stdout}
	flag.DurationVar(&cfg.Duration, "duration", 0, "how long faults are made, at least each once; up to 24h")
	flag.Uint64Var(&cfg.Seed, "seed", 0, "repeats a run; 0: by chance")
	flag.IntVar(&cfg.Beating, "beating", 1900, "agents that only send heartbeats, 1 to 20,000")
	flag.IntVar(&cfg.Working, "working", 100, "agents that also do jobs, 1 to 1,000")
	flag.IntVar(&cfg.Direct, "direct", 40, "agents that call control servers and do jobs over HTTP, 0 to 200")
	flag.StringVar(&cfg.Only, "only", "", "makes only those faults whose names hold this `text`")
	flag.StringVar(&cfg.Broken, "break", "", "journal: the agents forget which commands they ran, to see that this is noticed")
	flag.Parse()
	if cfg.Duration > 24*time.Hour || cfg.Beating < 1 || cfg.Beating > 20_000 || cfg.Working < 1 || cfg.Working > 1000 || cfg.Direct < 0 || cfg.Direct > 200 || (cfg.Broken != "" && cfg.Broken != "journal") {
		fmt.Fprintln(os.Stderr, "chaos: a flag is out of its range; see -help")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passed, failed, err := chaos.Run(ctx, cfg)
	if err != nil {
		failed++
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	fmt.Printf("\n%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
