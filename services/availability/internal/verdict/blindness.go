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
	IngestBehind    Blindness = "backlog older than half of the maximum heartbeat age"
	NobodyHeard     Blindness = "nobody heard for two heartbeat intervals"
)

// blindness judges one path.
func (e Evidence) blindness(now time.Time, l Limits) Blindness {
	switch {
	case now.Sub(e.ReportedAt) > evidenceTimeout:
		return NoEvidence
	case e.HealthySince.IsZero():
		return IngestDown
	case now.Sub(e.HealthySince) < l.MaxAge:
		return IngestRestarted
	case e.Backlog > l.MaxAge/2:
		return IngestBehind
	case now.Sub(e.HeardAt) >= 2*l.HeartbeatInterval:
		return NobodyHeard
	}
	return NotBlind
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
