package cloud

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"
)

// world is a directory and the agents as stored. Its checks share no code with the package but types, names' hashes and scores.
type world struct {
	d      Directory
	agents []Agent
}

func server(id int64) Server {
	return Server{ID: id, Name: fmt.Sprintf("control-%d", id), Endpoints: []string{fmt.Sprintf("control-%d:8443", id)}, Weight: 1}
}

func agent(key int64) Agent { return Agent{Key: key, Hash: Hash(fmt.Sprintf("BM-%06d", key))} }

// fleetOf is n agents and m equal servers, nothing assigned.
func fleetOf(t rapid.TB, n, m int) *world {
	w := &world{}
	var servers []Server
	for i := range m {
		servers = append(servers, server(int64(i+1)))
	}
	for i := range n {
		w.agents = append(w.agents, agent(int64(i+1)))
	}
	w.list(t, servers)
	return w
}

// list makes servers the directory.
func (w *world) list(t rapid.TB, servers []Server) {
	t.Helper()
	var err error
	if w.d, err = NewDirectory(w.d.Version+1, servers); err != nil {
		t.Fatal(err)
	}
}

// settle assigns, and stores the moves.
func (w *world) settle(t rapid.TB) Assignment {
	t.Helper()
	out, err := w.d.Assign(w.agents)
	if err != nil {
		t.Fatal(err)
	}
	w.agents = slices.Clone(w.agents)
	at := map[int64]int{}
	for i, a := range w.agents {
		at[a.Key] = i
	}
	for _, m := range out.Moves {
		i := at[m.Key]
		if w.agents[i].Primary == m.Primary && w.agents[i].Secondary == m.Secondary {
			t.Fatalf("agent %d moves to where it is", m.Key)
		}
		w.agents[i].Primary, w.agents[i].Secondary = m.Primary, m.Secondary
	}
	return out
}

var (
	weights   = rapid.OneOf(rapid.Just(1), rapid.IntRange(1, 5), rapid.IntRange(1, MaxWeight))
	groups    = rapid.SampledFrom([]int64{0, 0, 1, 1, 1, 2, 3})
	rarely    = rapid.SampledFrom([]bool{false, false, false, true})
	anyServer = rapid.Int64Range(0, 12) // also 0, none, and ids no server has
)

func drawServers(t *rapid.T) []Server {
	ids := rapid.SliceOfNDistinct(rapid.Int64Range(1, 12), 1, 9, rapid.ID).Draw(t, "ids")
	grouped, equal := rapid.Bool().Draw(t, "grouped"), rapid.Bool().Draw(t, "equal weights")
	var servers []Server
	for _, id := range ids {
		servers = append(servers, drawServer(t, id, grouped, equal))
	}
	return servers
}

func drawServer(t *rapid.T, id int64, grouped, equal bool) Server {
	s := server(id)
	s.Standby = rarely.Draw(t, "standby")
	if grouped {
		s.Group = groups.Draw(t, "server's group")
	}
	if !equal {
		s.Weight = weights.Draw(t, "weight")
	}
	return s
}

// drawWorld has agents stored at random: at any server, at none, and at such as are gone.
func drawWorld(t *rapid.T) *world {
	w := &world{}
	w.list(t, drawServers(t))
	n := rapid.IntRange(0, 150).Draw(t, "agents")
	grouped, stored := rapid.Bool().Draw(t, "agents grouped"), rapid.Bool().Draw(t, "stored")
	for i := range n {
		a := agent(int64(i+1) * 7)
		if grouped {
			a.Group = groups.Draw(t, "agent's group")
		}
		if stored {
			a.Primary, a.Secondary = anyServer.Draw(t, "primary"), anyServer.Draw(t, "secondary")
		}
		w.agents = append(w.agents, a)
	}
	return w
}

