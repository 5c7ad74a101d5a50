package e2e

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/commandcenter/fleet/agent/storm"
	"github.com/commandcenter/fleet/services/availability"
	"github.com/commandcenter/fleet/services/registry"
)

// outage is one of control servers, with the agents' own decisions, the registry's own bounds and the verdicts' own rules, in virtual time.
type outage struct {
	storm.Scenario
	returns registry.ReturnsConfig
}

// allAway is all of the control servers away for so long.
func allAway(agents, servers int, length time.Duration, fault storm.Fault) outage {
	returns := registry.DefaultConfig().Returns
	return outage{returns: returns, Scenario: storm.Scenario{
		Agents: agents, Servers: servers, Failing: servers, Outage: length, Fault: fault, LongestPause: returns.LongestPause, Watch: length + 20*time.Minute,
	}}
}

// offline plays the outage for a fleet with one server more, which dies with the control servers. It gives how many of those that live were turned
// offline, and how long after the end of the outage the dead one was.
func (o outage) offline(t *testing.T) (living int, dead time.Duration) {
	t.Helper()
	var heard []availability.RehearsedHeartbeat
	o.Heard = func(agent int, at time.Duration) {
		heard = append(heard, availability.RehearsedHeartbeat{Server: agent, At: at})
	}
	if _, err := storm.Run(o.Scenario); err != nil {
		t.Fatal(err)
	}
	dies := o.Agents
	for at := 10 * time.Second; at < storm.FailsAt; at += 30 * time.Second {
		heard = append(heard, availability.RehearsedHeartbeat{Server: dies, At: at})
	}
	slices.SortStableFunc(heard, func(a, b availability.RehearsedHeartbeat) int { return cmp.Compare(a.At, b.At) })
	ended := storm.FailsAt + o.Outage
	went := availability.DefaultConfig().Rehearse(availability.Rehearsal{
		Servers: o.Agents + 1, Heard: heard, Evidence: o.evidence, Until: storm.FailsAt + o.Watch,
	})
	dead = -1
	for _, one := range went {
		if one.Server == dies {
			dead = one.At - ended
		} else {
			living++
		}
	}
	return living, dead
}

// evidence is what the registry tells meanwhile: healthy again with the first control server that is back.
func (o outage) evidence(at time.Duration) availability.RehearsedEvidence {
	silent := o.StayAway
	told := availability.RehearsedEvidence{Healthy: true, Since: -time.Hour, Displaced: at >= storm.FailsAt && (silent > 0 || o.Failing < o.Servers), DisplacedAt: storm.FailsAt}
	if o.Failing < o.Servers {
		silent = o.Failing
	} else if at >= storm.FailsAt {
		told.Healthy, told.Since = at >= storm.FailsAt+o.Outage, storm.FailsAt+o.Outage
	}
	told.LongestReturn, told.LongestFailover = o.returns.AfterOutage(silent), o.returns.AfterLoss(silent)
	return told
}

func TestI11_NoServerGoesOfflineWhoseAgentCouldNotReportYet(t *testing.T) {
	partly := allAway(300, 3, 10*time.Minute, storm.Unreachable)
	partly.StayAway = 2
	crowded := allAway(20_000, 3, 10*time.Minute, storm.Killed)
	crowded.AdmitPerSecond = 200
	lost := allAway(2000, 50, 0, storm.Unreachable)
	lost.Failing = 20
	before := allAway(300, 3, 10*time.Minute, storm.Killed) // agents of the release before, which are not told
	before.LongestPause, before.BackoffIntervalMax = 0, 2*time.Minute
	for name, o := range map[string]outage{
		"300 agents of the release before":                     before,
		"300 agents, 3 control servers killed for 10 min":      allAway(300, 3, 10*time.Minute, storm.Killed),
		"300 agents, 3 control servers unreachable for 10 min": allAway(300, 3, 10*time.Minute, storm.Unreachable),
		"300 agents, 3 control servers away for 3 min":         allAway(300, 3, 3*time.Minute, storm.Killed),
		"2,000 agents, 20 control servers away for an hour":    allAway(2000, 20, time.Hour, storm.Unreachable),
		"two of three control servers stay away":               partly,
		"20,000 agents that are let in by turns":               crowded,
		"20 of 50 control servers are lost at once":            lost,
	} {
		t.Run(name, func(t *testing.T) {
			seeds := uint64(1 + 3000/o.Agents)
			for o.Seed = range seeds {
				living, dead := o.offline(t)
				if living > 0 {
					t.Errorf("seed %d: %d servers went offline whose agents live", o.Seed, living)
				}
				if dead < 0 || o.StayAway == 0 && dead > 5*time.Minute {
					t.Errorf("seed %d: the dead one went offline %s after the outage", o.Seed, dead)
				}
			}
		})
	}
}

// The simulation would show it if the freeze did not cover what agents may wait.
func TestI11_AShorterFreezeWouldTurnLivingServersOffline(t *testing.T) {
	o := allAway(300, 3, 10*time.Minute, storm.Killed)
	o.LongestPause, o.BackoffIntervalMax, o.returns = 0, 2*time.Minute, registry.ReturnsConfig{LongestPause: time.Millisecond, BusReconnect: time.Millisecond}
	total := 0
	for o.Seed = range 10 {
		living, _ := o.offline(t)
		total += living
	}
	if total == 0 {
		t.Error("none went offline, so that the test above shows nothing")
	}
	t.Logf("%d of 3,000", total)
}
