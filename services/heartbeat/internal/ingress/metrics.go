package ingress

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// Metrics are the ingress's own.
type Metrics struct {
	Calls            *prometheus.CounterVec
	Busy             *prometheus.CounterVec
	Heartbeats       *prometheus.CounterVec
	Lag              prometheus.Histogram
	Batch            prometheus.Histogram
	Registry         prometheus.Histogram
	RegistryFailures prometheus.Counter
	Canary           prometheus.Gauge

	registerer prometheus.Registerer
}

// NewMetrics registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		registerer: registerer,
		Calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_ingress_calls_total", Help: "Calls of agents that keep the fields' rules, by what they were answered.",
		}, []string{"method", "reason"}),
		Busy: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_ingress_busy_total", Help: "Calls that were answered BUSY, by what there was too much of.",
		}, []string{"cause"}),
		Heartbeats: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_ingress_heartbeats_total", Help: "Heartbeats the registry answered, by what they did.",
		}, []string{"result"}),
		Lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "commandcenter_ingress_lag_seconds", Help: "From a heartbeat's arrival to the registry's answer.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		Batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "commandcenter_ingress_batch_heartbeats", Help: "Heartbeats recorded at once.", Buckets: []float64{1, 2, 5, 10, 25, 50, 100, 250, 500},
		}),
		Registry: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "commandcenter_ingress_registry_duration_seconds", Help: "Time the registry took to answer for a batch, or to fail.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		RegistryFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "commandcenter_ingress_registry_failures_total", Help: "Calls by which the registry took no heartbeats; their agents try again.",
		}),
		Canary: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "commandcenter_ingress_canary_round_trip_seconds", Help: "Way of the newest canary from the own listener to the registry and back.",
		}),
	}
	registerer.MustRegister(m.Calls, m.Busy, m.Heartbeats, m.Lag, m.Batch, m.Registry, m.RegistryFailures, m.Canary)
	return m
}

func (m *Metrics) gauge(name, help string, value func() float64) {
	m.registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// pending shows how many calls wait.
func (m *Metrics) pending(value func() float64) {
	m.gauge("commandcenter_ingress_pending_calls", "Heartbeats that wait to be recorded and answered.", value)
}

// agents shows how many agents were served lately.
func (m *Metrics) agents(value func() float64) {
	m.gauge("commandcenter_ingress_agents", "Agents served lately.", value)
}

// takesAgents shows whether agents are taken.
func (m *Metrics) takesAgents(value func() bool) {
	m.gauge("commandcenter_ingress_takes_agents", "1 while agents are taken: neither draining, nor in maintenance, nor refused by the cloud.", func() float64 {
		if value() {
			return 1
		}
		return 0
	})
}

// answered counts what a call was answered.
func (m *Metrics) answered(method string, err error) {
	reason := "OK"
	if err != nil {
		reason = string(fault.From(err).Reason)
	}
	m.Calls.WithLabelValues(method, reason).Inc()
}

// busy is the answer to a call that is to come again after a delay.
func (m *Metrics) busy(cause string, delay time.Duration, why string) *fault.Error {
	m.Busy.WithLabelValues(cause).Inc()
	return fault.New(fault.Busy, "%s; nothing was changed. Try again in %s", why, delay.Round(time.Millisecond)).WithRetry(delay)
}

func label(result registryv1.HeartbeatResult) string {
	return strings.ToLower(strings.TrimPrefix(result.String(), "HEARTBEAT_RESULT_"))
}
