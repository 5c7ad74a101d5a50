package sweep

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/availability/internal/probe"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

func TestMain(m *testing.M) {
	// The connection opener of database/sql ends a moment after Close.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

var (
	epoch  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	limits = verdict.Limits{MaxAge: 90 * time.Second, HeartbeatInterval: 30 * time.Second, SweepInterval: 15 * time.Second}
)

// world is a database with servers, and a registry whose clock the test sets. That clock decides; the lease goes by the database's own.
type world struct {
	t        testing.TB
	url      string
	raw      *sql.DB
	registry *registry
}

// newWorld makes servers 1 to n, online, each with an accepted agent that was just heard over the bus.
func newWorld(t testing.TB, n int) *world {
	path := filepath.Join(t.TempDir(), "fleet.db")
	raw, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	w := &world{t: t, url: "sqlite:" + path, raw: raw, registry: newRegistry()}
	opened := w.open()
	if _, _, err := opened.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	for key := range int64(n) {
		w.exec("INSERT INTO TblServer (Name, Url, Type, Active, Online) VALUES (?, '', 'BenefitManager', 1, 1)", nameOf(key))
		w.registry.servers[key+1] = &registryv1.FleetServer{
			ServerKey: key + 1, Agent: nameOf(key), RegistrationState: registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED,
		}
	}
	w.beat()
	return w
}

func (w *world) open() *store.Store {
	opened, err := store.Open(w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = opened.Close() })
	return opened
}

// still never ends a round: tests add rounds of their own.
type still struct{}

func (still) Round(ctx context.Context, _ []probe.Target, _ time.Duration) probe.Round {
	<-ctx.Done()
	return nil
}

// replica is one more process; it never probes by itself.
func (w *world) replica(name string) *Job {
	job := &Job{
		Store: &database{Store: w.open(), world: w}, Registry: w.registry, Limits: limits, LeaseDuration: time.Hour, Own: true, Holder: name,
		Prober: still{}, Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler),
	}
	w.t.Cleanup(func() { job.resign(context.Background()) })
	return job
}

func (w *world) exec(text string, args ...any) {
	w.t.Helper()
	if _, err := w.raw.Exec(text, args...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) count(text string, args ...any) (n int) {
	w.t.Helper()
	if err := w.raw.QueryRow(text, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) online() int {
	return w.count("SELECT COUNT(*) FROM TblServer WHERE Online = 1")
}

func (w *world) isOnline(key int64) bool {
	return w.count("SELECT Online FROM TblServer WHERE ServerKey = ?", key) == 1
}

func (w *world) logRows() int { return w.count("SELECT COUNT(*) FROM TblServerOfflineLog") }

// expire lets the lease run out, as it does for a holder that was stopped for longer than it lasts.
func (w *world) expire() {
	w.exec("UPDATE TblJobLease SET ExpiresAt = '2020-01-01T00:00:00.000Z'")
}

// step sweeps once with a replica, and fails the test if that fails.
func (w *world) step(job *Job) {
	w.t.Helper()
	if err := job.Step(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// pass lets an interval go by, in which all but the silent agents are heard, and sweeps.
func (w *world) pass(job *Job, silent ...int64) {
	w.t.Helper()
	w.registry.now = w.registry.now.Add(limits.SweepInterval)
	w.beat(silent...)
	w.step(job)
}

// beat lets all be heard but the silent ones, as far as the ingest runs.
func (w *world) beat(silent ...int64) {
	if w.registry.deaf {
		return
	}
	quiet := map[int64]bool{}
	for _, key := range silent {
		quiet[key] = true
	}
	for key, server := range w.registry.servers {
		if !quiet[key] && server.GetHttpBaseUrl() == "" {
			server.LastBusHeartbeatAt = timestamppb.New(w.registry.now)
		}
	}
	w.registry.heardAt, w.registry.reportedAt = w.registry.now, w.registry.now
}

// registry answers ReadFleet with what the test set.
type registry struct {
	now          time.Time
	servers      map[int64]*registryv1.FleetServer
	deaf         bool // nothing is ingested and nothing proven
	reportedAt   time.Time
	healthySince time.Time // zero: not healthy
	backlog      time.Duration
	heardAt      time.Time
	skew         *registryv1.ClockSkew // of the broker's clock
	err          error
}

func newRegistry() *registry {
	return &registry{now: epoch, servers: map[int64]*registryv1.FleetServer{}, healthySince: epoch.Add(-time.Hour)}
}

// stop stops the ingest; start starts it, and health begins anew.
func (r *registry) stop()  { r.deaf = true }
func (r *registry) start() { r.deaf, r.healthySince = false, r.now }

func (r *registry) ReadFleet(context.Context, *registryv1.ReadFleetRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[registryv1.ReadFleetResponse], error) {
	if r.err != nil {
		return nil, r.err
	}
	bus := &registryv1.PathEvidence{
		Path: registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS, ReportedAt: timestamppb.New(r.reportedAt), HeardAt: timestamppb.New(r.heardAt),
		Backlog: durationpb.New(r.backlog), LongestReturn: durationpb.New(time.Second), BrokerSkew: r.skew,
	}
	if !r.healthySince.IsZero() {
		bus.HealthySince = timestamppb.New(r.healthySince)
	}
	direct := &registryv1.PathEvidence{Path: registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT}
	part := &registryv1.FleetServers{}
	for _, server := range r.servers {
		part.Servers = append(part.Servers, server)
	}
	return &answer{parts: []*registryv1.ReadFleetResponse{
		{Part: &registryv1.ReadFleetResponse_Head{Head: &registryv1.FleetHead{ReadAt: timestamppb.New(r.now), Paths: []*registryv1.PathEvidence{bus, direct}}}},
		{Part: &registryv1.ReadFleetResponse_Servers{Servers: part}},
	}}, nil
}

type answer struct {
	grpc.ClientStream
	parts []*registryv1.ReadFleetResponse
	end   error // nil: io.EOF
}

func (a *answer) Recv() (*registryv1.ReadFleetResponse, error) {
	if len(a.parts) == 0 {
		if a.end != nil {
			return nil, a.end
		}
		return nil, io.EOF
	}
	next := a.parts[0]
	a.parts = a.parts[1:]
	return next, nil
}

var errDatabase = errors.New("the database is gone")

// database is the real store, with what happens after reading the fleet, and around Record. It reads the world's clock, as one database does.
type database struct {
	Store
	world               *world
	read, before, after func() error // nil: nothing
}

func (d *database) Fleet(ctx context.Context) (store.Fleet, error) {
	fleet, err := d.Store.Fleet(ctx)
	fleet.ReadAt = d.world.registry.now
	if err == nil && d.read != nil {
		err = d.read()
	}
	return fleet, err
}

func (d *database) Record(ctx context.Context, sweep store.Sweep) (store.Recorded, error) {
	if d.before != nil {
		if err := d.before(); err != nil {
			return store.Recorded{}, err
		}
	}
	recorded, err := d.Store.Record(ctx, sweep)
	if err == nil && d.after != nil {
		err = d.after()
	}
	return recorded, err
}

// nameOf is the name of the n-th server and of its agent.
func nameOf(n int64) string { return "BM-" + time.Duration(n).String() }
