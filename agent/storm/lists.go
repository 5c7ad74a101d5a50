package storm

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/commandcenter/fleet/agent/internal/failover"
)

const registration = "registration"

func serverAt(i int) failover.Server {
	name := fmt.Sprintf("control-%d", i)
	return failover.Server{Name: name, Endpoint: name}
}

// listMaker makes ideal lists. Agents of one primary and secondary share theirs.
type listMaker struct {
	servers []failover.Server
	spread  Spread
	random  *rand.Rand
	made    map[[2]int]failover.List
}

// list of an agent.
func (m *listMaker) list(agent int) failover.List {
	n := len(m.servers)
	primary := agent % n
	if m.spread == RoundRobin || n < 3 {
		return failover.List{Etag: fmt.Sprint(primary), Servers: slices.Concat(m.servers[primary:], m.servers[:primary])}
	}
	secondary := (primary + 1 + (agent/n)%(n-1)) % n
	pair := [2]int{primary, secondary}
	if list, ok := m.made[pair]; ok {
		return list
	}
	list := failover.List{Etag: fmt.Sprint(pair), Servers: []failover.Server{m.servers[primary], m.servers[secondary]}}
	for _, i := range m.random.Perm(n) {
		if i != primary && i != secondary {
			list.Servers = append(list.Servers, m.servers[i])
		}
	}
	m.made[pair] = list
	return list
}
