package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// clockVariable names the file that the services, built with the tag chaos_clock, read a step of the database's clock from.
const clockVariable = "CHAOS_DATABASE_CLOCK"

// steppedFor is long enough for each agent to be heard, and each lease to be renewed, under the clock that was stepped.
const steppedFor = maxHeartbeatAge + HeartbeatInterval

// clockSteps move the database's clock, as a time service or a failover to another host does, and move it back.
func clockSteps() []fault {
	return []fault{
		{"the database's clock an hour ahead, and back", func(ctx context.Context, w *world, _ *rand.Rand) error {
			return w.stepped(ctx, time.Hour)
		}},
		{"the database's clock ten minutes behind, and back", func(ctx context.Context, w *world, _ *rand.Rand) error {
			return w.stepped(ctx, -10*time.Minute)
		}},
	}
}

func (w *world) stepped(ctx context.Context, step time.Duration) error {
	if err := w.setClock(step); err != nil {
		return err
	}
	pass(ctx, steppedFor)
	return errors.Join(ctx.Err(), w.setClock(0))
}

func (w *world) clock() string { return filepath.Join(w.dir, "clock") }

// setClock moves the clock by so much from the real one, at once for all services.
func (w *world) setClock(step time.Duration) error {
	next := w.clock() + ".next"
	if err := os.WriteFile(next, []byte(step.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, w.clock())
}
