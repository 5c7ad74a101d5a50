package cloud

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// checkWorlds checks a rule after fresh assignments, after such from any stored state, and after changes of a settled cloud. The rule sees
// the world before and after, and what the assignment said.
func checkWorlds(t *testing.T, rule func(t *rapid.T, before, after *world, out Assignment)) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range rapid.IntRange(1, 4).Draw(t, "partitions") {
			before := *w
			out := w.settle(t)
			rule(t, &before, w, out)
			w.disturb(t)
		}
	})
}

func TestI16_EveryListIsAPermutationInTierOrder(t *testing.T) {
	checkWorlds(t, func(t *rapid.T, _, w *world, _ Assignment) {
		for _, a := range w.agents {
			list := w.d.List(a)
			ids := slices.Sorted(slices.Values(list))
			var all []int64
			for _, s := range w.d.Servers() {
				all = append(all, s.ID)
			}
			if !slices.Equal(ids, all) {
				t.Fatalf("%v is no permutation of %v", list, all)
			}
			if list[0] != a.Primary || len(list) > 1 && list[1] != a.Secondary || len(list) == 1 && a.Secondary != 0 {
				t.Fatalf("%v does not begin with primary %d, secondary %d", list, a.Primary, a.Secondary)
			}
			if !slices.IsSortedFunc(list, func(x, y int64) int { return w.level(x, a.Group) - w.level(y, a.Group) }) {
				t.Fatalf("group %d: %v is not in the order of tiers; %+v", a.Group, list, w.d.Servers())
			}
		}
	})
}

func TestI16_ListIsAPermutationWhateverIsStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for _, a := range w.agents {
			list := w.d.List(a)
			slices.Sort(list)
			if len(slices.Compact(list)) != len(w.d.Servers()) {
				t.Fatalf("%v for %+v", list, a)
			}
			a.Primary, a.Secondary = 0, 0 // as one that registers: affinity comes first at once
			list = w.d.List(a)
			if !slices.IsSortedFunc(list, func(x, y int64) int { return w.level(x, a.Group) - w.level(y, a.Group) }) {
				t.Fatalf("not assigned, group %d: %v is not in the order of tiers", a.Group, list)
			}
		}
	})
}

func TestI16_StandbyIsNoPrimaryButOfItsGroup(t *testing.T) {
	checkWorlds(t, func(t *rapid.T, _, w *world, _ Assignment) {
		active := slices.ContainsFunc(w.d.Servers(), func(s Server) bool { return !s.Standby })
		for _, a := range w.agents {
			if s, _ := w.d.Server(a.Primary); active && s.Standby && (s.Group == 0 || s.Group != a.Group) {
				t.Fatalf("agent %+v has the standby %+v", a, s)
			}
		}
	})
}

func within(t *rapid.T, what string, crowds map[[2]int64]*crowd, at func(i int) int64) {
	for key, c := range crowds {
		counted, total := map[int64]int{}, 0
		for _, i := range c.agents {
			counted[at(i)]++
		}
		for _, s := range c.servers {
			total += s.Weight
		}
		for _, s := range c.servers {
			share := float64(len(c.agents)) * float64(s.Weight) / float64(total)
			if d := float64(counted[s.ID]) - share; d >= 1 || d <= -1 {
				t.Fatalf("%s of %v: server %d has %d, its share is %.2f; %v", what, key, s.ID, counted[s.ID], share, counted)
			}
			delete(counted, s.ID)
		}
		if len(c.servers) == 0 {
			delete(counted, 0)
		}
		if len(counted) > 0 {
			t.Fatalf("%s of %v: not of the best tier: %v", what, key, counted)
		}
	}
}

func TestI16_PrimariesWithinOneOfWeightedQuota(t *testing.T) {
	checkWorlds(t, func(t *rapid.T, _, w *world, _ Assignment) {
		within(t, "primaries", w.primaryCrowds(), func(i int) int64 { return w.agents[i].Primary })
	})
}

func TestI16_SecondariesWithinOneOfWeightedQuotaPerPrimary(t *testing.T) {
	checkWorlds(t, func(t *rapid.T, _, w *world, _ Assignment) {
		within(t, "secondaries", w.secondaryCrowds(), func(i int) int64 { return w.agents[i].Secondary })
	})
}

func TestI16_PrimariesMovedAreOrphansAndSurplus(t *testing.T) {
	checkWorlds(t, func(t *rapid.T, before, after *world, out Assignment) {
		want := 0
		for _, c := range before.primaryCrowds() {
			want += c.fewest(func(i int) int64 { return before.agents[i].Primary })
		}
		moved, placed := 0, 0
		for i, a := range after.agents {
			switch was := before.agents[i].Primary; {
			case was == 0:
				placed++
			case was != a.Primary:
				moved++
			}
		}
		if placed+moved != want || out.Placed != placed || out.PrimariesMoved != moved {
			t.Fatalf("placed %d, moved %d, said %d and %d; orphans and surplus are %d", placed, moved, out.Placed, out.PrimariesMoved, want)
		}
	})
}

