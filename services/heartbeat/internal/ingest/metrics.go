package ingest

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// Metrics are the ingest's own.
type Metrics struct {
	Heartbeats       *prometheus.CounterVec
	DeadLettered     *prometheus.CounterVec
	SettleFailures   *prometheus.CounterVec
	Lag              prometheus.Histogram
	Batch            prometheus.Histogram
	Registry         prometheus.Histogram
	RegistryFailures prometheus.Counter
	Held             prometheus.Gauge
	Canary           prometheus.Gauge
}

// NewMetrics registers them. Recreated counts the receivers that were made anew.
func NewMetrics(registerer prometheus.Registerer, recreated func() int64) *Metrics {
	m := &Metrics{
		Heartbeats: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_ingest_heartbeats_total", Help: "Heartbeats the registry answered, by what they did.",
		}, []string{"result"}),
		DeadLettered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_ingest_dead_lettered_total", Help: "Heartbeats that were dead-lettered, by reason.",
		}, []string{"reason"}),
		SettleFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_ingest_settle_failures_total",
			Help: "Messages that come again because their lock had lapsed, or because settling failed.",
		}, []string{"cause"}),
		Lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "commandcenter_ingest_lag_seconds", Help: "From the broker's enqueue time to the registry's answer, by the broker's clock.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
		Batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "commandcenter_ingest_batch_messages", Help: "Messages handled at once.", Buckets: []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2000},
		}),
		Registry: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "commandcenter_ingest_registry_duration_seconds", Help: "Time the registry took to answer for a batch, or to fail.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		RegistryFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "commandcenter_ingest_registry_failures_total", Help: "Calls by which the registry took no heartbeats; they were tried again.",
		}),
		Held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "commandcenter_ingest_held_messages", Help: "Messages under way between receiving and settling.",
		}),
		Canary: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "commandcenter_ingest_canary_round_trip_seconds", Help: "Way of the newest canary through the whole ingest.",
		}),
	}
	registerer.MustRegister(m.Heartbeats, m.DeadLettered, m.SettleFailures, m.Lag, m.Batch, m.Registry, m.RegistryFailures, m.Held, m.Canary,
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "commandcenter_ingest_receiver_recreations_total", Help: "Receivers that were made anew after a lost link, or silence.",
		}, func() float64 { return float64(recreated()) }))
	return m
}

func label(result registryv1.HeartbeatResult) string {
	return strings.ToLower(strings.TrimPrefix(result.String(), "HEARTBEAT_RESULT_"))
}
