// Command bench measures the system, prints the table and writes it as JSON. It exits with 1 when a target was missed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/commandcenter/fleet/deploy/bench"
)

func main() {
	path := flag.String("out", "out/bench.json", "`file` to write the figures to")
	only := flag.String("only", "", "measure only what has this `name`, such as sweeps")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := bench.Run(ctx, os.Stdout, *only)
	if err == nil {
		err = report.Write(*path)
	}
	if printed := report.Print(os.Stdout); err == nil {
		err = printed
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	for _, figure := range report.Figures {
		if figure.Met != nil && !*figure.Met {
			os.Exit(1)
		}
	}
}
