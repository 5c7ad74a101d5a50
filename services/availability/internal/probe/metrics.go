package probe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

// Metrics are those of probes.
type Metrics struct {
	Probes   *prometheus.CounterVec
	Round    prometheus.Histogram
	InFlight prometheus.Gauge
	Most     prometheus.Gauge
}

// NewMetrics registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		Probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_availability_probes_total", Help: "Probes of agents that are only probed, by outcome; unfinished ones show nothing.",
		}, []string{"outcome"}),
		Round: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "commandcenter_availability_probe_round_duration_seconds", Help: "Time of a round of probes.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 7.5, 10, 12.5, 15, 20, 30},
		}),
		InFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "commandcenter_availability_probes_in_flight", Help: "Probes under way.",
		}),
		Most: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "commandcenter_availability_probes_in_flight_max", Help: "Most probes under way at once in the last round; at probes.parallel, probes wait for each other.",
		}),
	}
	registerer.MustRegister(m.Probes, m.Round, m.InFlight, m.Most)
	return m
}

var outcomes = [...]string{verdict.Unfinished: "unfinished", verdict.Succeeded: "succeeded", verdict.Failed: "failed"}

// observe notes a round.
func (m *Metrics) observe(probes []verdict.Probe, took time.Duration) {
	for _, probe := range probes {
		m.Probes.WithLabelValues(outcomes[probe.Outcome]).Inc()
	}
	m.Round.Observe(took.Seconds())
}
