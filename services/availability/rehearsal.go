package availability

import (
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

// Rehearsal is what the verdicts make of heartbeats over the direct path, in virtual time: the rules of the job without its database. All
// instants are durations after the beginning, at which every server is online and was just heard.
type Rehearsal struct {
	// Servers are as many as there are, each with an agent of its own.
	Servers int
	// Heard are the heartbeats, in order.
	Heard []RehearsedHeartbeat
	// Evidence is what the registry says about the direct path at an instant.
	Evidence func(at time.Duration) RehearsedEvidence
	// Until is when it ends.
	Until time.Duration
}

// RehearsedHeartbeat is one heartbeat of a server's agent.
type RehearsedHeartbeat struct {
	Server int // from 0 on
	At     time.Duration
}

// RehearsedEvidence is what the registry says about the direct path.
type RehearsedEvidence struct {
	Healthy         bool
	Since           time.Duration // when Healthy
	LongestReturn   time.Duration
	Displaced       bool
	DisplacedAt     time.Duration // when Displaced
	LongestFailover time.Duration
}

// RehearsedOffline is a server that was turned offline.
type RehearsedOffline struct {
	Server int
	At     time.Duration
}

// rehearsalBegins is the instant 0.
var rehearsalBegins = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Rehearse sweeps as the job with this configuration would, and gives every server that it would turn offline, with when.
func (c Config) Rehearse(r Rehearsal) []RehearsedOffline {
	servers := make([]verdict.Server, r.Servers)
	for i := range servers {
		servers[i] = verdict.Server{Key: int64(i + 1), BenefitManager: true, Online: true, Agent: verdict.Agent{Registration: verdict.Accepted, Linked: true}}
		servers[i].Agent.HeardAt[verdict.Direct] = rehearsalBegins
	}
	in := verdict.Input{Limits: c.limits(), RegistryAnswered: true, Servers: servers}
	var offline []RehearsedOffline
	heard, heardAt := r.Heard, rehearsalBegins
	for at := c.SweepInterval; at <= r.Until; at += c.SweepInterval {
		for len(heard) > 0 && heard[0].At <= at {
			heardAt = rehearsalBegins.Add(heard[0].At)
			servers[heard[0].Server].Agent.HeardAt[verdict.Direct] = heardAt
			heard = heard[1:]
		}
		in.Now = rehearsalBegins.Add(at)
		in.Evidence[verdict.Direct] = r.Evidence(at).evidence(in.Now, heardAt)
		out := verdict.Sweep(in)
		for _, change := range out.Changes {
			if servers[change.Key-1].Online = change.Online; !change.Online {
				offline = append(offline, RehearsedOffline{Server: int(change.Key - 1), At: at})
			}
		}
		in.State = out.State
	}
	return offline
}

func (e RehearsedEvidence) evidence(now, heardAt time.Time) verdict.Evidence {
	told := verdict.Evidence{ReportedAt: now, HeardAt: heardAt, LongestReturn: e.LongestReturn}
	if e.Healthy {
		told.HealthySince = rehearsalBegins.Add(e.Since)
	}
	if e.Displaced {
		told.DisplacedAt, told.LongestFailover = rehearsalBegins.Add(e.DisplacedAt), e.LongestFailover
	}
	return told
}
