package heartbeat

import (
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/commandcenter/fleet/services/heartbeat/internal/ingress"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/loopback"
	"github.com/commandcenter/fleet/services/internal/textrule"
)

// IngressConfig makes this replica a control server, which agents call directly.
type IngressConfig struct {
	// Name is its unique name among the control servers, 1 to 128 characters. Empty: it is none, and only hears the bus; then no other
	// setting of the ingress may be set.
	Name string              `config:"name"`
	GRPC IngressListenConfig `config:"grpc"`
	// REST may have no address: then only gRPC is served.
	REST IngressListenConfig `config:"rest"`
	// AdvertisedGRPC is host:port at which agents reach it, unique among the control servers. Empty: as bound, on loopback only.
	AdvertisedGRPC string `config:"advertisedGrpc"`
	// AdvertisedREST is its base URL for REST. Empty: as bound, on loopback only.
	AdvertisedREST string `config:"advertisedRest"`
	// EnrolmentKeyFile holds the key that agents present to register. Without it only loopback is served, and every key is good.
	EnrolmentKeyFile string `config:"enrolmentKeyFile"`
	// ConnectsPerSecond is how many agents that were not here lately are let in per second, 1 to 100,000.
	ConnectsPerSecond int `config:"connectsPerSecond"`
	// HeartbeatInterval is how often agents are told to send heartbeats. 100 ms to 1 h.
	HeartbeatInterval time.Duration `config:"heartbeatInterval"`
	// DrainTimeout is how long agents are served at the stop, to hear that they are to go on to the next. 0 to 20 s.
	DrainTimeout time.Duration `config:"drainTimeout"`
	// ProtocolMin and ProtocolMax are the versions of the agents' protocol that are spoken.
	ProtocolMin int `config:"protocolMin"`
	ProtocolMax int `config:"protocolMax"`
}

// IngressListenConfig says where agents are listened for.
type IngressListenConfig struct {
	// Listen is host:port.
	Listen string               `config:"listen"`
	TLS    grpcserver.TLSConfig `config:"tls"`
	// Plaintext listens beyond loopback without TLS, where the network itself protects the agents' tokens.
	Plaintext bool `config:"plaintext"`
}

func defaultIngress() IngressConfig {
	return IngressConfig{
		GRPC:              IngressListenConfig{Listen: "127.0.0.1:7422"},
		REST:              IngressListenConfig{Listen: "127.0.0.1:7423"},
		ConnectsPerSecond: 200,
		HeartbeatInterval: 30 * time.Second,
		DrainTimeout:      10 * time.Second,
		ProtocolMin:       1, ProtocolMax: 1,
	}
}

func (c IngressConfig) enabled() bool { return c.Name != "" }

func (c IngressConfig) validate(problems *config.Problems) {
	if !c.enabled() {
		c.validateUnnamed(problems)
		return
	}
	if err := textrule.Name(c.Name); err != nil {
		problems.Add("ingress.name", "%v: the registry would refuse it", err)
	} else if utf8.RuneCountInString(c.Name) > 128 {
		problems.Add("ingress.name", "must have 1 to 128 characters")
	}
	c.GRPC.validate(problems, "ingress.grpc", c.EnrolmentKeyFile != "")
	if !isHostPort(c.AdvertisedGRPC) && (c.AdvertisedGRPC != "" || c.GRPC.remote()) {
		problems.Add("ingress.advertisedGrpc", "must be host:port, as agents reach it; is %q", c.AdvertisedGRPC)
	}
	switch {
	case c.REST.Listen == "" && c.AdvertisedREST != "":
		problems.Add("ingress.advertisedRest", "is set, and ingress.rest.listen is not: no REST is served")
	case c.REST.Listen != "":
		c.REST.validate(problems, "ingress.rest", c.EnrolmentKeyFile != "")
		at, err := url.Parse(c.AdvertisedREST)
		good := err == nil && (at.Scheme == "http" || at.Scheme == "https") && reachableHost(at.Hostname())
		if !good && (c.AdvertisedREST != "" || c.REST.remote()) {
			problems.Add("ingress.advertisedRest", "must be an http or https URL, as agents reach it; is %q", c.AdvertisedREST)
		}
	}
	_, err := ingress.OpenEnrolmentKey("ingress.enrolmentKeyFile", c.EnrolmentKeyFile, slog.New(slog.DiscardHandler))
	problems.AddError(err)
	c.validateNumbers(problems)
}

