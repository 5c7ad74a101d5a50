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
	Lag              prometheus.Histogram
	Batch            prometheus.Histogram
	SettleFailures   prometheus.Counter
	RegistryFailures prometheus.Counter
	Canary           prometheus.Gauge
}

// NewMetrics registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		Heartbeats: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_ingest_heartbeats_total", Help: "Heartbeats the registry answered, by what they did.",
		}, []string{"result"}),
		DeadLettered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_ingest_dead_lettered_total", Help: "Heartbeats that were dead-lettered, by reason.",
		}, []string{"reason"}),
		Lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "commandcenter_ingest_lag_seconds", Help: "From the broker's enqueue time to the registry's answer.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
		Batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "commandcenter_ingest_batch_messages", Help: "Messages received at once.", Buckets: []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000},
		}),
		SettleFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "commandcenter_ingest_settle_failures_total", Help: "Messages that could not be settled, and come again.",
		}),
		RegistryFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "commandcenter_ingest_registry_failures_total", Help: "Calls the registry did not answer; the heartbeats were held.",
		}),
		Canary: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "commandcenter_ingest_canary_round_trip_seconds", Help: "Way of the newest canary through the whole ingest.",
		}),
	}
	registerer.MustRegister(m.Heartbeats, m.DeadLettered, m.Lag, m.Batch, m.SettleFailures, m.RegistryFailures, m.Canary)
	return m
}

func label(result registryv1.HeartbeatResult) string {
	return strings.ToLower(strings.TrimPrefix(result.String(), "HEARTBEAT_RESULT_"))
}
