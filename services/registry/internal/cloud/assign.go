package cloud

import (
	"cmp"
	"fmt"
	"slices"
)

// Agent is what the assignment needs to know of an agent.
type Agent struct {
	Key       int64  // unique
	Hash      uint64 // Hash of its name
	Group     int64  // affinity group; 0: none
	Primary   int64  // ids of control servers; 0: none yet. Servers no longer there do no harm
	Secondary int64
}

// Move is an agent whose assignment changes, with what it becomes.
type Move struct {
	Key       int64
	Primary   int64
	Secondary int64 // 0: there is only one server
}

// Share is a control server's part of a pool: how many of the pool's agents have it as their primary.
type Share struct {
	Server int64
	Held   int // before
	Quota  int // after
}

// Pool is the agents that prefer the same servers for their primary: those of a group with servers; and all others, whose Group is 0.
type Pool struct {
	Group  int64
	Agents int
	Shares []Share // by server id
}

// Assignment is which agents change, and how all are spread.
type Assignment struct {
	Moves            []Move // by key
	Pools            []Pool // by group; without agents: left out
	Placed           int    // agents that had no primary
	PrimariesMoved   int    // agents that had another
	SecondariesMoved int    // agents that had another
}

// Assign gives every agent a primary and a secondary. It is a function of the set of agents; their order does not count. The error names
// an agent given twice.
func (d Directory) Assign(agents []Agent) (Assignment, error) {
	if len(d.servers) == 0 {
		return Assignment{}, ErrNobody
	}
	byKey := func(a, b Agent) int { return cmp.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(agents, byKey) {
		agents = slices.SortedFunc(slices.Values(agents), byKey)
	}
	for i := range agents[min(1, len(agents)):] {
		if agents[i].Key == agents[i+1].Key {
			return Assignment{}, fmt.Errorf("agent key %d is given twice", agents[i].Key)
		}
	}
	s := newSpread(d, agents)
	var out Assignment
	for _, pool := range s.pools() {
		out.Pools = append(out.Pools, s.assign(pool))
	}
	out.compare(s)
	return out, nil
}

// members are a pool's agents, by key.
type members struct {
	group  int64
	agents []int32
}

// pools gathers the agents. A group without servers is no pool of its own: its agents' tiers are those of agents without a group.
func (s *spread) pools() []members {
	pools := []members{{group: 0}}
	for _, server := range s.servers {
		if !slices.ContainsFunc(pools, func(m members) bool { return m.group == server.Group }) {
			pools = append(pools, members{group: server.Group})
		}
	}
	slices.SortFunc(pools, func(a, b members) int { return cmp.Compare(a.group, b.group) })
	ofGroup := map[int64]int{}
	for i, pool := range pools {
		ofGroup[pool.group] = i
	}
	for i, a := range s.agents {
		at, found := ofGroup[a.Group]
		if !found {
			at = ofGroup[0]
		}
		pools[at].agents = append(pools[at].agents, int32(i))
	}
	return slices.DeleteFunc(pools, func(m members) bool { return len(m.agents) == 0 })
}

// assign decides one pool.
func (s *spread) assign(pool members) Pool {
	preferred := s.tiers(pool.group)
	servers := preferred.best(none)
	held, quota := s.balance(pool.agents, servers, s.primary)
	result := Pool{Group: pool.group, Agents: len(pool.agents)}
	ofPrimary := make([][]int32, len(s.servers))
	for i, at := range servers {
		result.Shares = append(result.Shares, Share{Server: s.id(at), Held: held[i], Quota: quota[i]})
		ofPrimary[at] = make([]int32, 0, quota[i])
	}
	for _, agent := range pool.agents {
		at := s.primary[agent]
		if at != s.before[agent] {
			s.secondary[agent] = none // among the agents of its new primary it holds no place yet
		}
		ofPrimary[at] = append(ofPrimary[at], agent)
	}
	for _, at := range servers {
		s.assignSecondaries(ofPrimary[at], preferred.best(at))
	}
	return result
}

// assignSecondaries decides for the agents of one primary.
func (s *spread) assignSecondaries(agents, others []int32) {
	if len(others) > 0 {
		s.balance(agents, others, s.secondary)
		return
	}
	for _, agent := range agents {
		s.secondary[agent] = none
	}
}

// compare lists what changed.
func (out *Assignment) compare(s *spread) {
	for i, a := range s.agents {
		m := Move{Key: a.Key, Primary: s.id(s.primary[i]), Secondary: s.id(s.secondary[i])}
		if m.Primary == a.Primary && m.Secondary == a.Secondary {
			continue
		}
		out.Moves = append(out.Moves, m)
		switch {
		case a.Primary == 0:
			out.Placed++
		case m.Primary != a.Primary:
			out.PrimariesMoved++
		}
		if a.Secondary != 0 && m.Secondary != a.Secondary {
			out.SecondariesMoved++
		}
	}
}
