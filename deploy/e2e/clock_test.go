package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/commandcenter/fleet/deploy/story"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
)

// late is a broker's clock that is a minute behind.
type late struct{ broker.SystemClock }

func (c late) Now() time.Time { return c.SystemClock.Now().Add(-time.Minute) }

// With a broker whose clock is a minute behind, twenty times the maximum age, agents are heard, commands go over the bus, a server goes
// offline when its agent falls silent and not before, and the cause of anything odd is named.
func TestI11_AWrongBrokersClockTurnsNobodyOffline(t *testing.T) {
	system, client := availableSystemAt(t, late{})
	heard(t, story.World{Client: client}, other)
	accept(t, client, other)
	until(t, other+" is online", func() bool { return online(t, client, other) })
	until(t, "commands go over the bus", func() bool {
		return get(t, client, "/api/agents/"+other+"/route").Text("transport") == "TRANSPORT_SERVICE_BUS"
	})
	until(t, "the broker's clock is named", func() bool {
		return strings.Contains(get(t, client, "/api/availability/overview").Raw, "The broker's clock is 1m0")
	})
	if err := system.Fleet.Silence(other); err != nil {
		t.Fatal(err)
	}
	until(t, other+" is offline", func() bool { return !online(t, client, other) })
	route := get(t, client, "/api/agents/"+other+"/route")
	detail := route.Text("detail")
	if route.Text("refusal") != "HEARTBEAT_STALE" || !strings.Contains(detail, "the broker's clock is 1m0") ||
		!strings.Contains(detail, "ages do not depend on it, so the agent is silent all the same") {
		t.Error(route.Raw)
	}
}
