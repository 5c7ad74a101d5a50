package sqldb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commandcenter/fleet/services/internal/telemetry"
)

const (
	// lookInterval is how often the database is asked for a row.
	lookInterval = 3 * time.Second
	// readTimeout bounds that read.
	readTimeout = 3 * time.Second
	// idleInterval is how long no change is committed before one row is written to see whether that works.
	idleInterval = 10 * time.Second
	// writeTimeout bounds that write. It is longer than SQLite waits for a lock (5 s), so that the cause is known.
	writeTimeout = 6 * time.Second
	// failureShown is how long a failed change says that writes do not work, even if one row can be written: what takes more space
	// than that row may still fail.
	failureShown = 30 * time.Second
)

// Names of the statements that every store has for its Health: the row that is read, and the row that is written, of a table of its own.
const (
	readProbe  = "probe_read"
	writeProbe = "probe_write"
)

// HealthOptions are what a Health is made of. All are required.
type HealthOptions struct {
	Logger *slog.Logger
	// Serving is told after each look whether reads work.
	Serving func(bool)
}

// Health knows whether a database can be read, and whether it can be written. It writes one row, and only where the service itself
// committed nothing lately.
type Health struct {
	db      *DB
	options HealthOptions

	reads, writes atomic.Pointer[condition]
	reading       flight
	writing       flight
}

// condition is a problem, or none, with when it began.
type condition struct {
	err   error
	since time.Time
}

// NewHealth makes one. Nothing is known before the first Look.
func NewHealth(db *DB, options HealthOptions) *Health {
	h := &Health{db: db, options: options}
	unknown := &condition{err: errors.New("the database was not asked yet"), since: time.Now()}
	h.reads.Store(unknown)
	h.writes.Store(unknown)
	return h
}

// Run looks until the context ends.
func (h *Health) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-h.db.written.suspect:
		}
		h.Look(ctx)
	}
}

// Look asks the database, for at most as long as both probes may take.
func (h *Health) Look(ctx context.Context) {
	var probes sync.WaitGroup
	probes.Go(func() {
		err := h.reading.ask(ctx, readTimeout, h.read)
		h.become(ctx, &h.reads, "read", err)
		h.options.Serving(err == nil)
	})
	probes.Go(func() { h.become(ctx, &h.writes, "write", h.lookAtWrites(ctx)) })
	probes.Wait()
}

func (h *Health) lookAtWrites(ctx context.Context) error {
	at, failed, failure := h.db.written.last()
	if failure == nil && !at.IsZero() && time.Since(at) < idleInterval && h.Writes() == nil && h.db.files.refused() == nil {
		if err := h.writing.ask(ctx, writeTimeout, h.db.mark); errors.Is(err, ErrReplaced) {
			return err
		}
		return nil // the service's own changes show what works
	}
	if err := h.writing.ask(ctx, writeTimeout, h.write); err != nil {
		return h.db.written.explain(err) // it may have waited behind the service's own changes, which know why
	}
	if failure != nil && time.Since(failed) < failureShown {
		return failure
	}
	h.db.written.forget(failed)
	return nil
}

func (h *Health) read(ctx context.Context) error {
	if err := h.db.files.check(); err != nil {
		return err
	}
	return h.db.View(ctx, func(tx *Tx) error {
		return tx.Rows(ctx, readProbe, func(scan func(...any) error) error { var at Time; return scan(&at) })
	})
}

// write writes the one row. It is no change whose failure is remembered, and is not tried again.
func (h *Health) write(ctx context.Context) error {
	err := h.db.once(ctx, h.db.write, true, func(tx *Tx) error {
		rows, err := tx.Exec(ctx, writeProbe)
		switch {
		case err != nil:
			return err
		case rows != 1:
			return fmt.Errorf("%s: the row that is written to see whether writes work is missing", writeProbe)
		case h.db.files == nil:
			return nil
		}
		return tx.advance(ctx)
	})
	if err != nil || h.db.files == nil {
		return err
	}
	return h.db.settle(ctx)
}

// become takes over what a probe found, and logs what changed. What a probe found when the service stops is nothing.
func (h *Health) become(ctx context.Context, known *atomic.Pointer[condition], access string, err error) {
	if ctx.Err() != nil {
		return
	}
	before := known.Load()
	now := &condition{err: err, since: time.Now()}
	if (before.err == nil) == (err == nil) {
		now.since = before.since
	}
	known.Store(now)
	switch {
	case err == nil && before.err != nil:
		h.options.Logger.Info("the database works", "access", access)
	case err != nil && (before.err == nil || InWords(before.err) != InWords(err)):
		h.options.Logger.Error("the database does not work", "access", access, "problem", InWords(err))
	}
}

// Reads returns why nothing can be read; nil while reads work.
func (h *Health) Reads() error { return h.reads.Load().problem("reads") }

// Writes returns why nothing can be written, and since when; nil while writes work.
func (h *Health) Writes() error { return h.writes.Load().problem("writes") }

func (c *condition) problem(access string) error {
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("%s do not work, since %s: %s%w", access, c.since.UTC().Format("2006-01-02 15:04:05 UTC"), InWords(c.err), silent{c.err})
}

// silent is an error without a text, so that what stands before it says it.
type silent struct{ err error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.err }

// Checks are what readiness and ?verbose say. Only reads decide: without writes errors and pages stay reachable.
func (h *Health) Checks() []telemetry.Check {
	return []telemetry.Check{
		{Name: "database reads", Problem: h.Reads},
		{Name: "database writes", Problem: h.Writes, Informs: true},
	}
}

// flight asks one question at a time. A driver may return long after its context ended.
type flight struct {
	mu    sync.Mutex
	since time.Time // of the question that was not answered yet; zero: there is none
}

// ask waits for the answer for at most limit. While an earlier question has no answer it does not ask again.
func (f *flight) ask(ctx context.Context, limit time.Duration, question func(context.Context) error) error {
	f.mu.Lock()
	since := f.since
	if since.IsZero() {
		f.since = time.Now()
	}
	f.mu.Unlock()
	if !since.IsZero() {
		return fmt.Errorf("the database has not answered for %s: %w", time.Since(since).Round(time.Second), context.DeadlineExceeded)
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	answer := make(chan error, 1)
	go func() {
		defer cancel()
		err := question(bounded)
		f.mu.Lock()
		f.since = time.Time{}
		f.mu.Unlock()
		answer <- err
	}()
	select {
	case err := <-answer:
		return err
	case <-bounded.Done():
	}
	select { // what came at the same moment knows the cause
	case err := <-answer:
		return err
	default:
		return fmt.Errorf("the database did not answer within %s: %w", limit, context.Cause(bounded))
	}
}
