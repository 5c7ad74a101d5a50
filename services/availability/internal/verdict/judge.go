package verdict

import "time"

// Path is how heartbeats come. It indexes what is kept per path.
type Path int

// The paths.
const (
	Bus Path = iota
	Direct
	pathCount
)

func (p Path) String() string { return [pathCount]string{"bus", "direct"}[p] }

// PerPath keeps one T for each path.
type PerPath[T any] [pathCount]T

// Registration is what operators decided about a server's agent, seen from the server.
type Registration int

// The registrations. Removed is a fact the registry states (also of an agent linked elsewhere since), never
// concluded from an agent missing in an answer.
const (
	Unregistered Registration = iota
	Pending
	Accepted
	Rejected
	Removed
	Astray // the agent of the server's name is linked elsewhere, or the one linked here has another name
)

// Outcome is how one probe ended.
type Outcome int

// The outcomes. Unfinished is also a round that did not happen, or that we could not trust.
const (
	Unfinished Outcome = iota
	Succeeded
	Failed
)

// Probe is one HTTP ping of an agent.
type Probe struct {
	Outcome Outcome
	Error   string // for people
}

// ProbeRounds is how many rounds must fail before a server that is only probed is unavailable.
const ProbeRounds = 3

// Agent is what is known of a server's agent.
type Agent struct {
	Registration Registration
	Linked       bool               // is linked to this server, or was
	HeardAt      PerPath[time.Time] // newest heartbeat by path; zero: never. Paths it left for good are left out
	BaseURL      string             // where it is probed, if it was never heard
	Probes       [ProbeRounds]Probe // newest round first; a round has the same index in all agents of a sweep
}

// newest gives the newest heartbeat and its path; the time is zero if there was none.
func (a Agent) newest() (Path, time.Time) {
	path, at := Bus, a.HeardAt[Bus]
	if a.HeardAt[Direct].After(at) {
		path, at = Direct, a.HeardAt[Direct]
	}
	return path, at
}

// heard tells whether heartbeats decide about the agent.
func (a Agent) heard() bool {
	_, at := a.newest()
	return a.Registration == Accepted && !at.IsZero()
}

// probed tells whether probes do.
func (a Agent) probed() bool {
	return a.Registration == Accepted && !a.heard() && a.BaseURL != ""
}

// Availability is what we make of a server. Its zero value changes nothing.
type Availability int

// The availabilities.
const (
	Unknown Availability = iota
	Available
	Unavailable
)

func (a Availability) String() string { return [...]string{"unknown", "available", "unavailable"}[a] }

// Reason is why, in stable words: it is stored, and counted in metrics.
type Reason string

// The reasons.
const (
	HeartbeatFresh      Reason = "heartbeat fresh"
	HeartbeatSilent     Reason = "heartbeat silent"
	NeverHeard          Reason = "never heard"
	ProbeSucceeded      Reason = "probe succeeded"
	ProbeFailed         Reason = "probe failed"
	ProbeUndecided      Reason = "probe undecided"
	AgentRemoved        Reason = "agent removed"
	AgentRejected       Reason = "agent rejected"
	NeverAccepted       Reason = "never accepted"
	AgentAstray         Reason = "agent astray"
	RegistryUnreachable Reason = "registry unreachable"
	InMaintenance       Reason = "maintenance" // of a change only: it is no verdict
)

// Verdict is the judgement of one server.
type Verdict struct {
	Availability Availability
	Reason       Reason
	HeardAt      time.Time // newest heartbeat, where that decided
	Path         Path      // where it came, with HeardAt
	ProbeError   string    // of the newest failed probe, where probes decided
}

// Judge gives the verdict of a server from its agent. maxAge is positive; a heartbeat just as old is too old.
func Judge(a Agent, now time.Time, maxAge time.Duration) Verdict {
	switch {
	case a.Registration == Removed && a.Linked:
		return Verdict{Availability: Unavailable, Reason: AgentRemoved}
	case a.Registration == Rejected && a.Linked:
		return Verdict{Availability: Unavailable, Reason: AgentRejected}
	case a.Registration == Astray:
		return Verdict{Reason: AgentAstray}
	case a.Registration != Accepted:
		return Verdict{Reason: NeverAccepted}
	case a.heard():
		return judgeHeartbeat(a, now, maxAge)
	case a.probed():
		return judgeProbes(a.Probes)
	}
	return Verdict{Reason: NeverHeard}
}

func judgeHeartbeat(a Agent, now time.Time, maxAge time.Duration) Verdict {
	path, at := a.newest()
	v := Verdict{Availability: Available, Reason: HeartbeatFresh, HeardAt: at, Path: path}
	if now.Sub(at) >= maxAge {
		v.Availability, v.Reason = Unavailable, HeartbeatSilent
	}
	return v
}

func judgeProbes(rounds [ProbeRounds]Probe) Verdict {
	if rounds[0].Outcome == Succeeded {
		return Verdict{Availability: Available, Reason: ProbeSucceeded}
	}
	v := Verdict{Availability: Unavailable, Reason: ProbeFailed}
	for _, p := range rounds {
		if p.Outcome != Failed {
			v.Availability, v.Reason = Unknown, ProbeUndecided
		}
		if v.ProbeError == "" {
			v.ProbeError = p.Error
		}
	}
	return v
}

// Online is what a server's Online becomes.
func Online(was, maintenance bool, a Availability) bool {
	switch {
	case maintenance:
		return false
	case a == Unknown:
		return was
	}
	return a == Available
}
