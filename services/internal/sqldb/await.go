package sqldb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/commandcenter/fleet/services/internal/lifecycle"
)

// awaitPause is the longest pause between two attempts to use a database that does not answer.
const awaitPause = 5 * time.Second

// UnfitError says that a database does not fit this binary: its schema, its tables or the login's rights. Waiting does not mend that.
type UnfitError struct{ Problem string }

func (e *UnfitError) Error() string { return e.Problem }

// Unfit makes an UnfitError.
func Unfit(format string, args ...any) error {
	return &UnfitError{Problem: fmt.Sprintf(format, args...)}
}

// AwaitMigration is Await for a command that somebody waits for: it also gives up where waiting does not mend what is wrong, such as a
// file that is no database. A service that starts waits for that too.
func AwaitMigration(ctx context.Context, logger *slog.Logger, attempt func(context.Context) error) error {
	return Await(ctx, logger, func(error) {}, func(ctx context.Context) error {
		err := attempt(ctx)
		if lasting(err) {
			return Unfit("%s; it is not tried again, since waiting does not mend that", InWords(err))
		}
		return err
	})
}

// Await tries until attempt succeeds. It logs each failure, and tells waiting of it. It gives up with an UnfitError, or when the context
// ends: then at once, even if the driver does not return.
func Await(ctx context.Context, logger *slog.Logger, waiting func(error), attempt func(context.Context) error) error {
	startedAt := time.Now()
	for n := 1; ; n++ {
		err := lifecycle.Leave(ctx, func() error { return attempt(ctx) })
		var misfit *UnfitError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &misfit):
			return err
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		}
		pause := min(time.Duration(n)*time.Second, awaitPause)
		logger.Warn("the database cannot be used yet; it is tried again", "attempt", n, "waiting", time.Since(startedAt).Round(time.Second), "pause", pause, "problem", InWords(err))
		waiting(fmt.Errorf("starting: waits for the database since %s, %d attempts so far: %s", startedAt.UTC().Format("2006-01-02 15:04:05 UTC"), n, InWords(err)))
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(ctx.Err(), err)
		case <-timer.C:
		}
	}
}
