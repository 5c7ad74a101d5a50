package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// Config of a run.
type Config struct {
	Root          string // folder of the emulator's go.mod
	Logs          string // folder for what the tests print
	Only          string // regular expression that chooses suites; empty: all
	Run           string // regular expression that chooses tests, as go test -run; empty: all
	Timeout       time.Duration
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
	if failed > 0 {
		return fmt.Errorf("%d %w; their output is in %s", failed, ErrFailed, cfg.Logs)
	}
	return nil
}

func runSuite(ctx context.Context, cfg Config, w *world, s Suite, scratch string) (failed int, err error) {
	dir, err := unpack(ctx, cfg.Root, scratch, s)
	if err != nil {
		return 0, err
	}
	results, err := s.test(ctx, dir, cfg.Run, w.Environment(cfg.FaultInjector), cfg.Timeout)
	if err != nil {
		return 0, err
	}
	log, err := os.Create(filepath.Join(cfg.Logs, s.Name+".log"))
	if err != nil {
		return 0, err
	}
	for _, r := range results {
		fmt.Fprintf(log, "=== %s %s\n%s\n", r.Outcome, r.Test, r.Output)
	}
	return judge(cfg.Out, s, results, cfg.Run == "").failed, log.Close()
}
