package broker

import (
	"crypto/sha256"
	"fmt"
	"time"
)

// maxRemembered bounds a history: about 50 MB. What is older is forgotten before its time.
const maxRemembered = 1 << 20

// fingerprint stands for a message id, whatever its length.
type fingerprint [16]byte

// history is the ids of messages that were accepted within a window of time. Service Bus compares the partition key, too, but only
// in partitioned entities, which there are none of here. It is guarded by its destination's admission.
type history struct {
	window time.Duration
	known  map[fingerprint]struct{}
	past   []remembered // oldest first
	limit  int
}

type remembered struct {
	id fingerprint
	at time.Time
}

func newHistory(window time.Duration) *history {
	return &history{window: window, known: map[fingerprint]struct{}{}, limit: maxRemembered}
}

// identify answers the fingerprint of a message's id, and false if it has none.
func identify(c *content) (fingerprint, bool) {
	var id []byte
	switch v := c.Properties().MessageID.(type) {
	case nil:
		return fingerprint{}, false
	case string:
		id = []byte(v)
	case []byte:
		id = v
	default:
		id = fmt.Append(nil, v)
	}
	sum := sha256.Sum256(id)
	return fingerprint(sum[:16]), len(id) > 0
}

// fresh answers the messages that are no duplicates, of those before or of each other.
func (h *history) fresh(batch []*parcel, now time.Time) []*parcel {
	h.forget(now)
	var fresh []*parcel
	seen := map[fingerprint]struct{}{}
	for _, p := range batch {
		if id, ok := identify(p.content); ok && !p.accepted {
			_, before := h.known[id]
			_, beside := seen[id]
			if before || beside {
				continue
			}
			seen[id] = struct{}{}
		}
		fresh = append(fresh, p)
	}
	return fresh
}

// remember notes messages that have been accepted.
func (h *history) remember(batch []*parcel, now time.Time) {
	for _, p := range batch {
		id, ok := identify(p.content)
		if _, known := h.known[id]; ok && !known {
			h.known[id] = struct{}{}
			h.past = append(h.past, remembered{id, now})
		}
	}
	h.forget(now)
}

func (h *history) forget(now time.Time) {
	n := 0
	for n < len(h.past) && (len(h.past)-n > h.limit || now.Sub(h.past[n].at) >= h.window) {
		delete(h.known, h.past[n].id)
		n++
	}
	h.past = h.past[n:]
}
