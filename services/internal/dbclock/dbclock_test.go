package dbclock

import (
	"strings"
	"testing"
	"time"
)

func TestStepsAreSeen(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	own := time.Now() // this process's monotonic clock; only differences count
	reading := func(database, passed time.Duration) Reading {
		return Reading{noon.Add(database), own.Add(passed), own.Add(passed)}
	}
	slow := func(database, asked, came time.Duration) Reading {
		return Reading{noon.Add(database), own.Add(asked), own.Add(came)}
	}
	for _, c := range []struct {
		name        string
		seen        time.Duration
		before, now Reading
		want        time.Duration
	}{
		{"time passes", 0, reading(0, 0), reading(3*time.Second, 3*time.Second), 0},
		{"a reading that took its time", 0, reading(0, 0), reading(3*time.Second, 8*time.Second), 0},
		{"a first reading that came late", 0, slow(0, 0, 10*time.Second), slow(13*time.Second, 13*time.Second, 13*time.Second), 0},
		{"a second reading that was asked for early", 0, slow(0, 0, 0), slow(13*time.Second, time.Second, 13*time.Second), 0},
		{"a small correction", 0, reading(0, 0), reading(-4*time.Second, 3*time.Second), 0},
		{"back by an hour", 0, reading(0, 0), reading(-time.Hour+3*time.Second, 3*time.Second), -time.Hour + 3*time.Second},
		{"back, seen by a process that just began", 0, Reading{}, reading(-time.Hour, 0), -time.Hour},
		{"ahead by an hour", 0, reading(0, 0), reading(time.Hour+3*time.Second, 3*time.Second), time.Hour},
		{"ahead, and another replica saw it first", time.Hour + time.Second, reading(0, 0), reading(time.Hour+3*time.Second, 3*time.Second), 0},
		{"this process stood still, others did not", 10*time.Minute - 2*time.Second, reading(0, 0), reading(10*time.Minute, time.Second), 0},
		{"everything was stopped for an hour", 0, Reading{}, reading(time.Hour, 0), 0},
		{"a failover to a host that is 7 s behind", 0, reading(0, 0), reading(-6*time.Second, time.Second), -6 * time.Second},
	} {
		next, step := State{SeenAt: noon.Add(c.seen)}.Look(c.before, c.now)
		if step != c.want || !next.SeenAt.Equal(c.now.At) || next.SteppedAt.IsZero() != (c.want == 0) {
			t.Errorf("%s: %s, %+v; want %s", c.name, step, next, c.want)
		}
	}
	if _, step := (State{}).Look(reading(0, 0), reading(time.Hour, 0)); step != 0 {
		t.Error("a clock that was never seen was stepped by", step)
	}
}

func TestAStepIsToldForAWhile(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	state := State{SteppedAt: at, Step: -time.Hour}
	if told := state.Banner(at.Add(time.Minute)); !strings.Contains(told, "stepped back by 1h0m0s, at 2026-01-02 12:00:00 UTC") {
		t.Error(told)
	}
	const stoodStill = "or this service's machine stood still"
	if strings.Contains(state.Banner(at), stoodStill) {
		t.Error("a step back has one cause only:", state.Banner(at))
	}
	if ahead := (State{SteppedAt: at, Step: time.Hour}).Banner(at); !strings.Contains(ahead, "stepped ahead by 1h0m0s") || !strings.Contains(ahead, stoodStill) {
		t.Error(ahead)
	}
	if told := state.Banner(at.Add(Shown)) + (State{}).Banner(at); told != "" {
		t.Error("still told:", told)
	}
}
