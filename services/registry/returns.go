package registry

import (
	"time"

	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
)

// ReturnsConfig says how long an agent that lives may be away after an outage; the same in all replicas. Availability reads it with the fleet, and
// turns no server offline for silence earlier.
type ReturnsConfig struct {
	// LongestPause bounds the pauses of direct agents while no control server takes their heartbeats; it goes to them with their lists. 100 ms to
	// 10 min, default 1 min. A shorter one counts for agents that were told; shorten it while they are heard.
	LongestPause time.Duration `config:"longestPause"`
	// BusReconnect bounds how long an agent on Service Bus needs to see that its connection is dead, and to make another. 100 ms to 10 min,
	// default 70 s: the idle timeout of AMQP connections, and a try to send.
	BusReconnect time.Duration `config:"busReconnect"`
}

func defaultReturnsConfig() ReturnsConfig {
	usual := cloud.DefaultReturns()
	return ReturnsConfig{LongestPause: usual.LongestPause, BusReconnect: usual.BusReconnect}
}

func (c ReturnsConfig) returns() cloud.Returns {
	return cloud.Returns{LongestPause: c.LongestPause, BusReconnect: c.BusReconnect}
}

// AfterOutage bounds how long a direct agent needs until it is heard again after an outage of all control servers, of which so many stay silent.
func (c ReturnsConfig) AfterOutage(silent int) time.Duration {
	return c.returns().AfterOutage(cloud.Displacement{Silent: silent})
}

// AfterLoss bounds how long a direct agent needs to find another control server after so many fell silent at once.
func (c ReturnsConfig) AfterLoss(silent int) time.Duration {
	return c.returns().AfterLoss(cloud.Displacement{Silent: silent})
}

func (c ReturnsConfig) validate(problems *config.Problems) {
	const least, most = 100 * time.Millisecond, 10 * time.Minute
	for _, bound := range []struct {
		key   string
		value time.Duration
	}{{"returns.longestPause", c.LongestPause}, {"returns.busReconnect", c.BusReconnect}} {
		if bound.value < least || bound.value > most {
			problems.Add(bound.key, "must be %s to %s, is %s", least, most, bound.value)
		}
	}
}
