package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/commandcenter/fleet/agent"
	"github.com/commandcenter/fleet/agent/fleet"
)

const summaryInterval = 10 * time.Second

// summarise prints what happened every now and then, and once more when the context ends.
func summarise(ctx context.Context, out io.Writer, f *fleet.Fleet) {
	tick := time.NewTicker(summaryInterval)
	defer tick.Stop()
	began, before := time.Now(), agent.Stats{}
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-tick.C:
		}
		now, s := time.Now(), f.Stats()
		printSummary(out, now, s, before, now.Sub(began))
		began, before = now, s
	}
}

// printSummary prints the counts since the start, and rates since the summary before.
func printSummary(out io.Writer, now time.Time, s, before agent.Stats, passed time.Duration) {
	fmt.Fprintf(out, "%s heartbeats %d sent, %d failed; commands %d succeeded, %d failed, %d refused, %d not found, %d expired; "+
		"replies lost %d; goroutines %d\n", now.Format(time.TimeOnly), s.HeartbeatsSent, s.HeartbeatsFailed,
		s.Succeeded, s.Failed, s.Refused, s.NotFound, s.Expired, s.RepliesFailed, runtime.NumGoroutine())
	if s.Registrations+s.HeartbeatsAnswered+s.ListsAnswered+s.CallsBusy+s.CallsRefused+s.CallsFailed == 0 {
		return
	}
	rate := func(n, before int64) float64 { return float64(n-before) / passed.Seconds() }
	fmt.Fprintf(out, "%s control servers: heartbeats %d answered (%.1f/s), registrations %d, lists %d; connects %d (%.1f/s), failovers %d, returns %d; "+
		"calls %d busy, %d refused, %d failed\n", now.Format(time.TimeOnly),
		s.HeartbeatsAnswered, rate(s.HeartbeatsAnswered, before.HeartbeatsAnswered), s.Registrations, s.ListsAnswered,
		s.Connects, rate(s.Connects, before.Connects), s.Failovers, s.Returns, s.CallsBusy, s.CallsRefused, s.CallsFailed)
}