// Of the agents that keep their primary. The others come to it as orphans, and their rows are written anyway.
func TestI16_SecondariesMovedAreOrphansAndSurplus(t *testing.T) {
	checkWorlds(t, func(t *rapid.T, before, after *world, out Assignment) {
		stayed := func(i int) bool { return before.agents[i].Primary == after.agents[i].Primary }
		want, moved, rows, changed := 0, 0, 0, 0
		for _, c := range after.secondaryCrowds() {
			want += c.fewest(func(i int) int64 {
				if !stayed(i) {
					return 0
				}
				return before.agents[i].Secondary
			})
		}
		for i, a := range after.agents {
			was := before.agents[i]
			if len(after.d.Servers()) > 1 && (!stayed(i) || was.Secondary != a.Secondary) {
				moved++
			}
			if was != a {
				rows++
			}
			if was.Secondary != 0 && was.Secondary != a.Secondary {
				changed++
			}
		}
		if moved != want || rows != len(out.Moves) || changed != out.SecondariesMoved {
			t.Fatalf("moved %d, orphans and surplus are %d; %d rows changed and %d moves; %d had another secondary, said %d",
				moved, want, rows, len(out.Moves), changed, out.SecondariesMoved)
		}
	})
}

// Who goes and who comes: the least drawn go, and each comes where it is drawn most, unless agents of lower keys filled that server.
func TestI16_RendezvousChoosesWhoMoves(t *testing.T) {
	checkWorlds(t, func(t *rapid.T, before, after *world, _ Assignment) {
		drawn := func(i int, id int64) uint64 {
			s, _ := after.d.Server(id)
			return score(after.agents[i].Hash, Hash(s.Name))
		}
		for _, c := range before.primaryCrowds() {
			last := map[int64]int{} // the highest index that came
			for _, i := range c.agents {
				if before.agents[i].Primary != after.agents[i].Primary {
					last[after.agents[i].Primary] = i
				}
			}
			for _, i := range c.agents {
				was, is := before.agents[i].Primary, after.agents[i].Primary
				for _, j := range c.agents {
					if was == is && before.agents[j].Primary == was && after.agents[j].Primary != was && drawn(j, was) > drawn(i, was) {
						t.Fatalf("agent %d left %d, and %d, less drawn to it, stayed", after.agents[j].Key, was, after.agents[i].Key)
					}
				}
				for id, came := range last {
					if was != is && came > i && drawn(i, id) > drawn(i, is) {
						t.Fatalf("agent %d came to %d, though more drawn to %d, which was open", after.agents[i].Key, is, id)
					}
				}
			}
		}
	})
}

func TestI16_OrderOfTheInputDoesNotCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		if rapid.Bool().Draw(t, "settled") {
			w.settle(t)
			w.disturb(t)
		}
		want, err := w.d.Assign(w.agents)
		if err != nil {
			t.Fatal(err)
		}
		agents, servers := shuffled(t, w.agents), shuffled(t, w.d.Servers())
		given := slices.Clone(agents)
		d, err := NewDirectory(w.d.Version, servers)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Assign(agents)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\ngot  %v\nwant %v", err, got, want)
		}
		if !slices.Equal(given, agents) {
			t.Fatal("the input was changed")
		}
		for _, a := range agents {
			if !slices.Equal(d.List(a), w.d.List(a)) {
				t.Fatalf("lists of %+v differ", a)
			}
		}
	})
}

func TestI16_UnchangedCloudMovesNobody(t *testing.T) {
	checkWorlds(t, func(t *rapid.T, _, w *world, first Assignment) {
		again, err := w.d.Assign(w.agents)
		if err != nil || len(again.Moves) > 0 {
			t.Fatalf("%v %v", err, again.Moves)
		}
		for i, pool := range again.Pools {
			for j, share := range pool.Shares {
				if share.Held != share.Quota || share.Quota != first.Pools[i].Shares[j].Quota {
					t.Fatalf("pool %d: %+v, before %+v", pool.Group, share, first.Pools[i].Shares[j])
				}
			}
		}
	})
}

func TestI16_QuotasAreTheCounts(t *testing.T) {
	checkWorlds(t, func(t *rapid.T, before, after *world, out Assignment) {
		got, want := map[[3]int64]int{}, map[[3]int64]int{}
		for _, pool := range out.Pools {
			for _, share := range pool.Shares {
				got[[3]int64{pool.Group, share.Server, 0}] += share.Held
				got[[3]int64{pool.Group, share.Server, 1}] += share.Quota
			}
		}
		for key, c := range before.primaryCrowds() {
			for _, s := range c.servers {
				for _, i := range c.agents {
					if before.agents[i].Primary == s.ID {
						want[[3]int64{key[0], s.ID, 0}]++
					}
					if after.agents[i].Primary == s.ID {
						want[[3]int64{key[0], s.ID, 1}]++
					}
				}
			}
		}
		maps.DeleteFunc(got, func(_ [3]int64, n int) bool { return n == 0 })
		if !maps.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// The tails of one agent, of all servers but those that are its primary or secondary before or after.
func TestI16_JoinOrLeaveKeepsTheOrderOfTails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := drawWorld(t)
		if len(few.d.Servers()) < 2 {
			return
		}
		few.settle(t)
		many := &world{agents: few.agents}
		joining := rapid.Int64Range(1, 13).Filter(func(id int64) bool { return few.d.position(id) == none }).Draw(t, "joining")
		many.list(t, append(few.d.Servers(), drawServer(t, joining, true, false)))
		many.settle(t)
		for i := range few.agents {
			a, b := few.agents[i], many.agents[i]
			heads := []int64{joining, a.Primary, a.Secondary, b.Primary, b.Secondary}
			tail := func(w *world, a Agent) []int64 {
				return slices.DeleteFunc(w.d.List(a), func(id int64) bool { return slices.Contains(heads, id) })
			}
			if x, y := tail(few, a), tail(many, b); !slices.Equal(x, y) {
				t.Fatalf("without it %v, with it %v", x, y)
			}
		}
	})
}
