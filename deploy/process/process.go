// Package process runs the services in processes of their own, for measurements and for chaos.
package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is one service in a process of its own.
type Process struct {
	name    string
	command *exec.Cmd
	log     *os.File
	ended   chan struct{} // closed once it has
}

// Start runs a binary built beside this one; its log goes to a file in dir.
func Start(name, dir string, args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return StartAt(filepath.Join(filepath.Dir(self), name), dir, args...)
}

// StartAt runs the binary of a path; its log goes to a file of its name in dir.
func StartAt(path, dir string, args ...string) (*Process, error) {
	name := filepath.Base(path)
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	command := exec.Command(path, args...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w (make bench builds it)", name, err)
	}
	started := &Process{name: name, command: command, log: log, ended: make(chan struct{})}
	go func() { _ = command.Wait(); close(started.ended) }()
	return started, nil
}

// Stop ends the process, by force when it does not end itself within 15 s.
func (p *Process) Stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(15 * time.Second):
		_ = p.command.Process.Kill()
		<-p.ended
	}
	_ = p.log.Close()
}

// Kill ends the process at once, as a crash does.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.ended
	_ = p.log.Close()
}

// Pause stops the process where it is, until Resume.
func (p *Process) Pause() error { return p.command.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.command.Process.Signal(syscall.SIGCONT) }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Log is the path of its log.
func (p *Process) Log() string { return p.log.Name() }

// clockTick is the unit of CPU time in /proc, fixed at 100 per second on every Linux architecture Go runs on.
const clockTick = 10 * time.Millisecond

// CPU is the user and system time the process used so far.
func (p *Process) CPU() (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The second field is the name in brackets and may hold anything; the fields after it are counted from its end.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 13 {
		return 0, errors.New("/proc stat has too few fields")
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick, err
}

// Memory is what of the process is in memory now, in bytes.
func (p *Process) Memory() (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 2 {
		return 0, errors.New("/proc statm has too few fields")
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// Ready waits until the admin listener says so.
func (p *Process) Ready(ctx context.Context, admin string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended; see %s", p.name, p.log.Name())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready; see %s", p.name, p.log.Name())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// FreeAddress is a loopback address that no process listens on. Its port is below those that Linux and Windows give to outgoing
// connections, so that no connection takes it before it is used, or while its process is down.
func FreeAddress() (string, error) {
	const least, most, tries = 10_000, 32_000, 100
	for range tries {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(least+rand.IntN(most-least)))
		if listener, err := net.Listen("tcp", address); err == nil {
			return address, listener.Close()
		}
	}
	return "", fmt.Errorf("no free port on 127.0.0.1 from %d to %d after %d tries", least, most, tries)
}
