package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/commandcenter/fleet/services/internal/loopback"
)

// AdminConfig says where metrics, liveness and readiness are served. They hold no secrets and change nothing.
type AdminConfig struct {
	// Listen is host:port.
	Listen string `config:"listen"`
	// AllowRemote lets it listen beyond loopback, as a scraper on another machine needs; it has no authentication.
	AllowRemote bool `config:"allowRemote"`
}

// Validate refuses an address beyond loopback unless that is asked for.
func (c AdminConfig) Validate(key string) error {
	local, err := loopback.Is(c.Listen)
	if err != nil {
		return fmt.Errorf("%s.listen: %w", key, err)
	}
	if !local && !c.AllowRemote {
		return fmt.Errorf("%s.listen: %s is beyond loopback and metrics have no authentication; set %s.allowRemote to true if that is meant", key, c.Listen, key)
	}
	return nil
}

// NewMetrics makes a registry that has the metrics of the Go runtime and the process.
func NewMetrics() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// Admin serves /metrics, /livez and /readyz.
type Admin struct {
	listener net.Listener
	server   *http.Server
}

// NewAdmin listens. Ready says why the service is not ready; nil when it is. What it says is shown to whoever asks.
func NewAdmin(cfg AdminConfig, metrics *prometheus.Registry, ready func() error) (*Admin, error) {
	if err := cfg.Validate("admin"); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("admin.listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return &Admin{listener: listener, server: &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}}, nil
}

// Addr is where it listens.
func (a *Admin) Addr() string { return a.listener.Addr().String() }

// Run serves until the context ends.
func (a *Admin) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = a.server.Close() })
	defer stop()
	if err := a.server.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin: %w", err)
	}
	return nil
}
