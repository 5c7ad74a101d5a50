package cloud

// roundRobin is the baseline, as the source this is modelled on describes it: "A1: S1, S2, S3; A2: S2, S3, S1; A3: S3, S1, S2".
func roundRobin(agents, servers int) [][]int64 {
	lists := make([][]int64, agents)
	for a := range lists {
		for s := range servers {
			lists[a] = append(lists[a], int64((a+s)%servers+1))
		}
	}
	return lists
}

func (w *world) lists() [][]int64 {
	var lists [][]int64
	for _, a := range w.agents {
		lists = append(lists, w.d.List(a))
	}
	return lists
}

// worstAfterFailure lets each server fail in turn, its agents going to their secondaries: the most any survivor then has, by the mean.
func worstAfterFailure(lists [][]int64, servers int) float64 {
	worst := 0
	for failed := int64(1); failed <= int64(servers); failed++ {
		load := map[int64]int{}
		for _, list := range lists {
			at := list[0]
			if at == failed {
				at = list[1]
			}
			load[at]++
			worst = max(worst, load[at])
		}
	}
	return float64(worst) / (float64(len(lists)) / float64(servers-1))
}

// firstsMoved is how many agents change their primary.
func firstsMoved(before, after [][]int64) int {
	moved := 0
	for i := range before {
		if before[i][0] != after[i][0] {
			moved++
		}
	}
	return moved
}
