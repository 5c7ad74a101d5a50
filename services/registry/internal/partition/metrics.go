package partition

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// result is how a partition ended.
type result string

const (
	committed result = "committed"
	unchanged result = "unchanged" // it was asked for, and nobody had to move
	overtaken result = "overtaken" // another replica was first
	failed    result = "failed"
)

// Metrics are those of the job. Partitions and moves are this replica's own; the rest is the whole cloud's, as this replica last saw it.
type Metrics struct {
	servers    *prometheus.GaugeVec
	epoch      prometheus.Gauge
	frozen     prometheus.Gauge
	agents     *prometheus.GaugeVec
	partitions *prometheus.CounterVec
	duration   prometheus.Histogram
	moves      *prometheus.CounterVec

	lookFailures prometheus.Counter
}

// NewMetrics registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	make := promauto.With(registerer)
	m := &Metrics{
		servers: make.NewGaugeVec(prometheus.GaugeOpts{Name: "commandcenter_registry_control_servers", Help: "Control servers, by state."}, []string{"state"}),
		epoch:   make.NewGauge(prometheus.GaugeOpts{Name: "commandcenter_registry_partition_epoch", Help: "Epoch of the last partition."}),
		frozen: make.NewGauge(prometheus.GaugeOpts{
			Name: "commandcenter_registry_evictions_frozen", Help: "Whether evictions are held (1), because more than half of the control servers fell silent at once.",
		}),
		agents: make.NewGaugeVec(prometheus.GaugeOpts{
			Name: "commandcenter_registry_control_server_agents", Help: "Agents by their primary control server; empty: they have none yet.",
		}, []string{"control_server"}),
		partitions: make.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_registry_partitions_total",
			Help: "Partitions by result: committed, unchanged, overtaken (another replica was first) or failed (tried again).",
		}, []string{"result"}),
		duration: make.NewHistogram(prometheus.HistogramOpts{
			Name: "commandcenter_registry_partition_duration_seconds", Help: "How long partitions took, reading and writing included.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}),
		moves: make.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_registry_agents_moved_total", Help: "Agents that got their first primary (placed), another primary, or another secondary.",
		}, []string{"what"}),
		lookFailures: make.NewCounter(prometheus.CounterOpts{
			Name: "commandcenter_registry_cloud_look_failures_total", Help: "Looks at the control servers that failed, one a second while the database does not answer.",
		}),
	}
	// From the start at zero, or the first increase would not be seen as one.
	for _, how := range []result{committed, unchanged, overtaken, failed} {
		m.partitions.WithLabelValues(string(how))
	}
	for _, what := range []string{"placed", "primary", "secondary"} {
		m.moves.WithLabelValues(what)
	}
	return m
}

func (m *Metrics) looked(look store.Look) {
	counts := map[cloud.State]int{}
	for _, s := range look.Members {
		counts[s.State]++
	}
	for _, state := range []cloud.State{cloud.Normal, cloud.Suspect, cloud.Evicted, cloud.Draining, cloud.Maintenance} {
		m.servers.WithLabelValues(string(state)).Set(float64(counts[state]))
	}
	m.epoch.Set(float64(look.Epoch))
	m.frozen.Set(0)
	if look.Frozen() {
		m.frozen.Set(1)
	}
}

func (m *Metrics) counted(look store.Look, counts map[int64]int) {
	m.agents.Reset() // servers that were removed
	m.agents.WithLabelValues("").Set(float64(counts[0]))
	for _, s := range look.Members {
		m.agents.WithLabelValues(s.Name).Set(float64(counts[s.ID]))
	}
}

// ended counts a partition. What never came to one took no time.
func (m *Metrics) ended(how result, took time.Duration) {
	m.partitions.WithLabelValues(string(how)).Inc()
	if took > 0 {
		m.duration.Observe(took.Seconds())
	}
}

func (m *Metrics) moved(event cloud.Event) {
	m.moves.WithLabelValues("placed").Add(float64(event.Placed))
	m.moves.WithLabelValues("primary").Add(float64(event.PrimariesMoved))
	m.moves.WithLabelValues("secondary").Add(float64(event.SecondariesMoved))
}
