package watch

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the feed's own.
type Metrics struct {
	watchers prometheus.Gauge
	tooSlow  prometheus.Counter
}

// NewMetrics registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		watchers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "commandcenter_availability_watchers", Help: "Watches that this replica serves.",
		}),
		tooSlow: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "commandcenter_availability_watches_too_slow_total", Help: "Watches ended because their reader was too slow.",
		}),
	}
	registerer.MustRegister(m.watchers, m.tooSlow)
	return m
}
