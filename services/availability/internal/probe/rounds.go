package probe

import (
	"sync"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

// History is the last rounds, newest first. It does not change.
type History [verdict.ProbeRounds]Round

// Of gives what the rounds showed of a target, newest first. One history serves a whole sweep, so that a round has the same index in
// all of its agents.
func (h History) Of(t Target) [verdict.ProbeRounds]verdict.Probe {
	var probes [verdict.ProbeRounds]verdict.Probe
	subject := t.Subject()
	for i, round := range h {
		probes[i] = round[subject]
	}
	return probes
}

// Rounds keeps the last rounds. Its zero value knows none. It is safe for concurrent use.
type Rounds struct {
	mu   sync.Mutex
	last History
}

// Add adds the newest round, which must not be changed any more. A round that did not happen is nil, and counts.
func (r *Rounds) Add(round Round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	copy(r.last[1:], r.last[:])
	r.last[0] = round
}

// History gives the last rounds.
func (r *Rounds) History() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}
