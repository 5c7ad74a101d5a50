package probe

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

const interval = 15 * time.Second

// Each target has one start, in its own part of the spread.
func TestPlanSpreadsTheStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := targets(rapid.IntRange(0, 300).Draw(t, "targets"))
		spread := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "spread"))
		starts := plan(all, spread, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		planned := make([]Target, 0, len(starts))
		for i, s := range starts {
			planned = append(planned, s.Target)
			part := float64(spread) / float64(len(all))
			if from, to := time.Duration(part*float64(i)), time.Duration(part*float64(i+1)); s.after < from-1 || s.after > to+1 {
				t.Fatalf("start %d of %d is at %s of %s", i, len(all), s.after, spread)
			}
		}
		slices.SortFunc(planned, func(a, b Target) int { return int(a.ServerKey - b.ServerKey) })
		if !slices.Equal(planned, all) {
			t.Fatalf("planned %v", planned)
		}
	})
}

// Another round has another order and other instants.
func TestPlanIsRandom(t *testing.T) {
	var plans [2][]start
	for i := range plans {
		plans[i] = plan(targets(100), time.Second, rand.New(rand.NewPCG(uint64(i), 0)))
	}
	sameOrder, sameInstant := true, false
	for i := range plans[0] {
		sameOrder = sameOrder && plans[0][i].Target == plans[1][i].Target
		sameInstant = sameInstant || plans[0][i].after == plans[1][i].after
	}
	if sameOrder || sameInstant {
		t.Errorf("%v\n%v", plans[0], plans[1])
	}
}

// A tenth hangs, and all are done with in time: never more than 64 at once, never all at once, each once.
func TestARoundEndsInTimeThoughATenthHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := targets(2000)
		p, f := prober(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Host, "7") {
				return hangs(r)
			}
			time.Sleep(50 * time.Millisecond)
			return answers(r)
		})
		began := time.Now()
		round := p.Round(t.Context(), all, interval)
		if took := time.Since(began); took >= interval || took < interval/2 {
			t.Errorf("it took %s", took)
		}
		counted := count(t, round, all)
		if counted[verdict.Succeeded] != 1800 || counted[verdict.Failed] != 200 {
			t.Errorf("outcomes %v", counted)
		}
		if got := round[target(7).Subject()].Error; !strings.Contains(got, "timed out") {
			t.Errorf("a hanging agent %q", got)
		}
		if f.most > 64 || f.inFlight != 0 {
			t.Errorf("%d were in flight, %d are", f.most, f.inFlight)
		}
		if asked := slices.Compact(slices.Sorted(slices.Values(f.asked))); len(f.asked) != 2000 || len(asked) != 2000 || slices.IsSorted(f.asked) {
			t.Errorf("%d were asked %d times, or in their order", len(asked), len(f.asked))
		}
	})
}

func TestI11_ACutRoundIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := targets(200)
		p, f := prober(hangs)
		began := time.Now()
		round := p.Round(t.Context(), all, time.Second) // before the first of them times out
		if took := time.Since(began); took != time.Second {
			t.Errorf("it was cut after %s", took)
		}
		if counted := count(t, round, all); counted[verdict.Unfinished] != len(all) {
			t.Errorf("outcomes %v", counted)
		}
		if f.most != 64 || len(f.asked) != 64 || f.inFlight != 0 {
			t.Errorf("%d were in flight, %d asked, %d are in flight", f.most, len(f.asked), f.inFlight)
		}
	})
}

// What ended before the cut counts; so many that hang that they are not all through are failed as far as they timed out.
func TestI11_ACutRoundKeepsWhatItKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := targets(2000)
		p, f := prober(hangs)
		counted := count(t, p.Round(t.Context(), all, interval), all)
		// 64 each 2 s, of which the last were begun less than 2 s ago
		if counted[verdict.Succeeded] != 0 || counted[verdict.Failed] != 7*64 || counted[verdict.Unfinished] != 2000-7*64 {
			t.Errorf("outcomes %v", counted)
		}
		if f.most != 64 || len(f.asked) != 8*64 {
			t.Errorf("%d were in flight, %d asked", f.most, len(f.asked))
		}
		if told := testutil.ToFloat64(p.Metrics.Most); told != 64 {
			t.Errorf("the metric tells of %v in flight", told)
		}
		p, _ = prober(refuses)
		p.Parallel = 1
		if counted := count(t, p.Round(t.Context(), targets(10), time.Second), targets(10)); counted[verdict.Failed] != 10 {
			t.Errorf("outcomes of refusals %v", counted)
		}
	})
}

