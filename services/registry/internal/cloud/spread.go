package cloud

import (
	"cmp"
	"slices"
)

// spread distributes agents over servers, pool by pool. Agents and servers are positions: in agents, and in the directory.
type spread struct {
	Directory
	agents    []Agent    // by key
	before    []int32    // the primaries as stored
	primary   []int32    // by agent, until a pool is decided as stored; none: nowhere, or at a server that is gone
	secondary []int32    // likewise
	full      [][]ranked // scratch of shed
}

func newSpread(d Directory, agents []Agent) *spread {
	s := &spread{
		Directory: d, agents: agents, full: make([][]ranked, len(d.servers)),
		primary: make([]int32, len(agents)), secondary: make([]int32, len(agents)),
	}
	for i, a := range agents {
		s.primary[i], s.secondary[i] = d.position(a.Primary), d.position(a.Secondary)
	}
	s.before = slices.Clone(s.primary)
	return s
}

// ranked is an agent and how much it is drawn to the server it is at.
type ranked struct {
	score uint64
	agent int32
}

// balance gives each of the pool's agents one of the servers, in place: at says where each agent is, and then where it shall be. Those at
// a server stay, up to its quota; those drawn to it least go. They and the orphans, who are at none of the servers, are placed in the
// order of their keys. The result is how many agents each server had, and has.
func (s *spread) balance(pool, servers, at []int32) (held, quota []int) {
	local := slices.Repeat([]int32{none}, len(s.servers)) // index in servers, by position
	weights := make([]int, len(servers))
	for i, position := range servers {
		local[position], weights[i] = int32(i), s.servers[position].Weight
	}
	held = make([]int, len(servers))
	for _, agent := range pool {
		if at[agent] != none && local[at[agent]] != none {
			held[local[at[agent]]]++
		} else {
			at[agent] = none
		}
	}
	quota = quotas(len(pool), weights, held)
	s.shed(pool, local, held, quota, at)
	s.place(pool, servers, held, quota, at)
	return held, quota
}

// shed takes what is above the quota off the servers that have too many.
func (s *spread) shed(pool, local []int32, held, quota []int, at []int32) {
	for i := range quota {
		s.full[i] = s.full[i][:0]
	}
	for _, agent := range pool {
		if at[agent] == none {
			continue
		}
		if i := local[at[agent]]; held[i] > quota[i] {
			s.full[i] = append(s.full[i], ranked{score(s.agents[agent].Hash, s.hashes[at[agent]]), agent})
		}
	}
	for i, holders := range s.full[:len(quota)] {
		if len(holders) == 0 {
			continue
		}
		slices.SortFunc(holders, func(a, b ranked) int {
			return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.agent, b.agent))
		})
		for _, surplus := range holders[quota[i]:] {
			at[surplus.agent] = none
		}
	}
}

// place puts each agent that is nowhere on the server that draws it most, of those that lack agents. Together they lack just as many.
func (s *spread) place(pool, servers []int32, held, quota []int, at []int32) {
	type gap struct {
		server int32
		agents int
	}
	var gaps []gap
	for i, server := range servers {
		if lacking := quota[i] - held[i]; lacking > 0 {
			gaps = append(gaps, gap{server, lacking})
		}
	}
	for _, agent := range pool {
		if at[agent] != none {
			continue
		}
		best, most := 0, uint64(0)
		for i, g := range gaps {
			if drawn := score(s.agents[agent].Hash, s.hashes[g.server]); drawn > most {
				best, most = i, drawn
			}
		}
		at[agent] = gaps[best].server
		if gaps[best].agents--; gaps[best].agents == 0 {
			gaps = slices.Delete(gaps, best, best+1)
		}
	}
}
