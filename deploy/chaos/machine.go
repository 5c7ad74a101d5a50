package chaos

import (
	"bufio"
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"time"

	"github.com/commandcenter/fleet/agent/host/simulated"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// jobPrefix begins the name of a service that is a job: restarting it is doing it.
const jobPrefix = "job-"

// Machine is a simulated machine that writes down each job it begins, before it does anything else.
type Machine struct {
	*simulated.Host
	done *os.File
}

// NewMachine writes to a file that many machines share.
func NewMachine(name string, done *os.File) *Machine {
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(name))
	return &Machine{Host: simulated.New(name, simulated.Options{Seed: seed.Sum64()}), done: done}
}

// RestartService does a job. Most are quick; some take longer than anybody waits.
func (m *Machine) RestartService(ctx context.Context, name string) ([]*agentv1.Change, error) {
	if !strings.HasPrefix(name, jobPrefix) {
		return m.Host.RestartService(ctx, name)
	}
	if _, err := fmt.Fprintf(m.done, "%s %d\n", name, time.Now().UnixNano()); err != nil {
		return nil, err
	}
	took := 5 * time.Millisecond
	if strings.HasSuffix(name, slowSuffix) {
		took = writeBudget + time.Second
	}
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
		return []*agentv1.Change{{Subject: "job " + name, After: "done"}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// readDone is when each job was begun, each time.
func readDone(path string) (map[string][]time.Time, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	begun := map[string][]time.Time{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var job string
		var at int64
		if _, err := fmt.Sscanf(lines.Text(), "%s %d", &job, &at); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, lines.Text(), err)
		}
		begun[job] = append(begun[job], time.Unix(0, at))
	}
	return begun, nil
}