// dialer gives up at the deadline it sees, a moment before the context does.
func dialer(r *http.Request) (*http.Response, error) {
	deadline, _ := r.Context().Deadline()
	select {
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	case <-time.After(time.Until(deadline) - 1):
		return nil, os.ErrDeadlineExceeded
	}
}

func TestI11_ACutIsNoTimeoutOfAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := prober(dialer)
		all := targets(10)
		if counted := count(t, p.Round(t.Context(), all, time.Second), all); counted[verdict.Unfinished] != len(all) {
			t.Errorf("cut at the interval: %v", counted)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // as long as a lease, say
		defer cancel()
		if counted := count(t, p.Round(ctx, all, interval/10), all); counted[verdict.Unfinished] != len(all) {
			t.Errorf("cut at the caller's deadline: %v", counted)
		}
		if counted := count(t, p.Round(t.Context(), all, interval), all); counted[verdict.Failed] != len(all) {
			t.Errorf("not cut: %v", counted)
		}
	})
}

func TestI11_ShuttingDownFailsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := targets(100)
		p, f := prober(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Host, "7") {
				return answers(r)
			}
			return hangs(r)
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		counted := count(t, p.Round(ctx, all, interval), all)
		if took := time.Since(began); took != time.Second || counted[verdict.Failed] != 0 || counted[verdict.Unfinished] < 90 {
			t.Errorf("after %s: %v", took, counted)
		}
		f.asked = nil
		counted = count(t, p.Round(ctx, all, interval), all)
		if time.Since(began) != time.Second || counted[verdict.Unfinished] != len(all) || len(f.asked) != 0 {
			t.Errorf("begun when it was over already: %v, asked %v", counted, f.asked)
		}
		over, end := cutAfter(ctx, interval)
		defer end()
		if over.Err() == nil {
			t.Error("what is over already may still begin")
		}
	})
}

func TestARoundOfNobodyEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := prober(answers)
		began := time.Now()
		if round := p.Round(t.Context(), nil, interval); len(round) != 0 || !began.Equal(time.Now()) {
			t.Errorf("%v after %s", round, time.Since(began))
		}
	})
}

func TestARoundIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var during float64
		p, _ := prober(nil)
		metrics := prometheus.NewRegistry()
		p.Metrics, p.Timeout, p.Parallel = NewMetrics(metrics), 10*time.Second, 1
		p.Anonymous = &http.Client{Transport: serving(func(r *http.Request) (*http.Response, error) {
			during = testutil.ToFloat64(p.Metrics.InFlight)
			switch r.URL.Host {
			case "bm-0000":
				return answers(r)
			case "bm-0001":
				return refuses(r)
			}
			return hangs(r)
		})}
		all := targets(2)
		p.Round(t.Context(), all, interval)
		p.Round(t.Context(), []Target{target(2), target(3)}, time.Second)
		for outcome, want := range map[string]float64{"succeeded": 1, "failed": 1, "unfinished": 2} {
			if got := testutil.ToFloat64(p.Metrics.Probes.WithLabelValues(outcome)); got != want {
				t.Errorf("%v %s", got, outcome)
			}
		}
		if most := testutil.ToFloat64(p.Metrics.Most); most != 1 {
			t.Errorf("%v in flight at most", most)
		}
		if got := testutil.ToFloat64(p.Metrics.InFlight); got != 0 || during != 1 {
			t.Errorf("%v in flight, %v during a ping", got, during)
		}
		families, err := metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if rounds := family.GetMetric()[0].GetHistogram(); rounds != nil && rounds.GetSampleCount() != 2 {
				t.Errorf("%v", rounds)
			}
		}
	})
}
