package watch

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// table is a source in memory.
type table struct {
	mu       sync.Mutex
	servers  map[int64]row
	revision int64
	overview string // a banner
	failing  error  // of every reading
	broken   error  // of the servers' alone
	reads    int
	hang     chan struct{} // a reading waits for its end, or for its context's
	between  func()        // what happens right after the servers were read
}

type row struct {
	detail   string
	revision int64
}

func newTable(servers int) *table {
	t := &table{servers: map[int64]row{}}
	for key := range servers {
		t.change(int64(key+1), "first")
	}
	return t
}

// change is seen by the revision.
func (t *table) change(key int64, detail string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revision++
	t.servers[key] = row{detail, t.revision}
}

// set runs a change that the revision does not show.
func (t *table) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

func (t *table) read(ctx context.Context) error {
	t.mu.Lock()
	t.reads++
	hang, failing := t.hang, t.failing
	t.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return failing
}

func (t *table) Overview(ctx context.Context) (*availabilityv1.Overview, int64, error) {
	if err := t.read(ctx); err != nil {
		return nil, 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return &availabilityv1.Overview{Banners: []string{t.overview}}, t.revision, nil
}

func (t *table) Servers(ctx context.Context) ([]*availabilityv1.ServerAvailability, error) {
	return t.ServersSince(ctx, -1)
}

func (t *table) ServersSince(ctx context.Context, revision int64) ([]*availabilityv1.ServerAvailability, error) {
	if err := t.read(ctx); err != nil {
		return nil, err
	}
	t.mu.Lock()
	if t.broken != nil {
		defer t.mu.Unlock()
		return nil, t.broken
	}
	var found []*availabilityv1.ServerAvailability
	for _, key := range slices.Sorted(maps.Keys(t.servers)) {
		if t.servers[key].revision > revision {
			found = append(found, &availabilityv1.ServerAvailability{ServerKey: key, Detail: t.servers[key].detail})
		}
	}
	between := t.between
	t.mu.Unlock()
	if between != nil {
		between()
	}
	return found, nil
}

// viewer is one watcher with what it was told.
type viewer struct {
	mu       sync.Mutex
	servers  map[int64]string
	overview *availabilityv1.Overview
	events   int
	complete int // servers, at the end of everything; -1 before
	stalled  chan struct{}
	cancel   context.CancelFunc
	ended    chan error
}

func (v *viewer) send(event *Event) error {
	v.mu.Lock()
	stalled := v.stalled
	v.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.events++
	switch e := event.GetEvent().(type) {
	case *availabilityv1.WatchAvailabilityResponse_Server:
		v.servers[e.Server.GetServerKey()] = e.Server.GetDetail()
	case *availabilityv1.WatchAvailabilityResponse_ServerGone:
		delete(v.servers, e.ServerGone.GetServerKey())
	case *availabilityv1.WatchAvailabilityResponse_Overview:
		v.overview = e.Overview
	case *availabilityv1.WatchAvailabilityResponse_SnapshotComplete:
		v.complete = int(e.SnapshotComplete.GetServers())
	}
	return nil
}

func (v *viewer) stall() (release func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	stalled := make(chan struct{})
	v.stalled = stalled
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.stalled = nil
		close(stalled)
	}
}

// sees tells what the viewer believes: one server, or "" for none.
func (v *viewer) sees(key int64) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.servers[key]
}

func (v *viewer) banner() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return strings.Join(v.overview.GetBanners(), "|")
}

func (v *viewer) told() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.events
}

type fixture struct {
	*table
	feed *Feed
	ctx  context.Context
	stop context.CancelFunc
	done chan error
}

// start runs a feed; it is for the inside of a synctest bubble, whose end it outlives not.
func start(t *testing.T, source *table) *fixture {
	t.Helper()
	f := &fixture{table: source, done: make(chan error, 1)}
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.feed = NewFeed(source, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	go func() { f.done <- f.feed.Run(f.ctx) }()
	t.Cleanup(func() {
		f.stop()
		if err := <-f.done; err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) watch() *viewer {
	v := &viewer{servers: map[int64]string{}, complete: -1, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	v.cancel = cancel
	go func() { v.ended <- f.feed.Watch(ctx, v.send) }()
	synctest.Wait()
	return v
}

// pass lets time pass, and everything happen that then does.
func pass(d time.Duration) {
	time.Sleep(d) // the bubble's
	synctest.Wait()
}

func bubble(t *testing.T, source *table, run func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(t, start(t, source)) })
}
