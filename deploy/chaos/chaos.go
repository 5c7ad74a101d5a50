package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// Config of a run.
type Config struct {
	// Duration is how long faults are made, at least each of them once; 0 means once.
	Duration time.Duration
	// Seed decides the order of the faults, and the heartbeats and commands; 0 means by chance. A seed repeats a run as far as
	// processes and networks allow.
	Seed uint64
	// Beating agents only send heartbeats; Working ones also do jobs; Direct ones do too, call control servers, and take commands over HTTP.
	// Working and Direct ones have servers.
	Beating, Working, Direct int
	// Only makes only those faults whose names hold it; empty: all.
	Only string
	// Broken tells the agents to break a rule: "journal" forgets commands. Rules of the services are broken by how they are built.
	Broken string
	Out    io.Writer
}

const (
	// recoveryTimeout is how long the system may take to be itself again after a fault.
	recoveryTimeout = 90 * time.Second
	// runTimeout bounds a run beyond its duration.
	runTimeout = 20 * time.Minute
)

// Run makes chaos and tells how many promises were kept and broken.
func Run(ctx context.Context, cfg Config) (passed, failed int, err error) {
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	dir, err := os.MkdirTemp("", "fleet-chaos-*")
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Duration+runTimeout)
	defer cancel()
	_, _ = fmt.Fprintf(cfg.Out, "seed %d, %d cores, %d agents, logs in %s\n", cfg.Seed, runtime.NumCPU(), cfg.Beating+cfg.Working+cfg.Direct, dir)
	run := &run{cfg: cfg, verdict: &verdict{out: cfg.Out}}
	if run.world, err = newWorld(ctx, dir, cfg.Direct); err != nil {
		return 0, 0, err
	}
	defer run.world.close()
	run.world.broken = cfg.Broken
	if err := run.all(ctx); err != nil {
		return run.verdict.passed, run.verdict.failed, err
	}
	if run.verdict.failed == 0 {
		defer remove(dir)
	}
	return run.verdict.passed, run.verdict.failed, nil
}

type run struct {
	cfg        Config
	world      *world
	heartbeats *heartbeats
	commands   *commands
	verdict    *verdict
}

func (r *run) all(ctx context.Context) error {
	began := time.Now()
	r.heartbeats = newHeartbeats(r.world.emulator.ConnectionString(), r.cfg.Beating, r.cfg.Seed)
	r.commands = newCommands(r.world.rest, agentNames(WorkingAgent, r.cfg.Working), agentNames(DirectAgent, r.cfg.Direct), r.cfg.Seed)
	if err := r.world.startAgents(r.cfg.Working, r.cfg.Direct); err != nil {
		return err
	}
	if err := r.enrol(ctx); err != nil {
		return err
	}
	if _, err := r.normal(ctx); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r.cfg.Out, "everything runs after %s\n", time.Since(began).Round(time.Millisecond))
	flowing, stop := context.WithCancel(ctx)
	defer stop()
	var flows sync.WaitGroup
	var sending error
	flows.Go(func() { sending = r.heartbeats.run(flowing) })
	flows.Go(func() { r.commands.run(flowing) })
	broken := r.breakThings(ctx)
	stop()
	flows.Wait()
	// Whatever went wrong, what became of it is counted.
	counting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*recoveryTimeout)
	defer cancel()
	drained := r.drained(counting)
	_, _ = fmt.Fprintln(r.cfg.Out, "what became of it:")
	return errors.Join(broken, sending, drained, r.verdict.heartbeats(counting, r.world, r.heartbeats),
		r.verdict.commands(counting, r.world, r.commands), r.verdict.servers(counting, r))
}

// breakThings makes one fault after the other, and waits each time until the system is itself again.
func (r *run) breakThings(ctx context.Context) error {
	random := rand.New(rand.NewPCG(r.cfg.Seed, 2))
	until := time.Now().Add(r.cfg.Duration)
	_, _ = fmt.Fprintln(r.cfg.Out, "faults, and the time to normal after each:")
	for once := true; once || time.Now().Before(until); once = false {
		for _, fault := range r.faults(random) {
			if !strings.Contains(fault.name, r.cfg.Only) {
				continue
			}
			if !once && time.Now().After(until) {
				break
			}
			pass(ctx, 500*time.Millisecond+time.Duration(random.Int64N(int64(time.Second)))) // somewhere in a round
			if err := fault.breaks(ctx, r.world, random); err != nil {
				return fmt.Errorf("%s: %w", fault.name, err)
			}
			took, err := r.normal(ctx)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.verdict.check(err == nil, "%-55s %8s", fault.name, took.Round(10*time.Millisecond))
			if err != nil {
				return fmt.Errorf("after %s: %w", fault.name, err)
			}
		}
	}
	r.world.emulator.EndFaults()
	return nil
}

// normal waits until commands go through both gateways on both transports, heartbeats are stored as they come, and servers are judged by
// them.
func (r *run) normal(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	for {
		switch {
		case r.commands.work(ctx) && r.fresh(ctx) && r.judged(ctx) && r.world.allOnline(ctx):
			return time.Since(began), nil
		case ctx.Err() != nil:
			return time.Since(began), errors.New("not normal in time")
		}
		pass(ctx, 20*time.Millisecond)
	}
}

// fresh tells whether nothing old waits in the queue.
func (r *run) fresh(ctx context.Context) bool {
	counts, err := r.world.emulator.Counts(stateTopic, stateSubscription)
	if err != nil || counts.Active > r.cfg.Beating/2+100 {
		return false
	}
	got, err := r.world.read.GetAgent(ctx, &registryv1.GetAgentRequest{Name: r.commands.agents[0]})
	return err == nil && got.GetBusIngest().GetHealthy()
}

// drained waits until every heartbeat was taken. Canaries come and go meanwhile.
func (r *run) drained(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	for empty := 0; empty < 10; {
		counts, err := r.world.emulator.Counts(stateTopic, stateSubscription)
		if err != nil {
			return err
		}
		if empty++; counts.Active > 2 {
			empty = 0
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%d heartbeats were not taken in time", counts.Active)
		}
		pass(ctx, 100*time.Millisecond)
	}
	return nil
}

func agentNames(name func(int) string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = name(i)
	}
	return names
}

// WorkingAgent is the name of an agent on the bus, by its number.
func WorkingAgent(i int) string { return fmt.Sprintf("WORK-%04d", i) }

// DirectAgent is the name of a direct agent, by its number.
func DirectAgent(i int) string { return fmt.Sprintf("DIRECT-%04d", i) }
