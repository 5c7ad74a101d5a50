// Package operatorgateway is how operators and back-end callers reach agents: REST and gRPC, routing of each command to its
// agent's own transport, and verification of agents' HTTP. It stores nothing. Its public face is Config and Run.
package operatorgateway

import (
	"log/slog"
	"time"

	"github.com/commandcenter/fleet/services/internal/agenthttp"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/grpcclient"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/loopback"
	"github.com/commandcenter/fleet/services/internal/servicebus"
	"github.com/commandcenter/fleet/services/internal/telemetry"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/rpc"
)

// Config is all that can be set.
type Config struct {
	REST     ListenConfig          `config:"rest"`
	GRPC     ListenConfig          `config:"grpc"`
	Admin    telemetry.AdminConfig `config:"admin"`
	Log      telemetry.LogConfig   `config:"log"`
	Registry grpcclient.Config     `config:"registry"`
	// Availability may be left out: agents are then listed without it, and its routes are refused as AVAILABILITY_UNAVAILABLE.
	Availability grpcclient.Config `config:"availability"`
	Bus          servicebus.Config `config:"bus"`
	// HTTPOnly serves agents on HTTP alone: no bus is used, and commands that would take it are refused as BUS_UNAVAILABLE.
	HTTPOnly bool `config:"httpOnly"`
	// TokenFile holds the hashes of the callers' tokens, for REST and gRPC alike. Without it only loopback is served.
	TokenFile    string                 `config:"tokenFile"`
	HTTP         agenthttp.ClientConfig `config:"http"`
	Budgets      BudgetConfig           `config:"budgets"`
	Routing      RoutingConfig          `config:"routing"`
	Verification VerificationConfig     `config:"verification"`
	// Reflection lists the gRPC services to whoever asks.
	Reflection bool `config:"reflection"`

	Logger *slog.Logger    `config:"-"`
	Ready  func(Endpoints) `config:"-"` // called once when serving, with the bound addresses
}

// ListenConfig says where a listener is.
type ListenConfig struct {
	// Listen is host:port.
	Listen string               `config:"listen"`
	TLS    grpcserver.TLSConfig `config:"tls"`
}

// Bounds of budgets. An answer waits 5 minutes on the bus, and connections that are renewed end after 5 minutes more: a command
// must be over by then.
const (
	leastBudget = 500 * time.Millisecond
	mostBudget  = 4 * time.Minute
)

// BudgetConfig is how long a command may take as a whole; a caller's shorter deadline wins. 500 ms to 4 min.
type BudgetConfig struct {
	Read  time.Duration `config:"read"`
	Write time.Duration `config:"write"`
}

// RoutingConfig is what routing goes by.
type RoutingConfig struct {
	// MaxHeartbeatAge is the age from which a bus heartbeat is stale. 1 s to 1 h.
	MaxHeartbeatAge time.Duration `config:"maxHeartbeatAge"`
	// MaxVerificationAge is the age up to which an HTTP verification counts. 1 s to 720 h.
	MaxVerificationAge time.Duration `config:"maxVerificationAge"`
}

// VerificationConfig is how often what was verified is verified again. 1 s to 720 h, below MaxVerificationAge.
type VerificationConfig struct {
	RepeatInterval time.Duration `config:"repeatInterval"`
}

// Endpoints are the bound addresses.
type Endpoints struct{ REST, GRPC, Admin string }

// DefaultConfig listens on loopback and calls a registry there; only the bus must be set.
func DefaultConfig() Config {
	return Config{
		REST:         ListenConfig{Listen: "127.0.0.1:8080"},
		GRPC:         ListenConfig{Listen: "127.0.0.1:7440"},
		Admin:        telemetry.AdminConfig{Listen: "127.0.0.1:7441"},
		Log:          telemetry.DefaultLogConfig(),
		Registry:     grpcclient.Config{Target: "127.0.0.1:7410"},
		Bus:          servicebus.DefaultConfig(),
		HTTP:         agenthttp.DefaultClientConfig(),
		Budgets:      BudgetConfig{Read: 5 * time.Second, Write: time.Minute},
		Routing:      RoutingConfig{MaxHeartbeatAge: 90 * time.Second, MaxVerificationAge: 24 * time.Hour},
		Verification: VerificationConfig{RepeatInterval: 6 * time.Hour},
	}
}

// Validate names every key that is wrong.
func (c Config) Validate() error {
	var problems config.Problems
	c.validateListeners(&problems)
	problems.AddError(authn.CheckFile("tokenFile", c.TokenFile, rpc.Policy()))
	problems.AddError(c.Admin.Validate("admin"))
	problems.AddError(c.Registry.Validate("registry"))
	if c.Availability != (grpcclient.Config{}) {
		problems.AddError(c.Availability.Validate("availability"))
	}
	c.validateBus(&problems)
	problems.AddError(c.HTTP.Validate("http"))
	c.validateDurations(&problems)
	return problems.Err()
}

func (c Config) validateListeners(problems *config.Problems) {
	for _, one := range []struct {
		key string
		ListenConfig
	}{{"rest", c.REST}, {"grpc", c.GRPC}} {
		local, err := loopback.Is(one.Listen)
		switch {
		case err != nil:
			problems.Add(one.key+".listen", "%v", err)
		case !local && c.TokenFile == "":
			problems.Add(one.key+".listen", "%s is beyond loopback and no authentication is configured: set tokenFile, or listen on 127.0.0.1", one.Listen)
		}
		problems.AddError(one.TLS.Validate(one.key + ".tls"))
	}
	problems.AddError(loopback.Distinct(map[string]string{"rest.listen": c.REST.Listen, "grpc.listen": c.GRPC.Listen, "admin.listen": c.Admin.Listen}))
}

func (c Config) validateBus(problems *config.Problems) {
	if !c.HTTPOnly {
		problems.AddError(c.Bus.Validate("bus"))
		return
	}
	if c.Bus != servicebus.DefaultConfig() {
		problems.Add("httpOnly", "contradicts what is set under bus: no bus is used, and nothing of it would have an effect")
	}
}

func (c Config) validateDurations(problems *config.Problems) {
	for _, bound := range []struct {
		key         string
		value       time.Duration
		least, most time.Duration
	}{
		{"budgets.read", c.Budgets.Read, leastBudget, mostBudget},
		{"budgets.write", c.Budgets.Write, leastBudget, mostBudget},
		{"routing.maxHeartbeatAge", c.Routing.MaxHeartbeatAge, time.Second, time.Hour},
		{"routing.maxVerificationAge", c.Routing.MaxVerificationAge, time.Second, 720 * time.Hour},
		{"verification.repeatInterval", c.Verification.RepeatInterval, time.Second, 720 * time.Hour},
	} {
		if bound.value < bound.least || bound.value > bound.most {
			problems.Add(bound.key, "must be %s to %s, is %s", bound.least, bound.most, bound.value)
		}
	}
	if c.Verification.RepeatInterval >= c.Routing.MaxVerificationAge {
		problems.Add("verification.repeatInterval", "must be shorter than routing.maxVerificationAge (%s), or a verification would lapse before it is repeated", c.Routing.MaxVerificationAge)
	}
}

// listener is a listener with the tokens that both share.
func (c Config) listener(one ListenConfig) grpcserver.ListenConfig {
	return grpcserver.ListenConfig{Listen: one.Listen, TLS: one.TLS, TokenFile: c.TokenFile}
}
