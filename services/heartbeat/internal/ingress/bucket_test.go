package ingress

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestBucketLetsATenthOfASecondsWorthInAtOnce(t *testing.T) {
	b := newBucket(200, start)
	for i := range 20 {
		if _, taken := b.take(start, 0); !taken {
			t.Fatalf("connect %d is refused", i)
		}
	}
	if delay, taken := b.take(start, 0); taken || delay != 5*time.Millisecond {
		t.Errorf("the 21st: %v after %s", taken, delay)
	}
	if _, taken := b.take(start.Add(5*time.Millisecond), 0); !taken {
		t.Error("a token that is due is withheld")
	}
	if _, taken := b.take(start.Add(5*time.Millisecond), 0); taken {
		t.Error("a token is given twice")
	}
	// An hour of nobody earns no more than a tenth of a second; a clock that goes back earns nothing.
	later := start.Add(time.Hour)
	got := 0
	for range 1000 {
		if _, taken := b.take(later, 0); taken {
			got++
		}
	}
	if _, taken := b.take(start, 0); taken || got != 20 {
		t.Errorf("%d at once after an hour, %v when the clock went back", got, taken)
	}
}

// visits are the times at which agents come, the earliest first.
type visits []time.Time

func (v visits) Len() int           { return len(v) }
func (v visits) Less(i, j int) bool { return v[i].Before(v[j]) }
func (v visits) Swap(i, j int)      { v[i], v[j] = v[j], v[i] }
func (v *visits) Push(one any)      { *v = append(*v, one.(time.Time)) }
func (v *visits) Pop() any {
	last := (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	return last
}

// However many come at once: the refused come back evenly, never are more let in within a second than the rate and what was saved up, and all are in not
// long after the rate allows it.
func TestTheRefusedComeBackEvenly(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rate := rapid.IntRange(1, 300).Draw(r, "rate")
		agents := rapid.IntRange(1, 30*rate).Draw(r, "agents")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
		b, queue := newBucket(rate, start), make(visits, agents)
		for i := range queue {
			queue[i] = start
		}
		came, admitted, last := map[time.Duration]int{}, map[time.Duration]int{}, start
		for len(queue) > 0 {
			at := heap.Pop(&queue).(time.Time)
			second := at.Sub(start).Truncate(time.Second)
			came[second]++
			delay, taken := b.take(at, random.Float64())
			if taken {
				admitted[second]++
				last = at
				continue
			}
			if delay <= 0 || delay > maxDelay {
				r.Fatalf("asked to come back after %s", delay)
			}
			heap.Push(&queue, at.Add(delay))
		}
		delete(came, 0) // all at once, which nobody could help
		for second, n := range came {
			if n > 2*rate+4 {
				r.Fatalf("%d come in second %s, at a rate of %d", n, second, rate)
			}
			if n := admitted[second]; float64(n) > 1.1*float64(rate)+1 {
				r.Fatalf("%d are let in within second %s, at a rate of %d", n, second, rate)
			}
		}
		allowed := time.Duration(float64(agents) / float64(rate) * float64(time.Second))
		if took := last.Sub(start); took > 2*allowed+10*time.Second {
			r.Fatalf("the last of %d comes in after %s, at a rate of %d", agents, took, rate)
		}
	})
}

// Of more than can be let in within the longest delay, nobody is asked to wait longer, and they are spread over it.
func TestTooManyAreSpreadOverTheLongestDelay(t *testing.T) {
	b := newBucket(10, start)
	var delays []time.Duration
	for i := range 10_000 {
		if delay, taken := b.take(start, float64(i%100)/100); !taken {
			delays = append(delays, delay)
		}
	}
	slices.Sort(delays)
	if most := delays[len(delays)-1]; most > maxDelay {
		t.Errorf("asked to come after %s", most)
	}
	if median := delays[len(delays)/2]; median < maxDelay/3 || median > 2*maxDelay/3 {
		t.Errorf("half come within %s", median)
	}
}

func TestPresence(t *testing.T) {
	p := newPresence(90 * time.Second)
	one, two := hash{1}, hash{2}
	if p.known(one, start) || p.count(start) != 0 {
		t.Error("somebody is known who never came")
	}
	p.add(one, start)
	p.add(two, start.Add(time.Minute))
	if !p.known(one, start.Add(90*time.Second)) { // and is known for as long again
		t.Error("forgotten too soon")
	}
	if n := p.count(start.Add(170 * time.Second)); n != 1 || !p.known(one, start.Add(170*time.Second)) || p.known(two, start.Add(170*time.Second)) {
		t.Errorf("%d are there", n)
	}
	emptied := p.emptied()
	select {
	case <-emptied:
		t.Error("nobody is left, while one is")
	default:
	}
	p.leave(one)
	<-emptied
	<-p.emptied() // as soon as it is asked
}
