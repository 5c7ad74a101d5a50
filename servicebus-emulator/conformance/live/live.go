package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Config of a run.
type Config struct {
	Root          string // folder of the emulator's go.mod
	Logs          string // folder for what the tests print
	Only          string // regular expression that chooses suites; empty: all
	Run           string // regular expression that chooses tests, as go test -run; empty: all
	Timeout       time.Duration
	Serve         bool   // keep the emulators up for tests by hand, and run none
	FaultInjector string // path of the program that is started as the SDK's fault injector
	Out           io.Writer
}

// ErrFailed says that tests failed; which is printed.
var ErrFailed = errors.New("tests failed")

// Run runs the chosen suites and prints what came of them.
func Run(ctx context.Context, cfg Config) (err error) {
	only, err := regexp.Compile(cfg.Only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	scratch, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := os.MkdirAll(cfg.Logs, 0o755); err != nil {
		return err
	}
	w, err := build(filepath.Join(scratch, "root.pem"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if cfg.Serve {
		return serve(ctx, cfg, w)
	}
	failed := 0
	for _, s := range Suites {
		if !only.MatchString(s.Name) {
			continue
		}
		n, err := runSuite(ctx, cfg, w, s, scratch)
		if err != nil {
			return err
		}
		failed += n
	}
	n, err := runProbes(ctx, cfg, w, only, scratch)
	if err != nil {
		return err
	}
	if failed += n; failed > 0 {
		return fmt.Errorf("%d %w; their output is in %s", failed, ErrFailed, cfg.Logs)
	}
	return nil
}

// serve keeps the emulators up until the context ends, and prints the environment that leads tests to them.
func serve(ctx context.Context, cfg Config, w *world) error {
	for _, line := range w.Environment(cfg.FaultInjector) {
		name, value, _ := strings.Cut(line, "=")
		fmt.Fprintf(cfg.Out, "export %s='%s'\n", name, value)
	}
	<-ctx.Done()
	return nil
}

func runProbes(ctx context.Context, cfg Config, w *world, only *regexp.Regexp, scratch string) (failed int, err error) {
	chosen := slices.DeleteFunc(slices.Clone(Probes), func(name string) bool { return !only.MatchString("node " + name) })
	if len(chosen) == 0 {
		return 0, nil
	}
	dir, err := installProbes(ctx, cfg.Root, scratch)
	if err != nil {
		return 0, err
	}
	for _, name := range chosen {
		results, err := probe(ctx, dir, name, cfg.Run, w.Environment(cfg.FaultInjector), cfg.Timeout)
		if err != nil {
			return failed, err
		}
		s := Suite{Name: "node " + name}
		if err := record(cfg, s, results); err != nil {
			return failed, err
		}
		failed += judge(cfg.Out, s, results, cfg.Run == "").failed
	}
	return failed, nil
}

func runSuite(ctx context.Context, cfg Config, w *world, s Suite, scratch string) (failed int, err error) {
	dir, err := unpack(ctx, cfg.Root, scratch, s)
	if err != nil {
		return 0, err
	}
	environment := w.Environment(cfg.FaultInjector)
	if s.Keys {
		environment = append(environment, "CONFORMANCE_SIGN_IN=key")
	}
	results, err := s.test(ctx, dir, cfg.Run, environment, cfg.Timeout)
	if err != nil {
		return 0, err
	}
	if err := record(cfg, s, results); err != nil {
		return 0, err
	}
	return judge(cfg.Out, s, results, cfg.Run == "").failed, nil
}

// record writes what tests printed to a file of their suite.
func record(cfg Config, s Suite, results []Result) error {
	var all strings.Builder
	for _, r := range results {
		fmt.Fprintf(&all, "=== %s %s (%s)\n%s\n", r.Outcome, r.Test, r.Took, r.Output)
	}
	return os.WriteFile(filepath.Join(cfg.Logs, strings.ReplaceAll(s.Name, " ", "-")+".log"), []byte(all.String()), 0o600)
}
