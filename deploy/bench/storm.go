package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/commandcenter/fleet/agent"
	"github.com/commandcenter/fleet/agent/fleet"
	"github.com/commandcenter/fleet/deploy/process"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/registry"
)

const (
	stormAgents   = 5000
	stormInterval = 30 * time.Second
	admitted      = 200 // connects per second of one control server
)

// gathered is direct agents that all work with one control server of three.
type gathered struct {
	*fleetOfServers
	field   *fleet.Fleet
	servers map[string]*process.Process
}

// benchStorm kills the control server that 5,000 agents work with, and watches where they go.
func (r *Report) benchStorm(ctx context.Context, s *system) error {
	ctx, cancel := context.WithTimeout(ctx, 12*time.Minute)
	defer cancel()
	w, err := newStorm(ctx, s)
	if w != nil {
		defer w.close()
	}
	if err != nil {
		return err
	}
	w.servers["control-1"].Kill()
	killedAt := time.Now()
	peaks, err := w.watch(ctx)
	if err != nil {
		return err
	}
	r.Add(Figure{Name: "storm: 5,000 agents lose their control server, all back", Value: time.Since(killedAt).Seconds(), Unit: "s", Target: 1.5 * stormInterval.Seconds()})
	for _, name := range slices.Sorted(maps.Keys(peaks)) {
		r.Add(Figure{Name: "storm: peak connects within a second at " + name, Value: float64(peaks[name]), Unit: "1/s", Target: 1.1 * admitted})
	}
	// A server that would go offline for this does so within a maximum age and a sweep, after the freeze that one silent control server prolongs.
	freeze := registry.DefaultConfig().Returns.AfterOutage(1) + 2*stormInterval
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(max(3*stormInterval, freeze) + 15*time.Second):
	}
	rows, err := w.count(ctx, "SELECT COUNT(*) FROM TblServerOfflineLog")
	r.Add(Figure{Name: "storm: servers that went offline for it", Value: float64(rows), Unit: "servers", Target: 0.5})
	return err
}

// newStorm starts three control servers and the agents, has them all in a group of the first, and waits until they work there.
func newStorm(ctx context.Context, s *system) (*gathered, error) {
	servers, err := newFleetOfServers(ctx, s)
	if err != nil {
		return nil, err
	}
	w := &gathered{fleetOfServers: servers, servers: map[string]*process.Process{}}
	key := filepath.Join(s.dir, "enrolment.key")
	if err := os.WriteFile(key, []byte("a-key-for-this-measurement"), 0o600); err != nil {
		return w, err
	}
	var registration []string
	for n := range 3 {
		name, address, err := fmt.Sprintf("control-%d", n+1), "", error(nil)
		if address, w.servers[name], err = s.addControlServer(ctx, name, key); err != nil {
			return w, err
		}
		registration = append(registration, address)
	}
	w.field, err = fleet.Start(context.WithoutCancel(ctx), fleet.Config{
		Agents: fleet.Numbered(stormAgents, fleet.Agent{Name: "BM-", Direct: true, HTTP: true}), ControlServers: registration, EnrolmentKeyFile: key,
		HeartbeatInterval: stormInterval, Failover: agent.FailoverConfig{ProbeInterval: time.Second, ReturnGrace: time.Second},
	})
	if err != nil {
		return w, err
	}
	if err := w.until(ctx, "SELECT COUNT(*) FROM TblAgent WHERE TokenHash IS NOT NULL", stormAgents); err != nil {
		return w, err
	}
	return w, errors.Join(w.accept(ctx), w.gather(ctx))
}

// addControlServer starts one more replica of the heartbeat service as a control server, and returns where agents reach it.
func (s *system) addControlServer(ctx context.Context, name, key string) (string, *process.Process, error) {
	addresses := make([]string, 3)
	for i := range addresses {
		var err error
		if addresses[i], err = process.FreeAddress(); err != nil {
			return "", nil, err
		}
	}
	started, err := s.launch(ctx, "heartbeat", addresses[0], "grpc.listen="+addresses[1], "registry.target="+s.registryAddress,
		"bus.connectionString="+s.emulator.ConnectionString(), "ingress.name="+name, "ingress.grpc.listen="+addresses[2], "ingress.rest.listen=",
		"ingress.enrolmentKeyFile="+key, fmt.Sprintf("ingress.connectsPerSecond=%d", admitted))
	return addresses[2], started, err
}

// accept does for all agents what operators do for one.
func (w *gathered) accept(ctx context.Context) error {
	_, err := w.db.ExecContext(ctx, `INSERT INTO TblServer (Name, Url, Type, Active, Online) SELECT Name, 'https://bm.example.test', 'BenefitManager', 1, 1 FROM TblAgent`)
	if err != nil {
		return err
	}
	_, err = w.db.ExecContext(ctx, `UPDATE TblAgent SET RegistrationState = 2, ServerKey = (SELECT s.ServerKey FROM TblServer s WHERE s.Name = TblAgent.Name)`)
	return err
}

// gather puts all agents into a group that prefers the first control server, and waits until they work there.
func (w *gathered) gather(ctx context.Context) error {
	_, err := registryv1.NewControlCloudClient(w.conn).CreateAffinityGroup(ctx, &registryv1.CreateAffinityGroupRequest{
		Name: "storm", Agents: w.field.Names(), ControlServers: []string{"control-1"}, Actor: "bench",
	})
	for err == nil && w.loads()["control-1"] < stormAgents {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the agents did not gather: %v", w.loads())
		case <-time.After(100 * time.Millisecond):
		}
	}
	return err
}

func (w *gathered) loads() map[string]int {
	loads := map[string]int{}
	for _, name := range w.field.Names() {
		if at, err := w.field.ControlServer(name); err == nil && at != "" {
			loads[at]++
		}
	}
	return loads
}

// sample is how many agents worked with each control server at one moment.
type sample struct {
	at    time.Time
	loads map[string]int
}

// watch waits until all agents work with a survivor, and returns the most that each of them took within a second.
func (w *gathered) watch(ctx context.Context) (map[string]int, error) {
	peaks := map[string]int{}
	var samples []sample
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		now := sample{time.Now(), w.loads()}
		delete(now.loads, "control-1")
		samples = append(samples, now)
		for now.at.Sub(samples[0].at) > time.Second {
			samples = samples[1:]
		}
		total := 0
		for name, load := range now.loads {
			total += load
			peaks[name] = max(peaks[name], load-samples[0].loads[name])
		}
		if total == stormAgents {
			return peaks, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the agents did not come back: %v", now.loads)
		case <-tick.C:
		}
	}
}

func (w *gathered) close() {
	if w.field != nil {
		_ = w.field.Close()
	}
	_ = w.db.Close()
}
