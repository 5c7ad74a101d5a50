package bench

import (
	"context"
	"errors"
	"fmt"
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

// process is one service in a process of its own.
type process struct {
	name    string
	command *exec.Cmd
	log     *os.File
	ended   chan struct{}
}

// start runs a binary built beside this one; its log goes to a file in dir.
func start(name, dir string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	command := exec.Command(filepath.Join(filepath.Dir(self), name), args...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w (make bench builds it)", name, err)
	}
	started := &process{name: name, command: command, log: log, ended: make(chan struct{})}
	go func() { _ = command.Wait(); close(started.ended) }()
	return started, nil
}

// stop ends the process, by force when it does not end itself within 15 s.
func (p *process) stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(15 * time.Second):
		_ = p.command.Process.Kill()
		<-p.ended
	}
	_ = p.log.Close()
}

// clockTick is the unit of CPU time in /proc, fixed at 100 per second on every Linux architecture Go runs on.
const clockTick = 10 * time.Millisecond

// cpu is the user and system time the process used so far.
func (p *process) cpu() (time.Duration, error) {
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

// ready waits until the admin listener says so.
func (p *process) ready(ctx context.Context, admin string) error {
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

// freeAddress is a loopback address that nobody listens on.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
