package cloud

import "time"

// Limits are the times that decide about membership. All are positive, and EvictionGrace is longer than LeaseTimeout and FreezeInterval.
type Limits struct {
	LeaseTimeout   time.Duration // without a renewal, until a server is suspect
	FreezeInterval time.Duration // within which more than half must have fallen silent for a freeze
	EvictionGrace  time.Duration // without a renewal, until a server leaves the lists
	DrainGrace     time.Duration // out of the lists, until a server in maintenance turns agents away
}

// DefaultLimits are for servers that renew every 5 s, and agents that get a new list with their next heartbeat, 30 s apart.
func DefaultLimits() Limits {
	return Limits{LeaseTimeout: 15 * time.Second, FreezeInterval: time.Minute, EvictionGrace: 5 * time.Minute, DrainGrace: 5 * time.Minute}
}

// Server is what lists need to know of a control server.
type Server struct {
	ID        int64 // positive, never used again
	Name      string
	Endpoints []string
	Weight    int   // 1 to MaxWeight
	Standby   bool  // no agent's primary in normal operation, but for agents of its own group
	Group     int64 // affinity group; 0: none
}

// MaxWeight bounds a weight.
const MaxWeight = 1000

// Protocols is the range of protocol versions a control server speaks, both ends included.
type Protocols struct{ Min, Max int }

func (p Protocols) overlap(o Protocols) bool { return p.Min <= o.Max && o.Min <= p.Max }

// Mode is what operators want of a control server. It outlives restarts.
type Mode int

// The modes.
const (
	ModeNormal Mode = iota + 1
	ModeMaintenance
)

// Member is everything known of one control server. All times are of the database's clock.
type Member struct {
	Server
	Version   string
	Protocols Protocols
	Mode      Mode
	ChangedBy string    // the operator who last set mode, weight, standby or group; empty: none did
	RenewedAt time.Time // its lease
	Listing   Listing
	Assigned  int // agents whose primary it is
	Connected int // agents it served of late, as it reported with its lease
}

// Listing is whether the lists that agents are given name a server: what the last commit of a partition left.
type Listing struct {
	Listed     bool
	UnlistedAt time.Time // when it was last left out; zero: never
	UnlistedAs State     // what it was then
}

// State is what a control server is now, from its facts. It is stored with events and shown.
type State string

// The states.
const (
	Normal      State = "normal"
	Suspect     State = "suspect"     // its lease lapsed; the lists are unchanged, agents fail over by themselves
	Evicted     State = "evicted"     // silent for the whole grace: out of the lists until it renews
	Draining    State = "draining"    // in maintenance, and still serving agents that have yet to hear of it
	Maintenance State = "maintenance" // turns agents away with DRAINING
)

// Serves tells whether a server in this state works for the agents that call it.
func (s State) Serves() bool { return s != Maintenance }

// Standing is a member as judged at one moment.
type Standing struct {
	Member
	State   State
	Present bool // renewed within the eviction grace, in whatever mode: it holds its name and its endpoints
}

// eligible tells whether lists may name it. One that fell silent before it was ever listed waits for its next renewal.
func (s Standing) eligible() bool {
	return s.State == Normal || s.State == Suspect && s.Listing.Listed
}

// DrainEndsAt is when a server in maintenance begins to turn agents away; zero: not before the lists leave it out.
func (m Member) DrainEndsAt(l Limits) time.Time {
	if m.Listing.Listed {
		return time.Time{}
	}
	return m.Listing.UnlistedAt.Add(l.DrainGrace)
}

// state is that of one member by itself, as if there were no freeze.
func (m Member) state(now time.Time, l Limits) State {
	silent := now.Sub(m.RenewedAt)
	switch {
	case m.Mode == ModeMaintenance && (m.Listing.Listed || now.Before(m.DrainEndsAt(l))):
		return Draining
	case m.Mode == ModeMaintenance:
		return Maintenance
	case silent >= l.EvictionGrace:
		return Evicted
	case silent >= l.LeaseTimeout:
		return Suspect
	}
	return Normal
}
