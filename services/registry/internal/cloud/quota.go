package cloud

import (
	"cmp"
	"slices"
)

// quotas shares n agents out by weight, by largest remainder: each server gets the whole part of its share or one more. An agent left
// over goes first to a server that holds more than the whole part of its share already, so that none moves for a fraction; then to the
// largest fraction; then to the lowest id, which comes first in weights.
func quotas(n int, weights, held []int) []int {
	total := 0
	for _, w := range weights {
		total += w
	}
	quota := make([]int, len(weights))
	left := n
	var fractional []int
	for i, w := range weights {
		quota[i] = n * w / total
		left -= quota[i]
		if n*w%total > 0 {
			fractional = append(fractional, i)
		}
	}
	holds := func(i int) int {
		if held[i] > quota[i] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(fractional, func(a, b int) int {
		return cmp.Or(cmp.Compare(holds(a), holds(b)), cmp.Compare(n*weights[b]%total, n*weights[a]%total))
	})
	for _, i := range fractional[:left] {
		quota[i]++
	}
	return quota
}
