package watch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
)

const (
	pollInterval = time.Second
	// rereadInterval is how often everything is read, for what changes without a revision: names, vanished servers, and what another
	// writer does to Online.
	rereadInterval = 15 * time.Second
	readTimeout    = 10 * time.Second
)

// Why a watch ends, other than by its caller.
var (
	ErrStopping = errors.New("the service is stopping")
	ErrTooSlow  = errors.New("the watcher reads too slowly")
)

// Event is one message to a watcher.
type Event = availabilityv1.WatchAvailabilityResponse

// Source is what is watched. Its messages are not changed afterwards, by either side.
type Source interface {
	// Overview reads the overview, and the revision of the servers: one not newer than what is read after it.
	Overview(ctx context.Context) (overview *availabilityv1.Overview, revision int64, err error)
	// Servers reads all servers.
	Servers(ctx context.Context) ([]*availabilityv1.ServerAvailability, error)
	// ServersSince reads those that changed after a revision.
	ServersSince(ctx context.Context, revision int64) ([]*availabilityv1.ServerAvailability, error)
}

// Feed reads for all watchers of a process. Run owns its state; Watch speaks to it over channels.
type Feed struct {
	source  Source
	logger  *slog.Logger
	metrics *Metrics

	join, leave chan *watcher
	stopping    chan struct{}

	watchers map[*watcher]bool
	known    known
}

// known is everything as it was last told to the watchers.
type known struct {
	servers  map[int64]*availabilityv1.ServerAvailability
	overview *availabilityv1.Overview
	revision int64
	rereadAt time.Time
	failedAt time.Time // since when the source has not answered; zero: it does
}

// NewFeed makes one; it needs Run.
func NewFeed(source Source, logger *slog.Logger, metrics *Metrics) *Feed {
	return &Feed{
		source: source, logger: logger, metrics: metrics,
		join: make(chan *watcher), leave: make(chan *watcher), stopping: make(chan struct{}),
		watchers: map[*watcher]bool{},
	}
}

// Run reads until the context ends; then it ends all watches, so that a server that waits for them can stop. It is run once.
func (f *Feed) Run(ctx context.Context) error {
	// At once, also while a reading takes its time.
	context.AfterFunc(ctx, func() { close(f.stopping) })
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case w := <-f.join:
			f.admit(ctx, w)
		case w := <-f.leave:
			delete(f.watchers, w)
		case <-ticker.C:
			if len(f.watchers) > 0 {
				f.poll(ctx)
			}
		}
		f.metrics.watchers.Set(float64(len(f.watchers)))
	}
}

// admit tells a new watcher everything. What was known when the last one left is old by now, and is read anew.
func (f *Feed) admit(ctx context.Context, w *watcher) {
	if len(f.watchers) == 0 {
		f.known = known{}
		if _, err := f.read(ctx); err != nil {
			w.ended <- err
			return
		}
	}
	w.batches <- f.known.everything()
	f.watchers[w] = true
}

// poll tells the watchers what differs. A source that fails loses nothing: what it would have told differs still when it answers.
func (f *Feed) poll(ctx context.Context) {
	differences, err := f.read(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && f.known.failedAt.IsZero():
		f.known.failedAt = time.Now()
		f.logger.Warn("what is available cannot be read; watchers are told so, and it is tried again", "error", err)
		differences = f.known.learnOverview(unread(f.known.overview, f.known.failedAt))
	case err == nil && !f.known.failedAt.IsZero():
		f.known.failedAt = time.Time{}
		f.logger.Info("what is available can be read again")
	}
	if len(differences) > 0 {
		f.publish(differences)
	}
}

// read reads what may have changed, and returns what did. When it fails nothing is learnt.
func (f *Feed) read(ctx context.Context) ([]*Event, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	overview, revision, err := f.source.Overview(ctx)
	if err != nil {
		return nil, err
	}
	var differences []*Event
	switch now := time.Now(); {
	case now.Sub(f.known.rereadAt) >= rereadInterval:
		servers, err := f.source.Servers(ctx)
		if err != nil {
			return nil, err
		}
		f.known.rereadAt = now
		differences = append(f.known.learn(servers), f.known.forgetAllBut(servers)...)
	case revision != f.known.revision:
		servers, err := f.source.ServersSince(ctx, f.known.revision)
		if err != nil {
			return nil, err
		}
		differences = f.known.learn(servers)
	}
	f.known.revision = revision
	return append(differences, f.known.learnOverview(overview)...), nil
}

func (f *Feed) publish(batch []*Event) {
	for w := range f.watchers {
		select {
		case w.batches <- batch:
		default:
			w.ended <- ErrTooSlow
			delete(f.watchers, w)
			f.metrics.tooSlow.Inc()
		}
	}
}

// unread is an overview while the database does not answer.
func unread(last *availabilityv1.Overview, since time.Time) *availabilityv1.Overview {
	marked := proto.CloneOf(last)
	marked.Banners = append([]string{"The availability database has not answered since " + since.UTC().Format(time.RFC3339) +
		"; what is shown is what was last read."}, marked.GetBanners()...)
	return marked
}
