package agenthttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/commandcenter/fleet/services/internal/config"
)

// ClientConfig says how agents are reached over HTTP.
type ClientConfig struct {
	// CAFile holds the certificates to trust besides the system's, PEM.
	CAFile string `config:"caFile"`
	// TokenFile holds the bearer token agents expect; it is sent to verified URLs only.
	TokenFile string `config:"tokenFile"`
	// ClientCertFile and ClientKeyFile are a client certificate to present, PEM.
	ClientCertFile string `config:"clientCertFile"`
	ClientKeyFile  string `config:"clientKeyFile"`
	// AllowedNetworks limits where agents may be, as CIDR; empty: anywhere but link-local and metadata addresses.
	AllowedNetworks []string `config:"allowedNetworks"`
	// ConnectTimeout bounds the connection, TLS included.
	ConnectTimeout time.Duration `config:"connectTimeout"`
}

// DefaultClientConfig connects within 3 s.
func DefaultClientConfig() ClientConfig { return ClientConfig{ConnectTimeout: 3 * time.Second} }

// Validate checks the settings; errors name the keys under prefix.
func (c ClientConfig) Validate(prefix string) error {
	var problems config.Problems
	if c.ConnectTimeout < 10*time.Millisecond || c.ConnectTimeout > time.Minute {
		problems.Add(prefix+".connectTimeout", "must be 10ms to 1m, is %s", c.ConnectTimeout)
	}
	if c.TokenFile != "" {
		_, err := config.ReadSecretFile(prefix+".tokenFile", c.TokenFile)
		problems.AddError(err)
	}
	if _, err := c.networks(); err != nil {
		problems.Add(prefix+".allowedNetworks", "%v", err)
	}
	if _, err := c.tls(); err != nil {
		problems.Add(prefix+".caFile, clientCertFile, clientKeyFile", "%v", err)
	}
	return problems.Err()
}

func (c ClientConfig) networks() ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for _, text := range c.AllowedNetworks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		networks = append(networks, network)
	}
	return networks, nil
}

func (c ClientConfig) tls() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, err
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no PEM certificate", c.CAFile)
		}
		cfg.RootCAs = pool
	}
	if c.ClientCertFile != "" || c.ClientKeyFile != "" {
		pair, err := tls.LoadX509KeyPair(c.ClientCertFile, c.ClientKeyFile)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// Anonymous is the same without the credentials.
func (c ClientConfig) Anonymous() ClientConfig {
	c.TokenFile, c.ClientCertFile, c.ClientKeyFile = "", "", ""
	return c
}

// idlePerAgent is how many connections to one agent are kept; more at once are opened and closed again.
const idlePerAgent = 256

// NewClient makes a client that follows no redirect, goes through no proxy, and looks at every address again after it was
// resolved. It is one attempt each: net/http sends a request with a body anew only if it has GetBody or an Idempotency-Key.
func NewClient(c ClientConfig) (*http.Client, error) {
	networks, err := c.networks()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := c.tls()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: c.ConnectTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		return checkDial(address, networks)
	}}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: tlsConfig, TLSHandshakeTimeout: c.ConnectTimeout,
			MaxIdleConnsPerHost: idlePerAgent, MaxIdleConns: 4096,
			// Shorter than servers usually wait, so that a kept connection is rarely one that the agent just closed.
			IdleConnTimeout: 20 * time.Second, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: false, DisableCompression: true,
			// What waits for "100 Continue" is never sent without it: no request lasts so long.
			ExpectContinueTimeout: time.Hour,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// AddressError says that a name resolved to an address where no agent may be.
type AddressError struct{ error }

func checkDial(address string, networks []netip.Prefix) error {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return &AddressError{fmt.Errorf("%s is no address: %w", address, err)}
	}
	ip := parsed.Addr().Unmap().WithZone("")
	if err := CheckAddress(ip); err != nil {
		return &AddressError{err}
	}
	for _, network := range networks {
		if network.Contains(ip) {
			return nil
		}
	}
	if len(networks) > 0 {
		return &AddressError{fmt.Errorf("%s is in none of the allowed networks", ip)}
	}
	return nil
}

// ReadToken reads the agents' token; empty where none is configured.
func (c ClientConfig) ReadToken() (config.Secret, error) {
	if c.TokenFile == "" {
		return "", nil
	}
	return config.ReadSecretFile("http.tokenFile", c.TokenFile)
}

// Refused tells that the address itself is not allowed.
func Refused(err error) bool {
	var refused *AddressError
	return errors.As(err, &refused)
}

// Background is how long work that outlives its request may take.
const Background = 5 * time.Second

// Detached is a context for such work.
func Detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), Background)
}
