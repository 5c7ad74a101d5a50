package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	_ "modernc.org/sqlite" // registers "sqlite"
)

// fault breaks something and mends it again, as far as that is not the system's own business.
type fault struct {
	name   string
	breaks func(ctx context.Context, w *world, random *rand.Rand) error
}

const (
	throttled, delayed, databaseLocked = 3 * time.Second, 3 * time.Second, 10 * time.Second
	// registryDown is longer than all deliveries of a heartbeat together.
	registryDown = maxDeliveries*lock + 2*time.Second
)

// faults is all that is broken, in an order of chance.
func (r *run) faults(random *rand.Rand) []fault {
	all := slices.Concat(busFaults(), r.crashes(), r.freezes(), clockSteps())
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func busFaults() []fault {
	return []fault{
		{"every connection cut", func(_ context.Context, w *world, _ *rand.Rand) error { w.emulator.DropConnections(); return nil }},
		{"links detached", func(_ context.Context, w *world, _ *rand.Rand) error {
			_, err := w.emulator.DetachLinks("", "amqp:link:detach-forced")
			return err
		}},
		{"locks of heartbeats expired", func(ctx context.Context, w *world, random *rand.Rand) error {
			return w.midBatch(ctx, w.heartbeats[random.IntN(2)], func() error { return w.emulator.ExpireLocks(stateTopic, stateSubscription) })
		}},
		{"sessions of agents and gateways taken", func(_ context.Context, w *world, _ *rand.Rand) error {
			if err := w.emulator.ExpireLocks("agent-commands", "agents"); err != nil {
				return err
			}
			return w.emulator.ExpireLocks("agent-replies", "gateways")
		}},
		{"the broker throttles", during(throttled, func(w *world) error { w.emulator.Throttle(-1); return nil })},
		{"the broker is slow", during(delayed, func(w *world) error { w.emulator.Delay(300 * time.Millisecond); return nil })},
		{"sends stored but not answered", func(_ context.Context, w *world, _ *rand.Rand) error {
			return w.emulator.LoseAnswers("agent-commands", 5)
		}},
		{"settlements carried out but not answered", func(_ context.Context, w *world, _ *rand.Rand) error { return w.emulator.LoseDispositions("", 20) }},
	}
}

func (r *run) crashes() []fault {
	return []fault{
		{"a heartbeat replica killed in the middle of a batch", func(ctx context.Context, w *world, random *rand.Rand) error {
			replica := w.heartbeats[random.IntN(2)]
			err := w.midBatch(ctx, replica, func() error { replica.running.Kill(); return nil })
			pass(ctx, time.Second)
			return errors.Join(err, replica.start(context.WithoutCancel(ctx)))
		}},
		{"a gateway killed", func(ctx context.Context, w *world, random *rand.Rand) error {
			return w.killed(ctx, w.gateways[random.IntN(2)], time.Second)
		}},
		{"the agents killed", func(_ context.Context, w *world, _ *rand.Rand) error {
			w.agents.Kill()
			return w.startAgents(r.cfg.Working, r.cfg.Direct)
		}},
		{"the registry stopped for longer than all deliveries", func(ctx context.Context, w *world, _ *rand.Rand) error {
			w.registry.running.Stop()
			pass(ctx, registryDown)
			return w.registry.start(context.WithoutCancel(ctx))
		}},
		{"the database locked", func(ctx context.Context, w *world, _ *rand.Rand) error { return w.lockDatabase(ctx) }},
		{"all control servers stopped for longer than the maximum heartbeat age", func(ctx context.Context, w *world, _ *rand.Rand) error {
			for _, replica := range w.heartbeats {
				replica.running.Stop()
			}
			pass(ctx, maxHeartbeatAge+HeartbeatInterval)
			return errors.Join(w.heartbeats[0].start(context.WithoutCancel(ctx)), w.heartbeats[1].start(context.WithoutCancel(ctx)))
		}},
		{"the holder of the availability job killed", func(ctx context.Context, w *world, _ *rand.Rand) error {
			holder, err := r.holder(ctx)
			if err != nil {
				return err
			}
			return w.killed(ctx, holder, time.Second)
		}},
	}
}

// during lets a fault of the emulator last for some time.
func during(time time.Duration, begin func(*world) error) func(context.Context, *world, *rand.Rand) error {
	return func(ctx context.Context, w *world, _ *rand.Rand) error {
		defer w.emulator.EndFaults()
		if err := begin(w); err != nil {
			return err
		}
		pass(ctx, time)
		return nil
	}
}

func (w *world) killed(ctx context.Context, s *service, down time.Duration) error {
	s.running.Kill()
	pass(ctx, down)
	return s.start(context.WithoutCancel(ctx))
}

// midBatch does something to a replica that surely holds heartbeats which the registry has not answered for: it does not answer
// meanwhile.
func (w *world) midBatch(ctx context.Context, replica *service, do func() error) error {
	if err := w.registry.running.Pause(); err != nil {
		return err
	}
	defer w.registry.running.Resume() //nolint:errcheck // it ended, and that shows
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		held, err := replica.metric(ctx, "commandcenter_ingest_held_messages")
		if err != nil {
			return err
		}
		if held > 0 {
			return do()
		}
		pass(ctx, 5*time.Millisecond)
	}
}

// lockDatabase keeps every writer out.
func (w *world) lockDatabase(ctx context.Context) error {
	db, err := sql.Open("sqlite", "file:"+w.database()+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer db.Close()
	holding := context.WithoutCancel(ctx)
	conn, err := db.Conn(holding)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(holding, "BEGIN EXCLUSIVE"); err != nil {
		return fmt.Errorf("the database cannot be locked: %w", err)
	}
	pass(ctx, databaseLocked)
	_, err = conn.ExecContext(holding, "ROLLBACK")
	return err
}

func pass(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
