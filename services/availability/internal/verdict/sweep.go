package verdict

import (
	"cmp"
	"slices"
	"time"
)

// Limits are the times that decide. All are positive, and MaxAge is at least two heartbeat intervals.
type Limits struct {
	MaxAge            time.Duration // of a heartbeat; 90 s
	HeartbeatInterval time.Duration // 30 s
	SweepInterval     time.Duration // 15 s
}

// Server is one row of TblServer with its agent. Active is left out on purpose (I-10).
type Server struct {
	Key            int64 // unique in a sweep
	BenefitManager bool  // others are not judged
	Online         bool  // as stored
	Maintenance    bool  // by switch or window, now
	Agent          Agent
	Before         Status // of the sweep before; zero: none
}

// Input is everything one sweep knows.
type Input struct {
	Now              time.Time
	Limits           Limits
	RegistryAnswered bool // if not, agents and evidence are disregarded
	Servers          []Server
	Evidence         PerPath[Evidence]
	State            PerPath[PathState]
}

// PathState is what a path carries from sweep to sweep.
type PathState struct {
	FrozenSince time.Time // zero: not frozen
	Brake       Brake
}

// PathStatus is a path in this sweep. It is frozen if Blind says why, since State's FrozenSince.
type PathStatus struct {
	Blind Blindness
	// StartingUntil is when silence counts again, while the path only proves itself; zero otherwise.
	StartingUntil time.Time
	Braked        bool  // also while frozen
	Crowd         Crowd // as the sweep leaves it
}

// Holding is why a transition to offline was held.
type Holding string

// The holdings.
const (
	NotHeld Holding = ""
	Frozen  Holding = "frozen"
	Braked  Holding = "braked"
)

// Status is what is shown of one server.
type Status struct {
	Key         int64
	Verdict     Verdict
	Online      bool // as decided
	Maintenance bool
	Held        Holding
	HeldPath    Path      // whose proof is missing, with Held
	Since       time.Time // when it last was not the Same
}

// Same tells whether two statuses differ in nothing but how long ago it was heard and the probe's words, so
// that an unchanged fleet writes nothing.
func (s Status) Same(o Status) bool {
	return s.Key == o.Key && s.Verdict.Availability == o.Verdict.Availability && s.Verdict.Reason == o.Verdict.Reason &&
		s.Online == o.Online && s.Maintenance == o.Maintenance && s.Held == o.Held
}

// Change is one change of Online.
type Change struct {
	Key    int64
	Online bool
	Reason Reason
}

// Outcomes are the consequences of one sweep, each ordered by key.
type Outcomes struct {
	Changes    []Change
	OfflineLog []int64  // one per change to offline (I-9)
	Held       []Status // stay online only because they are held
	Statuses   []Status // all judged servers
	Paths      PerPath[PathStatus]
	State      PerPath[PathState] // for the next sweep
}

// Sweep decides about the fleet. It leaves its input as it is.
func Sweep(in Input) Outcomes {
	servers := slices.SortedFunc(slices.Values(in.Servers), func(a, b Server) int { return cmp.Compare(a.Key, b.Key) })
	distrust(servers)
	var out Outcomes
	out.judgePaths(in, servers)
	var left PerPath[Crowd] // once the sweep's own changes are made
	for _, s := range servers {
		if s.BenefitManager {
			status := out.decide(s, in)
			out.add(s, status)
			s.Online = status.Online
			s.countIn(&left, in.Now, in.Limits.MaxAge)
		}
	}
	for path := range out.Paths {
		out.Paths[path].Crowd = left[path]
	}
	return out
}

// judgePaths comes before any server is turned offline, so that a total loss is seen whole.
func (out *Outcomes) judgePaths(in Input, servers []Server) {
	var counted PerPath[Crowd]
	var used PerPath[bool]
	if in.RegistryAnswered {
		counted, used = crowds(servers, in.Now, in.Limits.MaxAge), pathsUsed(servers)
	}
	for p := range pathCount {
		was, blind := in.State[p], NoRegistry
		next := was
		if in.RegistryAnswered {
			blind = NotBlind
			if used[p] {
				blind = in.Evidence[p].blindness(in.Now, in.Limits)
			}
			next.Brake = was.Brake.next(counted[p], in.Evidence[p], blind != NotBlind, in.Now, in.Limits.SweepInterval)
		} else {
			next.Brake.Proofs, next.Brake.JudgedAt = 0, in.Now // the crowd is unknown: the brake stays, its proof starts anew
		}
		switch {
		case blind == NotBlind:
			next.FrozenSince = time.Time{}
		case was.FrozenSince.IsZero():
			next.FrozenSince = in.Now
		}
		out.State[p] = next
		out.Paths[p] = PathStatus{Blind: blind, StartingUntil: in.Evidence[p].provesBy(blind, in.Limits), Braked: next.Brake.holds()}
	}
}

// pathsUsed are those that some server's agent was heard on. Nobody listens on another, and nothing is frozen by that.
func pathsUsed(servers []Server) PerPath[bool] {
	var used PerPath[bool]
	for _, s := range servers {
		for p, at := range s.Agent.HeardAt {
			used[p] = used[p] || (s.BenefitManager && s.Agent.Registration == Accepted && !at.IsZero())
		}
	}
	return used
}

// decide gives the status of one server.
func (out *Outcomes) decide(s Server, in Input) Status {
	v := Verdict{Reason: RegistryUnreachable}
	if in.RegistryAnswered {
		v = Judge(s.Agent, in.Now, in.Limits.MaxAge)
	}
	st := Status{Key: s.Key, Verdict: v, Online: Online(s.Online, s.Maintenance, v.Availability), Maintenance: s.Maintenance}
	if s.Online && !s.Maintenance && v.Availability == Unavailable && v.Reason == HeartbeatSilent {
		st.Held, st.HeldPath = out.holding(s.Agent, v.Path)
		st.Online = st.Held != NotHeld
	}
	st.Since = in.Now
	if st.Same(s.Before) {
		st.Since = s.Before.Since
	}
	return st
}

// holding tells whether silence proves nothing. An agent with two paths may be speaking on either, so both must
// be proven; the brake is that of the path it was last heard on.
func (out *Outcomes) holding(a Agent, last Path) (Holding, Path) {
	for p := range pathCount {
		if !a.HeardAt[p].IsZero() && out.Paths[p].Blind != NotBlind {
			return Frozen, p
		}
	}
	if out.Paths[last].Braked {
		return Braked, last
	}
	return NotHeld, last
}

func (out *Outcomes) add(s Server, st Status) {
	out.Statuses = append(out.Statuses, st)
	if st.Held != NotHeld {
		out.Held = append(out.Held, st)
	}
	if st.Online == s.Online {
		return
	}
	reason := st.Verdict.Reason
	if st.Maintenance {
		reason = InMaintenance
	}
	out.Changes = append(out.Changes, Change{Key: s.Key, Online: st.Online, Reason: reason})
	if !st.Online {
		out.OfflineLog = append(out.OfflineLog, s.Key)
	}
}
