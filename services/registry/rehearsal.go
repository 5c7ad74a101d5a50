package registry

import (
	"fmt"
	"time"

	"github.com/commandcenter/fleet/services/registry/internal/cloud"
)

// Rehearsal is what agents and control servers of equal weight come to, computed in memory: what a join moves and a failure loads, beside
// plain round robin ("A1: S1,S2,S3  A2: S2,S3,S1  A3: S3,S1,S2").
type Rehearsal struct {
	Fresh, Join time.Duration // of one computation
	// Moved is how many agents get another primary at a join; Rows how many rows it writes.
	Moved, Rows, MovedRoundRobin int
	// Worst is the load of the worst survivor of one failure, by the mean, when each agent goes to the second of its list.
	Worst, WorstRoundRobin float64
}

// Rehearse spreads agents over servers, lets one more join, and one of them fail. Servers are at least 2.
func Rehearse(agents, servers int) (Rehearsal, error) {
	before, err := cloud.NewDirectory(1, alike(servers))
	if err != nil {
		return Rehearsal{}, err
	}
	fleet := make([]cloud.Agent, agents)
	for i := range fleet {
		fleet[i] = cloud.Agent{Key: int64(i + 1), Hash: cloud.Hash(fmt.Sprintf("bm-%06d", i+1))}
	}
	var r Rehearsal
	began := time.Now()
	fresh, err := before.Assign(fleet)
	if err != nil {
		return Rehearsal{}, err
	}
	r.Fresh = time.Since(began)
	for _, move := range fresh.Moves {
		fleet[move.Key-1].Primary, fleet[move.Key-1].Secondary = move.Primary, move.Secondary
	}
	after, err := cloud.NewDirectory(2, alike(servers+1))
	if err != nil {
		return Rehearsal{}, err
	}
	began = time.Now()
	join, err := after.Assign(fleet)
	r.Join = time.Since(began)
	r.Moved, r.Rows = join.PrimariesMoved, len(join.Moves)
	r.Worst = worst(servers, agents, func(i int) (int64, int64) { return fleet[i].Primary, fleet[i].Secondary })
	inTurn := func(i, n int) int64 { return int64(i%n + 1) }
	r.WorstRoundRobin = worst(servers, agents, func(i int) (int64, int64) { return inTurn(i, servers), inTurn(i+1, servers) })
	for i := range agents {
		if inTurn(i, servers) != inTurn(i, servers+1) {
			r.MovedRoundRobin++
		}
	}
	return r, err
}

func alike(servers int) []cloud.Server {
	all := make([]cloud.Server, servers)
	for i := range all {
		all[i] = cloud.Server{ID: int64(i + 1), Name: fmt.Sprintf("control-%d", i+1), Weight: 100}
	}
	return all
}

// worst lets each server fail in turn, and tells the most that any survivor has then, by the mean.
func worst(servers, agents int, list func(agent int) (primary, secondary int64)) float64 {
	most := 0
	for failed := int64(1); failed <= int64(servers); failed++ {
		load := make([]int, servers+1)
		for i := range agents {
			at, next := list(i)
			if at == failed {
				at = next
			}
			load[at]++
			most = max(most, load[at])
		}
	}
	return float64(most) / (float64(agents) / float64(servers-1))
}
