package probe

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

// Round is what one round showed of each of its subjects. Who was no target is unfinished in it.
type Round map[Subject]verdict.Probe

// Round pings each target once, in random order, the starts spread over half of the interval. The other half is for those that hang.
// It is cut at the interval, or when ctx ends: what is not finished then stays unfinished.
func (p *Prober) Round(ctx context.Context, targets []Target, interval time.Duration) Round {
	began := time.Now()
	ctx, end := cutAfter(ctx, interval)
	defer end()
	starts := plan(targets, interval/2, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	probes := p.run(ctx, starts)
	round := make(Round, len(starts))
	for i, s := range starts {
		round[s.Subject()] = probes[i]
	}
	p.Metrics.observe(probes, time.Since(began))
	return round
}

// start is when a target is pinged, after the beginning of the round.
type start struct {
	Target
	after time.Duration
}

// plan gives each target, in random order, a random instant in its own part of the spread.
func plan(targets []Target, spread time.Duration, random *rand.Rand) []start {
	starts := make([]start, len(targets))
	for i, from := range random.Perm(len(targets)) {
		part := (float64(i) + random.Float64()) / float64(len(targets))
		starts[i] = start{Target: targets[from], after: time.Duration(part * float64(spread))}
	}
	return starts
}

// run gives a probe for each start; a start is late while too many are in flight. It returns when none is in flight any more.
func (p *Prober) run(ctx context.Context, starts []start) []verdict.Probe {
	began := time.Now()
	probes := make([]verdict.Probe, len(starts)) // unfinished, all
	slots := make(chan struct{}, cmp.Or(p.Parallel, defaultParallel))
	var running sync.WaitGroup
	var inFlight counter
	for i, s := range starts {
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(began.Add(s.after))):
		}
		select {
		case <-ctx.Done():
		case slots <- struct{}{}:
		}
		if ctx.Err() != nil {
			break
		}
		running.Go(func() {
			defer func() { <-slots }()
			inFlight.add(1)
			defer inFlight.add(-1)
			probes[i] = p.probe(ctx, s.Target)
		})
	}
	running.Wait()
	p.Metrics.Most.Set(float64(inFlight.most))
	return probes
}

// counter counts up and down, and remembers the most it was.
type counter struct {
	mu        sync.Mutex
	now, most int
}

func (c *counter) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.most = max(c.most, c.now)
}

// cutAfter gives a context that is cancelled with ctx, or after the interval. It has no deadline: a dialer that saw one could give up
// a moment before it, and a cut would look like an agent that did not answer in time.
func cutAfter(ctx context.Context, interval time.Duration) (context.Context, context.CancelFunc) {
	round, cut := context.WithCancel(context.WithoutCancel(ctx))
	if ctx.Err() != nil {
		cut()
	}
	stop := context.AfterFunc(ctx, cut)
	timer := time.AfterFunc(interval, cut)
	return round, func() { stop(); timer.Stop(); cut() }
}
