package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	// callerFrozen is longer than a command's budget, so that nothing may begin when its sender or its agent goes on, and shorter than what
	// makes an agent silent.
	callerFrozen = writeBudget + 3*time.Second
	// listenerFrozen is longer than two locks of a heartbeat.
	listenerFrozen = 2*lock + time.Second
	// holderFrozen is longer than the lease of the availability job.
	holderFrozen = 2 * sweepLease
	// registryFrozen is shorter than what makes an agent silent, so that the servers are judged at once when it goes on.
	registryFrozen = 8 * time.Second
)

// freezes let a process stand still and go on, as a suspended machine does: it goes on with what it knew before.
func (r *run) freezes() []fault {
	return []fault{
		{"the agents frozen for longer than a budget", func(ctx context.Context, w *world, _ *rand.Rand) error {
			return frozen(ctx, w.agents, callerFrozen)
		}},
		{"a gateway frozen for longer than a budget", func(ctx context.Context, w *world, random *rand.Rand) error {
			return frozen(ctx, w.gateways[random.IntN(2)].running, callerFrozen)
		}},
		{"a control server frozen for longer than two locks", func(ctx context.Context, w *world, random *rand.Rand) error {
			return frozen(ctx, w.heartbeats[random.IntN(2)].running, listenerFrozen)
		}},
		{"the registry frozen", func(ctx context.Context, w *world, _ *rand.Rand) error {
			return frozen(ctx, w.registry.running, registryFrozen)
		}},
		{"the holder of the availability job frozen for longer than its lease", func(ctx context.Context, _ *world, _ *rand.Rand) error {
			holder, err := r.holder(ctx)
			if err != nil {
				return err
			}
			return frozen(ctx, holder.running, holderFrozen)
		}},
	}
}

// stopper is a process that can stand still.
type stopper interface {
	Pause() error
	Resume() error
}

func frozen(ctx context.Context, process stopper, lasts time.Duration) error {
	if err := process.Pause(); err != nil {
		return err
	}
	pass(ctx, lasts)
	return errors.Join(ctx.Err(), process.Resume())
}
