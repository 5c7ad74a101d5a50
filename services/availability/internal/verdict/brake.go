package verdict

import "time"

const (
	brakeLeast  = 5 // silent servers; fewer are no mass
	brakeProofs = 3 // further sweeps that must prove the path before a mass is believed
)

// Order is what an operator said about a path's brake.
type Order int

// The orders. Apply is for the present mass only; Hold lasts until an operator takes it back.
const (
	NoOrder Order = iota
	Apply
	Hold
)

// Brake is the state of one path's mass-offline brake. It is kept in the database, so that it survives a
// change of holder; an operator's act sets Order there, and the next sweep obeys.
type Brake struct {
	Since    time.Time // when the present mass was first seen, or Hold first obeyed; zero: released
	Proofs   int       // sweeps since then in which the path was proven, 0 to 3
	JudgedAt time.Time // the newest sweep that proved or disproved
	Order    Order
}

// holds tells whether transitions to offline are held.
func (b Brake) holds() bool {
	return !b.Since.IsZero() && b.Order != Apply && (b.Order == Hold || b.Proofs < brakeProofs)
}

// Crowd counts the online servers of a path, those in maintenance aside.
type Crowd struct {
	Online int
	Silent int // of these, for half of the maximum age
}

// mass tells whether so many are silent that we rather doubt ourselves.
func (c Crowd) mass() bool { return c.Silent >= brakeLeast && 2*c.Silent > c.Online }

// next judges the brake in one sweep.
func (b Brake) next(c Crowd, e Evidence, blind bool, now time.Time, sweepInterval time.Duration) Brake {
	switch {
	case !c.mass() && b.Order != Hold:
		return Brake{}
	case b.Since.IsZero():
		if b.Order == Apply { // given for a mass that was over before it was obeyed: this one nobody has seen
			b.Order = NoOrder
		}
		return Brake{Since: now, JudgedAt: now, Order: b.Order}
	case !c.mass() || blind || e.HealthySince.After(b.JudgedAt) || now.Before(b.JudgedAt):
		// A gap between two sweeps, unseen by both, disproves as well; and so does a clock that went back, as after a failover.
		b.Proofs, b.JudgedAt = 0, now
	case now.Sub(b.JudgedAt) < sweepInterval/2:
		// A new holder sweeps at once: that proves no more than the sweep before.
	default:
		b.Proofs, b.JudgedAt = min(b.Proofs+1, brakeProofs), now
	}
	return b
}

// crowds counts by the path a server was last heard on: one that moved is no loss of the path it left.
func crowds(servers []Server, now time.Time, maxAge time.Duration) PerPath[Crowd] {
	var counted PerPath[Crowd]
	for _, s := range servers {
		s.countIn(&counted, now, maxAge)
	}
	return counted
}

func (s Server) countIn(counted *PerPath[Crowd], now time.Time, maxAge time.Duration) {
	if !s.BenefitManager || !s.Online || s.Maintenance || !s.Agent.heard() {
		return
	}
	path, at := s.Agent.newest()
	counted[path].Online++
	if now.Sub(at) >= maxAge/2 {
		counted[path].Silent++
	}
}
