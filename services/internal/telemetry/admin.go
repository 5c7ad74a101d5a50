package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
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

// Check is one thing that readiness looks at.
type Check struct {
	Name string
	// Problem returns what is wrong; nil when nothing is. What it says is shown to all who ask.
	Problem func() error
	// Informs marks a check that only /readyz?verbose shows. It does not decide.
	Informs bool
}

// Readiness is what /readyz answers from, and the metric commandcenter_check_passed. A new one says that the service is starting.
type Readiness struct {
	service string

	mu      sync.Mutex
	waiting error
	checks  []Check
}

// NewReadiness makes one, and registers its metric.
func NewReadiness(service string, metrics prometheus.Registerer) *Readiness {
	r := &Readiness{service: service}
	metrics.MustRegister(r)
	return r
}

var passed = prometheus.NewDesc("commandcenter_check_passed",
	"1 while a check of a service passes, else 0: what readiness depends on, and what it does not. Before the service serves there is only the check start.",
	[]string{"service", "check"}, nil)

// Describe implements prometheus.Collector.
func (r *Readiness) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- passed }

// Collect implements prometheus.Collector.
func (r *Readiness) Collect(metrics chan<- prometheus.Metric) {
	for _, check := range r.now() {
		value := 1.0
		if check.Problem() != nil {
			value = 0
		}
		metrics <- prometheus.MustNewConstMetric(passed, prometheus.GaugeValue, value, r.service, check.Name)
	}
}

// Waiting says why the service does not serve yet.
func (r *Readiness) Waiting(problem error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = problem
}

// Serve ends the start: from now on the checks decide.
func (r *Readiness) Serve(checks ...Check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks = append([]Check{}, checks...) // without any it serves too
}

var errStarting = errors.New("starting")

func (r *Readiness) now() []Check {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.checks != nil {
		return r.checks
	}
	problem := cmp.Or(r.waiting, errStarting)
	return []Check{{Name: "start", Problem: func() error { return problem }}}
}

// ServeHTTP answers 200, or 503 with what is wrong. With ?verbose it shows every check, one a line.
func (r *Readiness) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var problems, lines []string
	for _, check := range r.now() {
		err := check.Problem()
		switch {
		case err == nil:
			lines = append(lines, "[+] "+check.Name+": ok")
		case check.Informs:
			lines = append(lines, "[-] "+check.Name+": "+err.Error()+" (readiness does not depend on it)")
		default:
			lines = append(lines, "[-] "+check.Name+": "+err.Error())
			problems = append(problems, err.Error())
		}
	}
	if len(problems) == 0 {
		lines = append(lines, "ok")
	}
	if !request.URL.Query().Has("verbose") {
		lines = problems
		if len(problems) == 0 {
			lines = []string{"ok"}
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if len(problems) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprintln(w, strings.Join(lines, "\n"))
}

// NewAdmin listens. Readiness answers /readyz.
func NewAdmin(cfg AdminConfig, metrics *prometheus.Registry, readiness *Readiness) (*Admin, error) {
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
	mux.Handle("GET /readyz", readiness)
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
