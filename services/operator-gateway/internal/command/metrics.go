package command

import "github.com/prometheus/client_golang/prometheus"

// Metrics are those of commands.
type Metrics struct {
	Commands *prometheus.CounterVec
	Duration *prometheus.HistogramVec
	InFlight prometheus.Gauge
}

// NewMetrics registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		Commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_gateway_commands_total", Help: "Commands, by operation, transport and outcome.",
		}, []string{"operation", "transport", "outcome"}),
		Duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "commandcenter_gateway_command_duration_seconds", Help: "Time from request to answer, by transport.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"transport"}),
		InFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "commandcenter_gateway_commands_in_flight", Help: "Commands under way.",
		}),
	}
	registerer.MustRegister(m.Commands, m.Duration, m.InFlight)
	return m
}
