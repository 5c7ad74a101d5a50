package rpc

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// Metrics are the registry's own.
type Metrics struct {
	Heartbeats *prometheus.CounterVec
	Agents     *prometheus.GaugeVec
	// SuspectReceivers counts agents whose receiver of commands over the bus seems dead.
	SuspectReceivers prometheus.Gauge
	// Astray counts agents whose linked row is gone or has another name.
	Astray prometheus.Gauge
}

// NewMetrics registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		Heartbeats: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commandcenter_registry_heartbeats_total", Help: "Heartbeats answered, by what they did.",
		}, []string{"result"}),
		Agents: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "commandcenter_registry_agents", Help: "Agents, by registration state.",
		}, []string{"state"}),
		SuspectReceivers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "commandcenter_registry_agents_receiver_suspect", Help: "Agents that did not answer their last two or more commands over Service Bus.",
		}),
		Astray: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "commandcenter_registry_astray_agents", Help: "Agents whose linked row of TblServer is gone or has another name.",
		}),
	}
	registerer.MustRegister(m.Heartbeats, m.Agents, m.SuspectReceivers, m.Astray)
	return m
}

// SetStates sets the count of agents in every state.
func (m *Metrics) SetStates(counts map[enrollment.State]int64) {
	for _, state := range []enrollment.State{enrollment.Pending, enrollment.Accepted, enrollment.Rejected} {
		m.Agents.WithLabelValues(strings.ToLower(state.String())).Set(float64(counts[state]))
	}
}

func label(result registryv1.HeartbeatResult) string {
	return strings.ToLower(strings.TrimPrefix(result.String(), "HEARTBEAT_RESULT_"))
}
