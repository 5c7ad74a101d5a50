package operatorgateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/commandcenter/fleet/services/internal/restserver"
)

// front is the REST listener.
type front struct {
	listener net.Listener
	server   *http.Server
	grace    time.Duration
}

// newFront opens the listener. There is no ReadTimeout: it would go on after a request's body and end commands that take longer;
// the handler bounds the body's arrival itself.
func newFront(cfg Config) (*front, error) {
	listener, err := net.Listen("tcp", cfg.REST.Listen)
	if err != nil {
		return nil, fmt.Errorf("rest.listen: %w", err)
	}
	budget := max(cfg.Budgets.Read, cfg.Budgets.Write)
	server := &http.Server{
		TLSConfig: cfg.REST.TLS.Config(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		// From the end of the header: the body, the command, and an answer to a slow reader.
		WriteTimeout: budget + 2*time.Minute,
		ErrorLog:     slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn),
	}
	return &front{listener: restserver.Listen(server, listener, cfg.Logger), grace: budget + drainMargin, server: server}, nil
}

func (f *front) addr() string { return f.listener.Addr().String() }

// run serves until the context ends; requests under way are answered first.
func (f *front) run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(f.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("rest: %w", err)
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.grace)
	defer cancel()
	if err := f.server.Shutdown(draining); err != nil {
		return errors.Join(fmt.Errorf("rest: requests still under way were cut off: %w", err), f.server.Close())
	}
	return nil
}
