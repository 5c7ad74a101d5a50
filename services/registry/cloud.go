package registry

import (
	"time"

	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
)

// CloudConfig holds the times of the cloud of control servers; the same in all replicas.
type CloudConfig struct {
	// Debounce is how long changes are gathered before agents are spread anew. 0 to 1 min.
	Debounce time.Duration `config:"debounce"`
	// LeaseTimeout is without a renewal, which come every 5 s, until a control server is suspect. 1 s to 5 min.
	LeaseTimeout time.Duration `config:"leaseTimeout"`
	// EvictionGrace is without a renewal until a control server leaves the lists. Longer than LeaseTimeout and FreezeInterval, at most 24 h.
	EvictionGrace time.Duration `config:"evictionGrace"`
	// DrainGrace is how long a control server in maintenance goes on serving after it left the lists. 1 s to 24 h; agents get a new list with
	// their next heartbeat.
	DrainGrace time.Duration `config:"drainGrace"`
	// FreezeInterval is the time within which more than half must have fallen silent for evictions to be held. 1 s to 1 h.
	FreezeInterval time.Duration `config:"freezeInterval"`
}

func defaultCloudConfig() CloudConfig {
	limits := cloud.DefaultLimits()
	return CloudConfig{
		Debounce: 5 * time.Second, LeaseTimeout: limits.LeaseTimeout, EvictionGrace: limits.EvictionGrace,
		DrainGrace: limits.DrainGrace, FreezeInterval: limits.FreezeInterval,
	}
}

func (c CloudConfig) limits() cloud.Limits {
	return cloud.Limits{LeaseTimeout: c.LeaseTimeout, FreezeInterval: c.FreezeInterval, EvictionGrace: c.EvictionGrace, DrainGrace: c.DrainGrace}
}

func (c CloudConfig) validate(problems *config.Problems) {
	for _, bound := range []struct {
		key                string
		value, least, most time.Duration
	}{
		{"cloud.debounce", c.Debounce, 0, time.Minute},
		{"cloud.leaseTimeout", c.LeaseTimeout, time.Second, 5 * time.Minute},
		{"cloud.drainGrace", c.DrainGrace, time.Second, 24 * time.Hour},
		{"cloud.freezeInterval", c.FreezeInterval, time.Second, time.Hour},
		{"cloud.evictionGrace", c.EvictionGrace, max(c.LeaseTimeout, c.FreezeInterval) + 1, 24 * time.Hour},
	} {
		if bound.value < bound.least || bound.value > bound.most {
			problems.Add(bound.key, "must be %s to %s, is %s", bound.least, bound.most, bound.value)
		}
	}
}
