package cloud

import (
	"cmp"
	"slices"
	"time"
)

// Membership is the whole cloud, as judged at one moment.
type Membership struct {
	Members     []Standing // by id
	FrozenSince time.Time  // evictions are held, because so many fell silent at once that we rather doubt ourselves; zero: they are not
}

// Frozen tells whether evictions are held.
func (m Membership) Frozen() bool { return !m.FrozenSince.IsZero() }

// Judge says what each control server is now. While frozen, a listed server that ought to be evicted stays suspect, so that the lists do
// not change for silence; joins and operators' acts still count. A freeze ends when those silent are no longer more than half of the
// listed: they came back, or an operator took them out.
func Judge(members []Member, now time.Time, l Limits) Membership {
	judged := Membership{FrozenSince: frozenSince(members, now, l)}
	for _, m := range members {
		s := Standing{Member: m, State: m.state(now, l), Present: now.Sub(m.RenewedAt) < l.EvictionGrace}
		if judged.Frozen() && m.Listing.Listed && s.State == Evicted {
			s.State = Suspect
		}
		judged.Members = append(judged.Members, s)
	}
	slices.SortFunc(judged.Members, func(a, b Standing) int { return cmp.Compare(a.ID, b.ID) })
	return judged
}

// frozenSince is when more than half of the listed servers had become suspect, if they fell silent within one interval, whenever that
// was, and still are; zero: no such thing.
func frozenSince(members []Member, now time.Time, l Limits) time.Time {
	listed := 0
	var silentSince []time.Time
	for _, m := range members {
		if m.Mode != ModeNormal || !m.Listing.Listed {
			continue
		}
		listed++
		if now.Sub(m.RenewedAt) >= l.LeaseTimeout {
			silentSince = append(silentSince, m.RenewedAt)
		}
	}
	slices.SortFunc(silentSince, time.Time.Compare)
	mass := listed/2 + 1
	for i := mass - 1; i < len(silentSince); i++ {
		if silentSince[i].Sub(silentSince[i-mass+1]) <= l.FreezeInterval {
			return silentSince[i].Add(l.LeaseTimeout)
		}
	}
	return time.Time{}
}

// Eligible are the servers that lists name.
func (m Membership) Eligible() []Server {
	var servers []Server
	for _, s := range m.Members {
		if s.eligible() {
			servers = append(servers, s.Server)
		}
	}
	return servers
}

// Version is one version that members run.
type Version struct {
	Version string
	Servers []string // their names, by id
}

// Versions are those of the members present, the oldest member's first. More than one is a mixed cloud, as during an upgrade.
func (m Membership) Versions() []Version {
	var versions []Version
	for _, s := range m.Members {
		if !s.Present {
			continue
		}
		i := slices.IndexFunc(versions, func(v Version) bool { return v.Version == s.Version })
		if i < 0 {
			versions, i = append(versions, Version{Version: s.Version}), len(versions)
		}
		versions[i].Servers = append(versions[i].Servers, s.Name)
	}
	return versions
}
