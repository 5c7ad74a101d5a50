package registry_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/registry"
)

// What agents are told and what availability waits for come from one setting.
func TestI11_AvailabilityIsToldHowLongAgentsMayBeAway(t *testing.T) {
	const pause = 10 * time.Second
	returns := registry.ReturnsConfig{LongestPause: pause, BusReconnect: 20 * time.Second}
	c := serve(t, hasty, func(cfg *registry.Config) { cfg.Returns, cfg.Cloud.LeaseTimeout = returns, time.Second })
	path := func(which registryv1.HeartbeatPath) *registryv1.PathEvidence {
		head, _ := c.fleet(t)
		for _, one := range head.GetPaths() {
			if one.GetPath() == which {
				return one
			}
		}
		t.Fatal("the path is missing")
		return nil
	}
	if got := path(registryv1.HeartbeatPath_HEARTBEAT_PATH_BUS); got.GetLongestReturn().AsDuration() != returns.BusReconnect || got.GetDisplacedAt() != nil {
		t.Errorf("bus: %v", got)
	}
	if got := path(registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT); got.GetLongestReturn().AsDuration() != returns.AfterOutage(0) {
		t.Errorf("direct: %v, want %s", got, returns.AfterOutage(0))
	}
	until(t, "both control servers are listed", func() bool { // they renew until then: one that is suspect is not listed
		c.join(t, "cs-1", "cs-2")
		events, err := c.cloud.ListPartitionEvents(t.Context(), &registryv1.ListPartitionEventsRequest{PageSize: 10})
		if err != nil {
			t.Fatal(err)
		}
		listed := fmt.Sprint(events)
		return strings.Contains(listed, "cs-1") && strings.Contains(listed, "cs-2")
	})
	until(t, "both control servers are silent", func() bool {
		got := path(registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT)
		return got.GetDisplacedAt() != nil && got.GetLongestReturn().AsDuration() == returns.AfterOutage(2) &&
			got.GetLongestFailover().AsDuration() == returns.AfterLoss(2)
	})
}
