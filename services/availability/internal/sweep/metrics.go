package sweep

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

// result is how a sweep ended.
type result string

const (
	done                result = "done"
	registryUnreachable result = "registry_unreachable"
	leaseLost           result = "lease_lost"
	databaseFailed      result = "database"
)

// Metrics are those of the job. All but the lease are of this replica's own sweeps.
type Metrics struct {
	held          prometheus.Gauge
	sweptAt       prometheus.Gauge
	sweeps        *prometheus.CounterVec
	duration      prometheus.Histogram
	frozenSince   *prometheus.GaugeVec
	brakedSince   *prometheus.GaugeVec
	heldServers   *prometheus.GaugeVec
	servers       *prometheus.GaugeVec
	disagreements prometheus.Gauge
	transitions   *prometheus.CounterVec
	secondWriter  prometheus.Counter
}

// NewMetrics registers the job's metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	make := promauto.With(registerer)
	m := &Metrics{
		held:    make.NewGauge(prometheus.GaugeOpts{Name: "commandcenter_availability_lease_held", Help: "Whether this replica holds the job's lease (1) or not (0)."}),
		sweptAt: make.NewGauge(prometheus.GaugeOpts{Name: "commandcenter_availability_last_sweep_timestamp_seconds", Help: "When this replica last finished a sweep, Unix time."}),
		sweeps: make.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_availability_sweeps_total", Help: "Sweeps by result: done, registry_unreachable (only maintenance was applied), lease_lost or database (nothing was written).",
		}, []string{"result"}),
		duration: make.NewHistogram(prometheus.HistogramOpts{
			Name: "commandcenter_availability_sweep_duration_seconds", Help: "How long sweeps took, reading and writing included.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 12),
		}),
		frozenSince: make.NewGaugeVec(prometheus.GaugeOpts{
			Name: "commandcenter_availability_path_frozen_since_timestamp_seconds", Help: "Since when a path has been frozen, Unix time; absent when it is not.",
		}, []string{"path", "reason"}),
		brakedSince: make.NewGaugeVec(prometheus.GaugeOpts{
			Name: "commandcenter_availability_path_braked_since_timestamp_seconds", Help: "Since when a path's brake has held, Unix time; absent when it does not.",
		}, []string{"path"}),
		heldServers: make.NewGaugeVec(prometheus.GaugeOpts{
			Name: "commandcenter_availability_held_servers", Help: "Servers that stay online only because they are held.",
		}, []string{"path", "why"}),
		servers: make.NewGaugeVec(prometheus.GaugeOpts{
			Name: "commandcenter_availability_servers", Help: "Servers by verdict and by what Online is decided to be.",
		}, []string{"verdict", "online"}),
		disagreements: make.NewGauge(prometheus.GaugeOpts{
			Name: "commandcenter_availability_disagreements", Help: "Servers whose Online is not what is decided, in mode observe.",
		}),
		transitions: make.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_availability_transitions_total", Help: "Changes of Online that were written.",
		}, []string{"to", "reason"}),
		secondWriter: make.NewCounter(prometheus.CounterOpts{
			Name: "commandcenter_availability_second_writer_total", Help: "Changes of Online that another writer made.",
		}),
	}
	// From the start at zero, or the first increase would not be seen as one.
	for _, how := range []result{done, registryUnreachable, leaseLost, databaseFailed} {
		m.sweeps.WithLabelValues(string(how))
	}
	for _, reason := range []verdict.Reason{
		verdict.HeartbeatSilent, verdict.ProbeFailed, verdict.AgentRemoved, verdict.AgentRejected, verdict.InMaintenance,
	} {
		m.transitions.WithLabelValues("offline", string(reason))
	}
	return m
}

func (m *Metrics) holds(held bool) {
	if held {
		m.held.Set(1)
		return
	}
	m.held.Set(0)
	for _, vector := range []*prometheus.GaugeVec{m.frozenSince, m.brakedSince, m.heldServers, m.servers} {
		vector.Reset() // the next holder tells
	}
	m.disagreements.Set(0)
}

func (m *Metrics) swept(how result, took time.Duration) {
	m.sweeps.WithLabelValues(string(how)).Inc()
	m.duration.Observe(took.Seconds())
	if how == done || how == registryUnreachable {
		m.sweptAt.SetToCurrentTime()
	}
}

// judged shows one sweep's outcomes.
func (m *Metrics) judged(fleet store.Fleet, out verdict.Outcomes) {
	for _, vector := range []*prometheus.GaugeVec{m.frozenSince, m.brakedSince, m.heldServers, m.servers} {
		vector.Reset()
	}
	for path, status := range out.Paths {
		name := verdict.Path(path).String()
		if status.Blind != verdict.NotBlind {
			m.frozenSince.WithLabelValues(name, string(status.Blind)).Set(float64(out.State[path].FrozenSince.Unix()))
		}
		if status.Braked {
			m.brakedSince.WithLabelValues(name).Set(float64(out.State[path].Brake.Since.Unix()))
		}
	}
	for _, held := range out.Held {
		m.heldServers.WithLabelValues(held.HeldPath.String(), string(held.Held)).Inc()
	}
	stored := make(map[int64]bool, len(fleet.Servers))
	for i := range fleet.Servers {
		stored[fleet.Servers[i].Key] = fleet.Servers[i].Online
	}
	disagreements := 0
	counts := map[[2]string]float64{}
	for _, status := range out.Statuses {
		online := "false"
		if status.Online {
			online = "true"
		}
		counts[[2]string{status.Verdict.Availability.String(), online}]++
		if stored[status.Key] != status.Online {
			disagreements++
		}
	}
	for labels, count := range counts {
		m.servers.WithLabelValues(labels[0], labels[1]).Set(count)
	}
	m.disagreements.Set(float64(disagreements))
}
