package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/commandcenter/fleet/deploy/process"
)

func newUUID() string { return uuid.NewString() }

// Run measures everything and returns the figures. Progress goes to out.
func Run(ctx context.Context, out io.Writer) (*Report, error) {
	report := &Report{}
	if err := report.benchStart(ctx); err != nil {
		return report, fmt.Errorf("start: %w", err)
	}
	_, _ = fmt.Fprintln(out, "measured: start")
	if err := report.benchEmulator(ctx); err != nil {
		return report, fmt.Errorf("emulator: %w", err)
	}
	_, _ = fmt.Fprintln(out, "measured: emulator")
	measurements := []struct {
		name string
		run  func(context.Context, *system) error
	}{
		{"freshness", report.benchFreshness},
		{"commands", report.benchCommands},
		{"commands in flight", report.benchInFlight},
		{"ingest", report.benchIngest},
		{"replicas", report.benchReplicas},
	}
	for _, measurement := range measurements {
		if err := measure(ctx, measurement.run); err != nil {
			return report, fmt.Errorf("%s: %w", measurement.name, err)
		}
		_, _ = fmt.Fprintln(out, "measured:", measurement.name)
	}
	return report, nil
}

// measure runs one measurement on a fresh system, so that none sees what another left.
func measure(ctx context.Context, run func(context.Context, *system) error) error {
	fresh, err := newSystem(ctx)
	if err != nil {
		return err
	}
	defer fresh.close()
	return run(ctx, fresh)
}

// benchStart measures the time from starting the local system to its first accepted agent answering, binaries built.
func (r *Report) benchStart(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "fleet-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	address, err := process.FreeAddress()
	if err != nil {
		return err
	}
	began := time.Now()
	local, err := process.Start("local", dir, "-data", dir, "-rest", address, "-ports", "any")
	if err != nil {
		return err
	}
	defer local.Stop()
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		if get(ctx, http.DefaultClient, "http://"+address+"/api/agents/BM-AMS-01/services") == nil {
			break
		}
		select {
		case <-local.Ended():
			return fmt.Errorf("local ended; see %s", local.Log())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	r.Add(Figure{Name: "local system: start to first accepted agent answering", Value: time.Since(began).Seconds(), Unit: "s", Target: 3})
	return nil
}
