package verdict

import "time"

// evidenceTimeout is how old evidence may be; it comes every 5 s.
const evidenceTimeout = 15 * time.Second

// Evidence is the registry's proof that a path was listened to. Its zero value proves nothing.
type Evidence struct {
	ReportedAt   time.Time     // newest report; zero: none
	HealthySince time.Time     // without a gap; zero: not healthy, also if the backlog could not be peeked
	Backlog      time.Duration // age of the oldest message not yet ingested, locked ones included; 0: none
	HeardAt      time.Time     // newest heartbeat of any agent, whatever its registration; zero: none
	Broker       Skew          // of the broker's clock, as last measured; it decides nothing
	// LongestReturn is how long after HealthySince an agent that lives may need until it tries again; 0: the registry does not tell.
	LongestReturn time.Duration
	// DisplacedAt is since when agents look for another control server, since listed ones are silent; zero: none is. LongestFailover is how
	// long they may need for that.
	DisplacedAt     time.Time
	LongestFailover time.Duration
}

// Blindness is why a path proves nothing; empty: it does.
type Blindness string

// The kinds of blindness.
const (
	NotBlind        Blindness = ""
	NoRegistry      Blindness = "registry unreachable"
	NoEvidence      Blindness = "no evidence of ingest within 15 s"
	IngestDown      Blindness = "ingest not healthy"
	IngestRestarted Blindness = "ingest healthy for less than the maximum heartbeat age"
	AgentsReturning Blindness = "agents may still be on their way back"
	IngestBehind    Blindness = "backlog older than half of the maximum heartbeat age"
	NobodyHeard     Blindness = "nobody heard for two heartbeat intervals"
)

// blindness judges one path.
func (e Evidence) blindness(now time.Time, l Limits) Blindness {
	switch {
	case !freezesBlind:
		return NotBlind
	case now.Sub(e.ReportedAt) > evidenceTimeout:
		return NoEvidence
	case e.HealthySince.IsZero():
		return IngestDown
	case now.Sub(e.HealthySince) < l.MaxAge:
		return IngestRestarted
	case now.Before(e.returnedBy(l)):
		return AgentsReturning
	case e.Backlog > l.MaxAge/2:
		return IngestBehind
	case now.Sub(e.HeardAt) >= 2*l.HeartbeatInterval:
		return NobodyHeard
	}
	return NotBlind
}

// assumedReturn is what agents of the first release need, by their own longest pause: the registry that does not tell is of that release.
const assumedReturn = 2*time.Minute + 5*time.Second

// returnedBy is when every agent that lives has been heard again, unless it fails once more: those that were away while the path was not
// healthy, and those whose control servers fell silent meanwhile. After it tried again an agent's next heartbeat may take an interval and its
// jitter of a tenth.
func (e Evidence) returnedBy(l Limits) time.Time {
	beat := l.HeartbeatInterval + l.HeartbeatInterval/10
	longest := e.LongestReturn
	if longest == 0 {
		longest = assumedReturn
	}
	by := e.HealthySince.Add(longest + beat)
	// Agents that found another one before they count as silent need no freeze.
	if !e.DisplacedAt.IsZero() && e.LongestFailover+beat > l.MaxAge {
		if moved := e.DisplacedAt.Add(e.LongestFailover + beat); moved.After(by) {
			by = moved
		}
	}
	return by
}

// provesBy is when silence on the path counts again, if it stays healthy: while it proves itself after a start, an outage or a loss; zero otherwise.
func (e Evidence) provesBy(blind Blindness, l Limits) time.Time {
	if blind != IngestRestarted && blind != AgentsReturning {
		return time.Time{}
	}
	by := e.HealthySince.Add(l.MaxAge)
	if returned := e.returnedBy(l); returned.After(by) {
		by = returned
	}
	return by.Add(time.Millisecond - 1).Truncate(time.Millisecond) // as it is stored
}

// distrust takes back the failures of every round in which no probe succeeded and there were several: then our
// own egress is in doubt. A probe still on its way counts as one of several, but is no success.
func distrust(servers []Server) {
	for round := range ProbeRounds {
		probed, succeeded := 0, 0
		for _, s := range servers {
			if !s.Agent.probed() {
				continue
			}
			probed++
			if s.Agent.Probes[round].Outcome == Succeeded {
				succeeded++
			}
		}
		if probed < 2 || succeeded > 0 {
			continue
		}
		for i := range servers {
			servers[i].Agent.Probes[round].Outcome = Unfinished // the error stays, for people
		}
	}
}