// validateUnnamed refuses settings of a control server where there is none: they would do nothing, and nothing would say so. The
// environment is where most settings come from, and a name is easily left out of it.
func (c IngressConfig) validateUnnamed(problems *config.Problems) {
	standard := defaultIngress()
	for _, setting := range []struct {
		key string
		set bool
	}{
		{"ingress.grpc", c.GRPC != standard.GRPC},
		{"ingress.rest", c.REST != standard.REST},
		{"ingress.advertisedGrpc", c.AdvertisedGRPC != ""},
		{"ingress.advertisedRest", c.AdvertisedREST != ""},
		{"ingress.enrolmentKeyFile", c.EnrolmentKeyFile != ""},
		{"ingress.connectsPerSecond", c.ConnectsPerSecond != standard.ConnectsPerSecond},
		{"ingress.heartbeatInterval", c.HeartbeatInterval != standard.HeartbeatInterval},
		{"ingress.drainTimeout", c.DrainTimeout != standard.DrainTimeout},
		{"ingress.protocolMin", c.ProtocolMin != standard.ProtocolMin || c.ProtocolMax != standard.ProtocolMax},
	} {
		if setting.set {
			problems.Add(setting.key, "is set, and ingress.name is not: without a name there is no control server, and agents cannot call")
		}
	}
}

func (c IngressConfig) validateNumbers(problems *config.Problems) {
	if c.ConnectsPerSecond < 1 || c.ConnectsPerSecond > 100_000 {
		problems.Add("ingress.connectsPerSecond", "must be 1 to 100000, is %d", c.ConnectsPerSecond)
	}
	if c.HeartbeatInterval < 100*time.Millisecond || c.HeartbeatInterval > time.Hour {
		problems.Add("ingress.heartbeatInterval", "must be 100ms to 1h, is %s", c.HeartbeatInterval)
	}
	if c.DrainTimeout < 0 || c.DrainTimeout > 20*time.Second {
		problems.Add("ingress.drainTimeout", "must be 0s to 20s, is %s", c.DrainTimeout)
	}
	if c.ProtocolMin < 1 || c.ProtocolMax > 1000 || c.ProtocolMin > c.ProtocolMax {
		problems.Add("ingress.protocolMin", "and protocolMax must be 1 to 1000, in this order; they are %d and %d", c.ProtocolMin, c.ProtocolMax)
	}
}

// validate refuses what others could reach without a key, or listen to.
func (c IngressListenConfig) validate(problems *config.Problems, key string, guarded bool) {
	local, err := loopback.Is(c.Listen)
	switch {
	case err != nil:
		problems.Add(key+".listen", "%v", err)
	case !local && !guarded:
		problems.Add(key+".listen", "%s is beyond loopback and no authentication is configured: set ingress.enrolmentKeyFile, or listen on 127.0.0.1", c.Listen)
	case !local && c.TLS.CertFile == "" && !c.Plaintext:
		problems.Add(key+".listen", "%s is beyond loopback, where agents' tokens could be read on the way: set %s.tls, or %s.plaintext to true where the network protects them", c.Listen, key, key)
	}
	if c.Plaintext && c.TLS.CertFile != "" {
		problems.Add(key+".plaintext", "contradicts %s.tls.certFile", key)
	}
	problems.AddError(c.TLS.Validate(key + ".tls"))
}

func isHostPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	at, number := strconv.ParseUint(port, 10, 16)
	return err == nil && number == nil && at > 0 && reachableHost(host)
}

// reachableHost reports whether agents may reach a host: one that stands for every interface is nowhere to go.
func reachableHost(host string) bool {
	ip, _ := netip.ParseAddr(host)
	return host != "" && !ip.IsUnspecified()
}

func (c IngressListenConfig) remote() bool {
	local, err := loopback.Is(c.Listen)
	return err == nil && !local
}

// advertised is where agents reach the control server.
func (c IngressConfig) advertised(grpcAddr, restAddr string) (grpcEndpoint, restEndpoint string) {
	grpcEndpoint, restEndpoint = c.AdvertisedGRPC, c.AdvertisedREST
	if grpcEndpoint == "" {
		grpcEndpoint = grpcAddr
	}
	if restEndpoint == "" && restAddr != "" {
		restEndpoint = "http://" + restAddr
		if c.REST.TLS.CertFile != "" {
			restEndpoint = "https://" + restAddr
		}
	}
	return grpcEndpoint, restEndpoint
}
