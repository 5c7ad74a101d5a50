package cloud

import (
	"math"

	"github.com/commandcenter/fleet/services/internal/spelling"
)

// Hash is the stable number of an agent's or a control server's name: that of all its spellings (I-13), on every replica and after every
// restart. It is FNV-1a over the folded name, by Fowler, Noll and Vo; mix spreads what FNV leaves alike in names that differ at the end.
func Hash(name string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	key := spelling.Fold(name)
	h := uint64(offset)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	return mix(h)
}

// mix is the finalizer of Steele, Lea and Flood's SplitMix64, with Stafford's constants (variant 13).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// score is the rendezvous hash of Thaler and Ravishankar: how much an agent is drawn to a server, whatever other servers there are.
func score(agent, server uint64) uint64 { return mix(agent ^ server) }

// weightedScore makes a server win in proportion to its weight: the logarithmic method of Schindelhauer and Schomaker. It draws afresh, so
// that who was chosen by score says nothing of who comes next. Logarithms of two kinds of processor may differ in their last bit, which
// orders two servers differently about once in 10^15.
func weightedScore(agent, server uint64, weight int) float64 {
	const unit = 1.0 / (1 << 53)
	u := (float64(mix(score(agent, server))>>11) + 0.5) * unit // between 0 and 1, neither included
	return -float64(weight) / math.Log(u)
}
