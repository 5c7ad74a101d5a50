package grpcserver

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/loopback"
)

// TLSConfig names a certificate and its key, both PEM. Empty: no TLS.
type TLSConfig struct {
	CertFile string `config:"certFile"`
	KeyFile  string `config:"keyFile"`
}

// ListenConfig says where a server listens and who may call.
type ListenConfig struct {
	// Listen is host:port.
	Listen string    `config:"listen"`
	TLS    TLSConfig `config:"tls"`
	// TokenFile holds the hashes of the callers' tokens. Without it only loopback is served.
	TokenFile string `config:"tokenFile"`
}

// Validate checks the listener; errors name the keys under prefix.
func (c ListenConfig) Validate(prefix string) error {
	var problems config.Problems
	local, err := loopback.Is(c.Listen)
	switch {
	case err != nil:
		problems.Add(prefix+".listen", "%v", err)
	case !local && c.TokenFile == "":
		problems.Add(prefix+".listen", "%s is beyond loopback and no authentication is configured: set %s.tokenFile, or listen on 127.0.0.1", c.Listen, prefix)
	}
	problems.AddError(c.TLS.Validate(prefix + ".tls"))
	return problems.Err()
}

// Validate checks that certificate and key come together and can be loaded.
func (c TLSConfig) Validate(prefix string) error {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return fmt.Errorf("%s: certFile and keyFile go together", prefix)
	}
	if c.CertFile == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile); err != nil {
		return fmt.Errorf("%s: %w", prefix, err)
	}
	return nil
}

// Config is what a listener needs; nil without TLS. The files are read again at each handshake, so that a renewed
// certificate is used without a restart; while they don't fit together, as in the middle of a renewal, the last good pair is.
func (c TLSConfig) Config() *tls.Config {
	if c.CertFile == "" {
		return nil
	}
	var lastGood atomic.Pointer[tls.Certificate]
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			if err == nil {
				lastGood.Store(&pair)
				return &pair, nil
			}
			if good := lastGood.Load(); good != nil {
				return good, nil
			}
			return nil, err
		},
	}
}
