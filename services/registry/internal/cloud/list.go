package cloud

import (
	"cmp"
	"fmt"
	"slices"
)

// AlgorithmVersion changes whenever the same facts give another list, so that agents fetch it anew.
const AlgorithmVersion = 1

// List is an agent's failover list: ids of all servers of the directory, in the order the agent tries them. First its primary and its
// secondary; then the others, tier by tier, each in the order of the weighted rendezvous hash. An agent not assigned yet gets that order
// from the start, and so has a good list from its first registration on. A primary or secondary that is not in the directory is left out.
func (d Directory) List(a Agent) []int64 {
	type entry struct {
		id    int64
		place tier
		score float64
	}
	entries := make([]entry, len(d.servers))
	for i, s := range d.servers {
		entries[i] = entry{s.ID, tierOf(s, a.Group), weightedScore(a.Hash, d.hashes[i], s.Weight)}
		switch s.ID {
		case a.Primary:
			entries[i].place = ownGroup - 2
		case a.Secondary:
			entries[i].place = ownGroup - 1
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id))
	})
	list := make([]int64, len(entries))
	for i, e := range entries {
		list[i] = e.id
	}
	return list
}

// Etag names an agent's list: equal etags, equal lists. Its primary and secondary are those stored, of the directory's version.
func (d Directory) Etag(a Agent) string {
	return fmt.Sprintf("%d-%d-%d-%d-%d", AlgorithmVersion, d.Version, a.Primary, a.Secondary, a.Group)
}
