package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/commandcenter/fleet/deploy/process"
)

func newUUID() string { return uuid.NewString() }

// measurement is one of several figures, which need a machine of their own.
type measurement struct {
	name string
	run  func(context.Context) error
}

// Run measures everything, or only what is named so, and returns the figures. Progress goes to out.
func Run(ctx context.Context, out io.Writer, only string) (*Report, error) {
	report := &Report{}
	chosen, err := choose(report.measurements(), only)
	if err != nil {
		return report, err
	}
	for _, one := range chosen {
		if err := one.run(ctx); err != nil {
			return report, fmt.Errorf("%s: %w", one.name, err)
		}
		_, _ = fmt.Fprintln(out, "measured:", one.name)
	}
	return report, nil
}

func (r *Report) measurements() []measurement {
	return []measurement{
		{"start", r.benchStart},
		{"emulator", r.benchEmulator},
		{"freshness", onSystem(r.benchFreshness)},
		{"commands", onSystem(r.benchCommands)},
		{"commands in flight", onSystem(r.benchInFlight)},
		{"ingest", onSystem(r.benchIngest)},
		{"replicas", onSystem(r.benchReplicas)},
		{"standstill", onSystem(r.benchStandstill)},
		{"silence", onSystem(r.benchSilence)},
		{"takeover", onSystem(r.benchTakeover)},
		{"sweeps", onSystem(r.benchSweeps)},
		{"large sweeps", onSystem(r.benchLargeSweeps)},
		{"probes", onSystem(r.benchProbes)},
		{"cloud", r.benchCloud},
		{"storm", onSystem(r.benchStorm)},
	}
}

// choose picks the measurement of a name; all without one.
func choose(all []measurement, only string) ([]measurement, error) {
	if only == "" {
		return all, nil
	}
	names := make([]string, 0, len(all))
	for _, one := range all {
		if one.name == only {
			return []measurement{one}, nil
		}
		names = append(names, one.name)
	}
	return nil, fmt.Errorf("nothing is measured as %q; there are: %s", only, strings.Join(names, ", "))
}

// onSystem runs a measurement on a fresh system, so that none sees what another left.
func onSystem(run func(context.Context, *system) error) func(context.Context) error {
	return func(ctx context.Context) error {
		fresh, err := newSystem(ctx)
		if err != nil {
			return err
		}
		defer fresh.close()
		return run(ctx, fresh)
	}
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
