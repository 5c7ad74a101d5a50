package ingress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/commandcenter/fleet/services/internal/grpcserver"
	"github.com/commandcenter/fleet/services/internal/restserver"
)

// DrainGrace is how long calls under way may go on at the stop: a call of 10 s to the registry, and the way back.
const DrainGrace = 15 * time.Second

// Front is the REST listener.
type Front struct {
	listener net.Listener
	server   *http.Server
}

// NewFront listens.
func NewFront(listen string, tls grpcserver.TLSConfig, handler http.Handler, logger *slog.Logger) (*Front, error) {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler: handler, TLSConfig: tls.Config(), MaxHeaderBytes: 16 << 10,
		// An agent's connection is idle between two heartbeats, at least 30 s.
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 3 * time.Minute,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	return &Front{listener: restserver.Listen(server, listener, logger), server: server}, nil
}

// Addr is where it listens.
func (f *Front) Addr() string { return f.listener.Addr().String() }

// Close ends a front that will not run; after Run it does nothing.
func (f *Front) Close() { f.listener.Close() }

// Run serves until the context ends; requests under way are answered first.
func (f *Front) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(f.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("rest: %w", err)
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), DrainGrace)
	defer cancel()
	if err := f.server.Shutdown(draining); err != nil {
		return errors.Join(fmt.Errorf("rest: requests still under way were cut off: %w", err), f.server.Close())
	}
	return nil
}
