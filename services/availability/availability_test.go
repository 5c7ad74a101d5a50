package availability

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/internal/config"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

// patience bounds what must happen, so that a failure does not hang; nothing waits for it to pass.
const patience = 30 * time.Second

func settings(path string) Config {
	cfg := DefaultConfig()
	cfg.GRPC.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Database.URL = config.Secret("sqlite:" + path)
	cfg.Registry.Target = "127.0.0.1:1" // nobody answers there
	cfg.SweepInterval, cfg.LeaseDuration, cfg.Probes.Timeout = 200*time.Millisecond, time.Second, 100*time.Millisecond
	cfg.Logger = slog.New(slog.DiscardHandler)
	return cfg
}

// migrated is a database file with both services' tables as this service makes them.
func migrated(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.db")
	if err := Migrate(t.Context(), settings(path)); err != nil {
		t.Fatal(err)
	}
	return path
}

// replica is one that runs until stop is called, at the latest at the test's end.
type replica struct {
	client availabilityv1.AvailabilityClient
	health healthv1.HealthClient
	stop   func()
}

func start(t *testing.T, cfg Config) replica {
	t.Helper()
	ready, ended := make(chan Endpoints, 1), make(chan error, 1)
	cfg.Ready = func(at Endpoints) { ready <- at }
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- Run(ctx, cfg) }()
	var at Endpoints
	select {
	case at = <-ready:
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(at.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		_ = conn.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error("Run: ", err)
		}
	}
	t.Cleanup(stop)
	return replica{availabilityv1.NewAvailabilityClient(conn), healthv1.NewHealthClient(conn), stop}
}

func (r replica) overview(t *testing.T) *availabilityv1.Overview {
	t.Helper()
	answer, err := r.client.GetOverview(t.Context(), &availabilityv1.GetOverviewRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetOverview()
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: ", what)
		}
	}
}

func TestI17_BadSettingsNameTheirKey(t *testing.T) {
	for key, row := range map[string]struct {
		edit func(*Config)
		says string
	}{
		"grpc.listen":     {func(c *Config) { c.GRPC.Listen = ":7430" }, "tokenFile"},
		"admin.listen":    {func(c *Config) { c.Admin.Listen = "0.0.0.0:7431" }, "loopback"},
		"registry.target": {func(c *Config) { c.Registry.Target = "" }, "host:port"},
		"http.tokenFile":  {func(c *Config) { c.HTTP.TokenFile = "/nonexistent" }, "/nonexistent"},
		"database":        {func(c *Config) { c.Database.URL = "" }, "exactly one"},
		"database.url":    {func(c *Config) { c.Database.URL = "mysql:x" }, "sqlite:"},
		"database.migrate": {func(c *Config) {
			c.Database.URL, c.Database.Migrate = "sqlserver://u:p@h?database=d&encrypt=true", true
		}, "availability migrate"},
		"mode":              {func(c *Config) { c.Mode = "owner" }, "off, observe or own"},
		"replica":           {func(c *Config) { c.Replica = strings.Repeat("x", 129) }, "128"},
		"sweepInterval":     {func(c *Config) { c.SweepInterval = time.Hour }, "5m"},
		"leaseDuration":     {func(c *Config) { c.LeaseDuration = c.SweepInterval }, "must be"},
		"heartbeatInterval": {func(c *Config) { c.HeartbeatInterval = 0 }, "100ms"},
		"maxHeartbeatAge":   {func(c *Config) { c.MaxHeartbeatAge = c.HeartbeatInterval }, "must be"},
		"probes.timeout":    {func(c *Config) { c.Probes.Timeout = time.Minute }, "must be"},
		"probes.parallel":   {func(c *Config) { c.Probes.Parallel = 0 }, "1 to 1024"},
	} {
		cfg := settings("x")
		if err := cfg.Validate(); err != nil {
			t.Fatalf("the settings before the change: %v", err)
		}
		row.edit(&cfg)
		err := cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", key, err)
			continue
		}
		if runErr := Run(t.Context(), cfg); runErr == nil || runErr.Error() != err.Error() {
			t.Errorf("%s: Run says %v", key, runErr)
		}
	}
}

func TestRunRefusesADatabaseThatDoesNotFit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	if err := Run(t.Context(), settings(path)); err == nil || !strings.Contains(err.Error(), "availability migrate") {
		t.Errorf("without a schema: %v", err)
	}
	path = migrated(t)
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Exec("ALTER TABLE TblServer DROP COLUMN Online"); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), settings(path)); err == nil || !strings.Contains(err.Error(), "TblServer.Online") {
		t.Errorf("without a column: %v", err)
	}
}

// The mode decides what is asked of the database: whoever only observes need not be able to append to the offline log.
func TestI9_OwningNeedsALogThatTakesRows(t *testing.T) {
	path := migrated(t)
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Exec("DROP TABLE TblServerOfflineLog; CREATE TABLE TblServerOfflineLog (ServerKey INTEGER, CreateDate TEXT, Cause TEXT NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	start(t, settings(path)).stop()
	owning := settings(path)
	owning.Mode = ModeOwn
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	owning.Ready = func(Endpoints) { stop() } // or it would serve for ever
	if err := Run(ctx, owning); err == nil || !strings.Contains(err.Error(), "TblServerOfflineLog.Cause") {
		t.Errorf("owning: %v", err)
	}
}

// One replica holds the job; when it stops it gives the lease back, and the other takes it without waiting for the lease to run out.
func TestI15_AStoppedHolderGivesTheLeaseBack(t *testing.T) {
	path := migrated(t)
	first, second := settings(path), settings(path)
	first.Replica, second.Replica = "first", "second"
	first.LeaseDuration, second.LeaseDuration = time.Hour, time.Hour
	one := start(t, first)
	until(t, "the first holds the job", func() bool { return strings.HasPrefix(one.overview(t).GetHolder(), "first/") })
	two := start(t, second)
	one.stop()
	until(t, "the second holds the job", func() bool { return strings.HasPrefix(two.overview(t).GetHolder(), "second/") })
}

func TestModeOffComputesNothingAndServes(t *testing.T) {
	cfg := settings(migrated(t))
	cfg.Mode = ModeOff
	replica := start(t, cfg)
	if overview := replica.overview(t); overview.GetMode() != availabilityv1.Mode_MODE_OFF || overview.GetHolder() != "" {
		t.Errorf("%v", overview)
	}
}

// A registry that does not answer freezes, and is no reason to stop serving.
func TestI11_WithoutARegistryItServesAndSaysSo(t *testing.T) {
	path := migrated(t)
	replica := start(t, settings(path))
	until(t, "it says that it is frozen", func() bool {
		overview := replica.overview(t)
		return len(overview.GetPaths()) == 2 && overview.GetPaths()[0].GetBlind() == "registry unreachable" && len(overview.GetBanners()) > 0
	})
	answer, err := replica.health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: availabilityv1.Availability_ServiceDesc.ServiceName})
	if err != nil || answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", answer, err)
	}
}

func TestAWatchDoesNotHoldUpTheStop(t *testing.T) {
	replica := start(t, settings(migrated(t)))
	watch, err := replica.client.WatchAvailability(context.Background(), &availabilityv1.WatchAvailabilityRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		event, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if event.GetSnapshotComplete() != nil {
			break
		}
	}
	replica.stop()
}
