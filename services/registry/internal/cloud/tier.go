package cloud

import "slices"

// tier is how much an agent prefers a server, before any hash: lower is better.
type tier int

// The tiers. A group's own standby servers are of the first: they stand by for the others.
const (
	ownGroup tier = iota
	otherActive
	otherStandby
	tierCount
)

// tierOf is the tier of a server for the agents of a group.
func tierOf(s Server, group int64) tier {
	switch {
	case group != 0 && s.Group == group:
		return ownGroup
	case !s.Standby:
		return otherActive
	}
	return otherStandby
}

// tiers are positions of servers, by id within each tier.
type tiers [tierCount][]int32

func (d Directory) tiers(group int64) tiers {
	var sorted tiers
	for i, s := range d.servers {
		t := tierOf(s, group)
		sorted[t] = append(sorted[t], int32(i))
	}
	return sorted
}

// best is the first tier with a server other than the one left out: an empty tier falls to the next.
func (t tiers) best(without int32) []int32 {
	for _, servers := range t {
		if i := slices.Index(servers, without); i >= 0 {
			servers = slices.Concat(servers[:i], servers[i+1:])
		}
		if len(servers) > 0 {
			return servers
		}
	}
	return nil
}
