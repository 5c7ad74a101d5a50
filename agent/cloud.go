package agent

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
)

// CloudConfig says where an agent's first control servers are, and how all of them are called.
type CloudConfig struct {
	// Registration are the gRPC endpoints, host:port, that agents register with or ask for their list while they have none, or while
	// nobody on it answers. At least one. Any control server will do; a name that stands for all of them is best.
	Registration []string
	// EnrolmentKeyFile holds the key that allows enrolment, a secret of 1 to 256 characters. It is read whenever it is needed, so that
	// it may be changed while agents run. Agents that are registered and have their list do without it.
	EnrolmentKeyFile string
	// TLS of the calls; nil: the system's certificates are trusted. Each control server must have a certificate for the host of its endpoint.
	TLS *tls.Config
	// Plaintext calls without TLS, where the network itself protects the agents' tokens. TLS must then be nil.
	Plaintext bool
	// AgentsPerConnection is how many agents of this process share a connection to a control server, 1 to 1,000; default 50.
	AgentsPerConnection int
}

func (c CloudConfig) validate() error {
	var problems []error
	bad := func(field, format string, args ...any) {
		problems = append(problems, fmt.Errorf("cloud config: %s: %s", field, fmt.Sprintf(format, args...)))
	}
	if len(c.Registration) == 0 {
		bad("Registration", "at least one endpoint of a control server is required")
	}
	for _, endpoint := range c.Registration {
		if problem := endpointProblem(endpoint); problem != "" {
			bad("Registration", "%q %s", endpoint, problem)
		}
	}
	if c.EnrolmentKeyFile == "" {
		bad("EnrolmentKeyFile", "is required: control servers take nobody without the key")
	}
	if c.Plaintext && c.TLS != nil {
		bad("Plaintext", "contradicts TLS")
	}
	if n := c.AgentsPerConnection; n < 1 || n > 1000 {
		bad("AgentsPerConnection", "%d is not within 1 to 1,000", n)
	}
	return errors.Join(problems...)
}

// endpointProblem says what is wrong with host:port; empty if it is good.
func endpointProblem(endpoint string) string {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil || host == "" {
		return "is not host:port"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "has no port within 1 to 65535"
	}
	return ""
}

// connectBackoff is short: how long to stay away is decided by each agent's failover.
var connectBackoff = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}

// Cloud is the connections to the control servers. Any number of agents of a process share it. Connections are opened when agents
// first call, and closed when the last agent of a connection has left.
type Cloud struct {
	cfg CloudConfig

	mu    sync.Mutex
	links map[string][]*link // by endpoint
}

// link is one connection to a control server.
type link struct {
	heartbeatv1.AgentIngressClient
	conn     *grpc.ClientConn
	endpoint string
	agents   int // guarded by Cloud.mu
}

// NewCloud makes the cloud as agents see it. It connects to nothing yet; errors are those of the configuration.
func NewCloud(cfg CloudConfig) (*Cloud, error) {
	if cfg.AgentsPerConnection == 0 {
		cfg.AgentsPerConnection = 50
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Cloud{cfg: cfg, links: map[string][]*link{}}, nil
}

// Close closes the connections, once the agents that use them have ended.
func (c *Cloud) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var problems []error
	for _, links := range c.links {
		for _, l := range links {
			problems = append(problems, l.conn.Close())
		}
	}
	clear(c.links)
	return errors.Join(problems...)
}

// join gives an agent a connection to a control server; leave gives it back.
func (c *Cloud) join(endpoint string) (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.links[endpoint] {
		if l.agents < c.cfg.AgentsPerConnection {
			l.agents++
			return l, nil
		}
	}
	l, err := c.dial(endpoint)
	if err != nil {
		return nil, err
	}
	c.links[endpoint] = append(c.links[endpoint], l)
	return l, nil
}

func (c *Cloud) leave(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.agents--; l.agents > 0 {
		return
	}
	c.links[l.endpoint] = without(c.links[l.endpoint], l)
	if len(c.links[l.endpoint]) == 0 {
		delete(c.links, l.endpoint)
	}
	_ = l.conn.Close() // what it was for is done
}

func without(links []*link, gone *link) (kept []*link) {
	for _, l := range links {
		if l != gone {
			kept = append(kept, l)
		}
	}
	return kept
}

// dial prepares a connection, which is made with the first call. Names are resolved anew whenever it is made again, since a control
// server's address may change. Heartbeats find a broken one by their deadline, so that it needs no pings.
func (c *Cloud) dial(endpoint string) (*link, error) {
	if problem := endpointProblem(endpoint); problem != "" {
		return nil, fmt.Errorf("the control server's endpoint %q %s", endpoint, problem)
	}
	transport := credentials.NewTLS(c.cfg.TLS)
	if c.cfg.Plaintext {
		transport = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient("passthrough:///"+endpoint,
		grpc.WithTransportCredentials(transport), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: connectBackoff, MinConnectTimeout: maxCallTimeout}))
	if err != nil {
		return nil, fmt.Errorf("the control server %s can't be called: %w", endpoint, err)
	}
	return &link{AgentIngressClient: heartbeatv1.NewAgentIngressClient(conn), conn: conn, endpoint: endpoint, agents: 1}, nil
}

// enrolmentKey reads the key.
func (c *Cloud) enrolmentKey() (string, error) {
	content, err := os.ReadFile(c.cfg.EnrolmentKeyFile)
	if err != nil {
		return "", fmt.Errorf("the enrolment key can't be read: %w", err)
	}
	key := strings.TrimSpace(string(content))
	if n := len([]rune(key)); n < 1 || n > 256 {
		return "", fmt.Errorf("the enrolment key in %s has %d characters, and not 1 to 256", c.cfg.EnrolmentKeyFile, n)
	}
	return key, nil
}
