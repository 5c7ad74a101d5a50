package ingress

import (
	"crypto/sha256"
	"sync"
	"time"
)

// hash is the SHA-256 of an agent's token.
type hash [sha256.Size]byte

// presence is which agents this control server served lately. An agent is in it by its token, so that a known name alone lets nobody
// past the limit for connects; and only after the registry took a heartbeat of it, so that it is never larger than the fleet.
type presence struct {
	lifetime time.Duration

	mu    sync.Mutex
	seen  map[hash]time.Time
	empty chan struct{} // closed when nobody is left; nil while nobody waits for that
}

func newPresence(lifetime time.Duration) *presence {
	return &presence{lifetime: lifetime, seen: map[hash]time.Time{}}
}

// known tells whether an agent was served lately. That it calls again keeps it so, however this call ends.
func (p *presence) known(who hash, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, found := p.seen[who]
	if !found || now.Sub(at) > p.lifetime {
		return false
	}
	p.seen[who] = now
	return true
}

func (p *presence) add(who hash, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[who] = now
}

// leave notes that an agent was told to go.
func (p *presence) leave(who hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen, who)
	p.tellEmpty()
}

// count is how many are there.
func (p *presence) count(now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for who, at := range p.seen {
		if now.Sub(at) > p.lifetime {
			delete(p.seen, who)
		}
	}
	p.tellEmpty()
	return len(p.seen)
}

// emptied is closed once nobody is left.
func (p *presence) emptied() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.empty == nil {
		p.empty = make(chan struct{})
	}
	waited := p.empty
	p.tellEmpty()
	return waited
}

func (p *presence) tellEmpty() {
	if p.empty != nil && len(p.seen) == 0 {
		close(p.empty)
		p.empty = nil
	}
}