// disturb changes servers or agents as a cloud does.
func (w *world) disturb(t *rapid.T) {
	servers := w.d.Servers()
	pick := func() int { return rapid.IntRange(0, len(servers)-1).Draw(t, "which") }
	switch rapid.SampledFrom([]string{"join", "leave", "weight", "standby", "group", "agents", "regroup"}).Draw(t, "disturbance") {
	case "join":
		servers = append(servers, drawServer(t, rapid.Int64Range(13, 1000).Draw(t, "joining"), true, false))
	case "leave":
		if at := pick(); len(servers) > 1 {
			servers = slices.Delete(servers, at, at+1)
		}
	case "weight":
		servers[pick()].Weight = weights.Draw(t, "new weight")
	case "standby":
		at := pick()
		servers[at].Standby = !servers[at].Standby
	case "group":
		servers[pick()].Group = groups.Draw(t, "new group")
	case "agents":
		w.agents = slices.DeleteFunc(slices.Clone(w.agents), func(Agent) bool { return rarely.Draw(t, "deleted") })
		for i := range rapid.IntRange(0, 20).Draw(t, "new agents") {
			w.agents = append(w.agents, agent(int64(2000+i)))
		}
		slices.SortFunc(w.agents, func(a, b Agent) int { return int(a.Key - b.Key) })
		w.agents = slices.CompactFunc(w.agents, func(a, b Agent) bool { return a.Key == b.Key })
	case "regroup":
		w.agents = slices.Clone(w.agents)
		for i := range w.agents {
			if rarely.Draw(t, "regrouped") {
				w.agents[i].Group = groups.Draw(t, "agent's new group")
			}
		}
	}
	servers = slices.CompactFunc(slices.SortedFunc(slices.Values(servers), func(a, b Server) int { return int(a.ID - b.ID) }), func(a, b Server) bool { return a.ID == b.ID })
	w.list(t, servers)
}

func shuffled[T any](t *rapid.T, items []T) []T {
	mixed := slices.Clone(items)
	seed := rapid.Uint64().Draw(t, "order")
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	return mixed
}

// level is a server's tier for an agent, said in other words.
func (w *world) level(id, group int64) int {
	s, found := w.d.Server(id)
	switch {
	case !found:
		return 99
	case group > 0 && s.Group == group:
		return 1
	case s.Standby:
		return 3
	}
	return 2
}

// choices are the servers an agent may have, given those it may not: all that are of the best level.
func (w *world) choices(group, without int64) []Server {
	var found []Server
	for level := 1; level <= 3 && len(found) == 0; level++ {
		for _, s := range w.d.Servers() {
			if s.ID != without && w.level(s.ID, group) == level {
				found = append(found, s)
			}
		}
	}
	return found
}

// pool is the group whose servers an agent prefers; 0: it has none.
func (w *world) pool(a Agent) int64 {
	for _, s := range w.d.Servers() {
		if a.Group > 0 && s.Group == a.Group {
			return a.Group
		}
	}
	return 0
}

// crowd is agents that are spread over the same servers.
type crowd struct {
	servers []Server
	agents  []int // indexes
}

// primaryCrowds are by pool, secondaryCrowds by pool and primary.
func (w *world) primaryCrowds() map[[2]int64]*crowd {
	return w.crowds(func(Agent) int64 { return 0 })
}

func (w *world) secondaryCrowds() map[[2]int64]*crowd {
	return w.crowds(func(a Agent) int64 { return a.Primary })
}

func (w *world) crowds(without func(Agent) int64) map[[2]int64]*crowd {
	found := map[[2]int64]*crowd{}
	for i, a := range w.agents {
		key := [2]int64{w.pool(a), without(a)}
		if found[key] == nil {
			found[key] = &crowd{servers: w.choices(key[0], key[1])}
		}
		found[key].agents = append(found[key].agents, i)
	}
	return found
}

// fewest is how many agents must move so that each server has its quota, rounded up or down, counting those that are at none of them.
func (c *crowd) fewest(at func(i int) int64) int {
	n, total := len(c.agents), 0
	held := map[int64]int{}
	for _, s := range c.servers {
		total += s.Weight
		held[s.ID] = 0
	}
	orphans := 0
	for _, i := range c.agents {
		if _, found := held[at(i)]; found {
			held[at(i)]++
		} else {
			orphans++
		}
	}
	if total == 0 {
		return 0
	}
	surplus, spare, usable := 0, n, 0
	for _, s := range c.servers {
		whole := n * s.Weight / total
		spare -= whole
		surplus += max(0, held[s.ID]-whole)
		if held[s.ID] > whole && n*s.Weight%total > 0 {
			usable++
		}
	}
	return orphans + surplus - min(spare, usable)
}
