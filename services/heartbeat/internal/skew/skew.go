// Package skew measures how far clocks are from the database's, which the registry tells with its answers. Nothing is decided by these
// clocks; what is measured explains to people what they see.
package skew

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// Metrics are the newest measurements.
type Metrics struct {
	ahead, uncertainty *prometheus.GaugeVec
}

// NewMetrics registers them. They are absent until something was measured.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		ahead: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "commandcenter_heartbeat_clock_ahead_seconds", Help: "How far a clock is ahead of the database's, negative when behind: this host's own, and the broker's.",
		}, []string{"clock"}),
		uncertainty: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "commandcenter_heartbeat_clock_uncertainty_seconds", Help: "How far that may be wrong, either way.",
		}, []string{"clock"}),
	}
	registerer.MustRegister(m.ahead, m.uncertainty)
	return m
}

// Own measures this host's clock over a call that began and ended then, and whose answer tells the database's time; nil if it does not.
func (m *Metrics) Own(began, ended time.Time, database *timestamppb.Timestamp) *registryv1.ClockSkew {
	// Without their monotonic readings, so that a step of this host's clock shows.
	return m.measured("own", began.Round(0), ended.Round(0), database)
}

// Broker measures the broker's clock, which read from early to late during such a call.
func (m *Metrics) Broker(early, late time.Time, database *timestamppb.Timestamp) *registryv1.ClockSkew {
	return m.measured("broker", early, late, database)
}

func (m *Metrics) measured(clock string, early, late time.Time, database *timestamppb.Timestamp) *registryv1.ClockSkew {
	if !database.IsValid() || database.AsTime().Unix() == 0 {
		return nil // of a registry of the release before
	}
	half := max(0, late.Sub(early)/2)
	ahead := early.Add(half).Sub(database.AsTime())
	m.ahead.WithLabelValues(clock).Set(ahead.Seconds())
	m.uncertainty.WithLabelValues(clock).Set(half.Seconds())
	return &registryv1.ClockSkew{Ahead: durationpb.New(ahead), Uncertainty: durationpb.New(half)}
}
