//go:build linux || darwin

package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// Freeze implements Freezer with SIGSTOP. The signal stops the threads of the process one after the other, a moment later.
func (p *Program) Freeze(ctx context.Context) error {
	process, err := p.process()
	if err != nil {
		return err
	}
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("conformance: the process could not be stopped: %w", err)
	}
	const patience = 10 * time.Second
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); pause(ctx, 10*time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process.Pid))
		if err != nil { // a system without that; a moment must do
			pause(ctx, 500*time.Millisecond)
			return ctx.Err()
		}
		if _, after, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(after, "T") {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("conformance: the process was told to stop, and goes on after %s", patience)
}

// Thaw implements Freezer.
func (p *Program) Thaw() error {
	process, err := p.process()
	if err != nil {
		return err
	}
	return process.Signal(syscall.SIGCONT)
}

func (p *Program) process() (*os.Process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command == nil {
		return nil, errors.New("conformance: the agent's process does not run")
	}
	return p.command.Process, nil
}
