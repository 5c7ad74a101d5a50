package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// Program is an agent's process that this one starts and ends.
type Program struct {
	line []string
	dir  string
	env  []string
	log  io.Writer

	mu      sync.Mutex
	command *exec.Cmd
	ended   chan struct{}
	err     error
}

// NewProgram makes a Program of a program and its arguments, with blanks between them. It runs in dir with env, which adds to this process's
// environment, and writes to log.
func NewProgram(line, dir string, env []string, log io.Writer) (*Program, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil, errors.New("conformance: the program's command line is empty")
	}
	return &Program{line: words, dir: dir, env: env, log: log}, nil
}

// Start implements Process. One that still runs is ended.
func (p *Program) Start(context.Context) error {
	p.Kill()
	p.mu.Lock()
	defer p.mu.Unlock()
	command := exec.Command(p.line[0], p.line[1:]...)
	command.Dir, command.Stdout, command.Stderr = p.dir, p.log, p.log
	command.Env = append(os.Environ(), p.env...)
	if err := command.Start(); err != nil {
		return fmt.Errorf("conformance: %s: %w", p.line[0], err)
	}
	ended := make(chan struct{})
	p.command, p.ended = command, ended
	go func() {
		err := command.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(ended)
	}()
	return nil
}

// Kill ends the process at once, if it runs.
func (p *Program) Kill() {
	p.mu.Lock()
	command, ended := p.command, p.ended
	p.mu.Unlock()
	if command == nil {
		return
	}
	_ = command.Process.Kill()
	<-ended
}

// Restart implements Process: as after a crash.
func (p *Program) Restart(ctx context.Context) error { return p.Start(ctx) }

// Stop implements Process.
func (p *Program) Stop(context.Context) (<-chan error, error) {
	p.mu.Lock()
	command, ended := p.command, p.ended
	p.mu.Unlock()
	if err := command.Process.Signal(os.Interrupt); err != nil {
		return nil, err
	}
	result := make(chan error, 1)
	go func() {
		<-ended
		p.mu.Lock()
		defer p.mu.Unlock()
		result <- p.err
	}()
	return result, nil
}

// RestartCommand is an agent that another program restarts, such as a service manager.
type RestartCommand struct{ Line string }

// Restart implements Process.
func (c RestartCommand) Restart(ctx context.Context) error {
	words := strings.Fields(c.Line)
	if len(words) == 0 {
		return errors.New("conformance: the restart command is empty")
	}
	if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", c.Line, err, out)
	}
	return nil
}

// Stop implements Process: it can't be done.
func (RestartCommand) Stop(context.Context) (<-chan error, error) { return nil, nil }

// Start implements Process: it is never stopped.
func (RestartCommand) Start(context.Context) error { return nil }
