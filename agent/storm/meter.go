package storm

import "time"

// meter counts events within the second that ends with each.
type meter struct {
	recent []time.Duration // oldest first, from next on
	next   int
	peak   int
	total  int
}

// within tells how many events there were in the last second.
func (m *meter) within(now time.Duration) int {
	for m.next < len(m.recent) && now-m.recent[m.next] >= time.Second {
		m.next++
	}
	if m.next > len(m.recent)/2 {
		m.recent = m.recent[:copy(m.recent, m.recent[m.next:])]
		m.next = 0
	}
	return len(m.recent) - m.next
}

func (m *meter) count(now time.Duration) {
	m.peak = max(m.peak, m.within(now)+1)
	m.recent = append(m.recent, now)
	m.total++
}
