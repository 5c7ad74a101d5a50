// Command chaos-agents is the agents that do jobs under chaos, in a process that can be killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/commandcenter/fleet/agent"
	"github.com/commandcenter/fleet/deploy/chaos"
)

func main() {
	connection := flag.String("bus", "", "connection string")
	dir := flag.String("dir", "", "`folder` of the journals")
	done := flag.String("done", "", "`file` in which machines write what they did")
	count := flag.Int("count", 1, "how many agents")
	broken := flag.String("break", "", "journal: forget which commands ran")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *connection, *dir, *done, *count, *broken == "journal"); err != nil {
		fmt.Fprintln(os.Stderr, "chaos-agents:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, connection, dir, done string, count int, forget bool) error {
	file, err := os.OpenFile(done, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	bus, err := agent.NewBus(agent.BusConfig{ConnectionString: connection})
	if err != nil {
		return err
	}
	defer bus.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the process ends
	var group sync.WaitGroup
	failures := make([]error, count)
	faults := &agent.Faults{}
	if forget {
		faults.ForgetCommands()
	}
	for i := range count {
		name := chaos.WorkingAgent(i)
		one, err := agent.New(agent.Config{
			Name: name, Host: chaos.NewMachine(name, file), Bus: bus, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
			Heartbeat: agent.HeartbeatConfig{Interval: 5 * time.Second}, JournalPath: filepath.Join(dir, name+".journal"),
			Faults: faults,
		})
		if err != nil {
			return err
		}
		group.Go(func() { failures[i] = one.Run(ctx) })
	}
	group.Wait()
	return errors.Join(failures...)
}
