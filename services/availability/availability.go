// Package availability decides which servers are Online: it is the sole writer of TblServer.Online and TblServerOfflineLog, and owns
// maintenance. Its public face is Config, Run and Migrate.
package availability

import (
	"log/slog"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/rpc"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/agenthttp"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/grpcclient"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/loopback"
	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/internal/telemetry"
)

// Modes of the job.
const (
	ModeOff     = "off"     // nothing is computed
	ModeObserve = "observe" // verdicts are computed and shown; Online and the offline log are left alone
	ModeOwn     = "own"     // the job writes Online and the offline log
)

// Config is all that can be set.
type Config struct {
	GRPC  grpcserver.ListenConfig `config:"grpc"`
	Admin telemetry.AdminConfig   `config:"admin"`
	Log   telemetry.LogConfig     `config:"log"`
	// Database is where the data is: the registry's database.
	Database sqldb.Config      `config:"database"`
	Registry grpcclient.Config `config:"registry"`
	// HTTP is how agents are probed; it should be as the gateway has it.
	HTTP agenthttp.ClientConfig `config:"http"`
	// Mode is off, observe or own. Going live beside another writer of Online is: observe, compare, switch the other off, own.
	Mode string `config:"mode"`
	// Replica names this process among its replicas, in the lease. Empty: a random name.
	Replica string `config:"replica"`
	// SweepInterval is how often the fleet is judged, and probed. 100 ms to 5 min.
	SweepInterval time.Duration `config:"sweepInterval"`
	// LeaseDuration is after what time without a sweep another replica takes over. At least two sweep intervals, at most 1 h.
	LeaseDuration time.Duration `config:"leaseDuration"`
	// HeartbeatInterval is how often agents send heartbeats. 100 ms to 1 h.
	HeartbeatInterval time.Duration `config:"heartbeatInterval"`
	// MaxHeartbeatAge is the age from which an agent counts as silent. At least two heartbeat intervals, at most 24 h.
	MaxHeartbeatAge time.Duration `config:"maxHeartbeatAge"`
	Probes          ProbeConfig   `config:"probes"`
	// Reflection lists the services to whoever asks.
	Reflection bool `config:"reflection"`

	Logger *slog.Logger    `config:"-"`
	Ready  func(Endpoints) `config:"-"` // called once when serving, with the bound addresses
}

// ProbeConfig bounds HTTP probes.
type ProbeConfig struct {
	// Timeout bounds one probe. 10 ms to 1 min, and shorter than a sweep interval.
	Timeout time.Duration `config:"timeout"`
	// Parallel is how many are in flight at most. 1 to 1,024.
	Parallel int `config:"parallel"`
}

// Endpoints are the bound addresses.
type Endpoints struct{ GRPC, Admin string }

// DefaultConfig listens on loopback, calls a registry there, and observes; only the database must be set.
func DefaultConfig() Config {
	return Config{
		GRPC:              grpcserver.ListenConfig{Listen: "127.0.0.1:7430"},
		Admin:             telemetry.AdminConfig{Listen: "127.0.0.1:7431"},
		Log:               telemetry.DefaultLogConfig(),
		Registry:          grpcclient.Config{Target: "127.0.0.1:7410"},
		HTTP:              agenthttp.DefaultClientConfig(),
		Mode:              ModeObserve,
		SweepInterval:     15 * time.Second,
		LeaseDuration:     30 * time.Second,
		HeartbeatInterval: 30 * time.Second,
		MaxHeartbeatAge:   90 * time.Second,
		Probes:            ProbeConfig{Timeout: 2 * time.Second, Parallel: 64},
	}
}

// Validate names every key that is wrong.
func (c Config) Validate() error {
	var problems config.Problems
	problems.AddError(c.GRPC.Validate("grpc"))
	problems.AddError(authn.CheckFile("grpc.tokenFile", c.GRPC.TokenFile, rpc.Policy()))
	problems.AddError(c.Admin.Validate("admin"))
	problems.AddError(loopback.Distinct(map[string]string{"grpc.listen": c.GRPC.Listen, "admin.listen": c.Admin.Listen}))
	problems.AddError(c.Registry.Validate("registry"))
	problems.AddError(c.HTTP.Validate("http"))
	problems.AddError(c.Database.Validate(store.Migrations().Command))
	if c.Mode != ModeOff && c.Mode != ModeObserve && c.Mode != ModeOwn {
		problems.Add("mode", "must be %s, %s or %s, is %q", ModeOff, ModeObserve, ModeOwn, c.Mode)
	}
	if len(c.Replica) > 128 {
		problems.Add("replica", "must have at most 128 characters")
	}
	c.validateTimes(&problems)
	if c.Probes.Parallel < 1 || c.Probes.Parallel > 1024 {
		problems.Add("probes.parallel", "must be 1 to 1024, is %d", c.Probes.Parallel)
	}
	return problems.Err()
}

func (c Config) validateTimes(problems *config.Problems) {
	for _, bound := range []struct {
		key         string
		value       time.Duration
		least, most time.Duration
	}{
		{"sweepInterval", c.SweepInterval, 100 * time.Millisecond, 5 * time.Minute},
		{"leaseDuration", c.LeaseDuration, 2 * c.SweepInterval, time.Hour},
		{"heartbeatInterval", c.HeartbeatInterval, 100 * time.Millisecond, time.Hour},
		{"maxHeartbeatAge", c.MaxHeartbeatAge, 2 * c.HeartbeatInterval, 24 * time.Hour},
		{"probes.timeout", c.Probes.Timeout, 10 * time.Millisecond, min(time.Minute, c.SweepInterval)},
	} {
		if bound.value < bound.least || bound.value > bound.most {
			problems.Add(bound.key, "must be %s to %s, is %s", bound.least, bound.most, bound.value)
		}
	}
}

func (c Config) limits() verdict.Limits {
	return verdict.Limits{MaxAge: c.MaxHeartbeatAge, HeartbeatInterval: c.HeartbeatInterval, SweepInterval: c.SweepInterval}
}
