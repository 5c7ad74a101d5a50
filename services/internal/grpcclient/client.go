// Package grpcclient dials services of ours: no retries, a deadline on every unary call, our token and the request id with it.
package grpcclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/loopback"
)

const (
	defaultDeadline = 10 * time.Second
	// tokenCheckInterval is how often the token file is looked at again.
	tokenCheckInterval = 10 * time.Second
)

// Config says which service is called and how.
type Config struct {
	// Target is host:port, or a gRPC name such as dns:///registry:7410.
	Target string `config:"target"`
	// CAFile holds the certificates to trust, PEM. Empty: the system's.
	CAFile string `config:"caFile"`
	// Plaintext calls without TLS beyond loopback, where the network itself protects the traffic.
	Plaintext bool `config:"plaintext"`
	// TokenFile holds the bearer token to present; empty for none.
	TokenFile string `config:"tokenFile"`
}

// Validate checks the settings; errors name the keys under prefix.
func (c Config) Validate(prefix string) error {
	var problems config.Problems
	if host, port, err := net.SplitHostPort(c.address()); err != nil || host == "" || !isPort(port) {
		problems.Add(prefix+".target", "must be host:port or dns:///host:port; is %q", c.Target)
	}
	if c.Plaintext && c.CAFile != "" {
		problems.Add(prefix+".plaintext", "contradicts %s.caFile: without TLS no certificate is checked", prefix)
	}
	if c.CAFile != "" {
		if _, err := readPool(c.CAFile); err != nil {
			problems.Add(prefix+".caFile", "%v", err)
		}
	}
	if c.TokenFile != "" {
		_, err := config.ReadSecretFile(prefix+".tokenFile", c.TokenFile)
		problems.AddError(err)
	}
	return problems.Err()
}

func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

// address is the target's host:port.
func (c Config) address() string { return strings.TrimPrefix(c.Target, "dns:///") }

// Dial prepares the connection; it is made with the first call, and made again whenever it is lost.
func Dial(cfg Config) (*grpc.ClientConn, error) {
	options := []grpc.DialOption{
		grpc.WithDisableRetry(),
		// What is done with calls is decided here, not by a record in the name service.
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		// Servers cut off clients that ping more often than every five minutes by default.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 5 * time.Minute, Timeout: 20 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnectBackoff, MinConnectTimeout: 5 * time.Second}),
		grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream),
	}
	transport, err := cfg.credentials()
	if err != nil {
		return nil, err
	}
	options = append(options, grpc.WithTransportCredentials(transport))
	if cfg.TokenFile != "" {
		options = append(options, grpc.WithPerRPCCredentials(&bearer{path: cfg.TokenFile, secure: transport.Info().SecurityProtocol == "tls"}))
	}
	return grpc.NewClient(cfg.Target, options...)
}

func (c Config) credentials() (credentials.TransportCredentials, error) {
	local, _ := loopback.Is(c.address())
	if c.Plaintext || (local && c.CAFile == "") {
		return insecure.NewCredentials(), nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pool, err := readPool(c.CAFile)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = pool
	}
	return credentials.NewTLS(cfg), nil
}

func readPool(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", path)
	}
	return pool, nil
}

func unary(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx = withRequestID(ctx)
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultDeadline)
		defer cancel()
	}
	return invoke(ctx, method, request, reply, conn, opts...)
}

func stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return open(withRequestID(ctx), desc, conn, method, opts...)
}

func withRequestID(ctx context.Context) context.Context {
	if id := grpcserver.RequestID(ctx); id != "" {
		return metadata.AppendToOutgoingContext(ctx, grpcserver.RequestIDHeader, id)
	}
	return ctx
}

// bearer presents the token in a file, read again now and then so that it can be changed without a restart.
type bearer struct {
	path   string
	secure bool

	mu     sync.Mutex
	token  config.Secret
	readAt time.Time
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b *bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.readAt) > tokenCheckInterval {
		fresh, err := config.ReadSecretFile("tokenFile", b.path)
		if err != nil && b.token == "" {
			return nil, err
		}
		if err == nil {
			b.token = fresh
		}
		b.readAt = time.Now()
	}
	if strings.ContainsAny(b.token.Reveal(), "\r\n") {
		return nil, errors.New("tokenFile: the token must be one line")
	}
	return map[string]string{"authorization": "Bearer " + b.token.Reveal()}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (b *bearer) RequireTransportSecurity() bool { return b.secure }
