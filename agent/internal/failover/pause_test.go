package failover

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestI11_NoPauseIsLongerThanThePublishedOne plays an outage of an hour, since availability waits for as long as the control plane publishes.
func TestI11_NoPauseIsLongerThanThePublishedOne(t *testing.T) {
	const published = 10 * time.Second
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		list := listOf("e1", "s1", "s2", "s3")
		list.LongestPause = published
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		d := NewDirect(DefaultConfig("reg:443"), list, now, random.Float64)
		longest := time.Duration(0)
		for end := now.Add(time.Hour); now.Before(end); {
			pause, limit := d.WakeAt().Sub(now), published
			if d.search.busy > 0 {
				limit = published * 5 / 4
			}
			if longest = max(longest, pause); pause > limit {
				t.Fatalf("seed %d: a pause of %s, and %s is published", seed, pause, limit)
			}
			now = d.WakeAt()
			var actions []Action
			d, actions = d.On(Tick{}, now, random.Float64)
			var called Server
			for _, action := range actions {
				switch a := action.(type) {
				case Heartbeat:
					called = a.Server
				case Register:
					called = a.Server
				}
			}
			now = now.Add(time.Duration(random.IntN(5000)) * time.Millisecond)
			why := []Reason{Down, Down, Down, Busy, Draining}[random.IntN(5)]
			d, _ = d.On(Failed{Server: called, Why: why, RetryAfter: time.Duration(random.IntN(100)) * time.Second}, now, random.Float64)
		}
		if longest < published/2 {
			t.Fatalf("seed %d: the longest pause was %s, so that nothing was bounded", seed, longest)
		}
	}
}

func TestAPublishedPauseOutOfRangeIsLeftOut(t *testing.T) {
	for _, pause := range []time.Duration{-time.Second, time.Millisecond, time.Hour} {
		list := listOf("e1", "s1")
		list.LongestPause = pause
		if got := list.Clean().LongestPause; got != 0 {
			t.Errorf("%s was taken as %s", pause, got)
		}
	}
}
