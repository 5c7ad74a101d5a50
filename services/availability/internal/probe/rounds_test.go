package probe

import (
	"sync"
	"testing"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

func failed(words string) verdict.Probe { return verdict.Probe{Outcome: verdict.Failed, Error: words} }

// failing is a round in which the targets failed.
func failing(words string, targets ...Target) Round {
	round := Round{}
	for _, t := range targets {
		round[t.Subject()] = failed(words)
	}
	return round
}

func TestHistoryIsTheLastRoundsNewestFirst(t *testing.T) {
	var rounds Rounds
	for _, words := range []string{"1", "2", "3", "4"} {
		rounds.Add(failing(words, target(1)))
	}
	before := rounds.History()
	rounds.Add(Round{target(1).Subject(): {Outcome: verdict.Succeeded}, target(2).Subject(): failed("5")})
	for name, row := range map[string]struct {
		got, want [verdict.ProbeRounds]verdict.Probe
	}{
		"before":   {before.Of(target(1)), [...]verdict.Probe{failed("4"), failed("3"), failed("2")}},
		"after":    {rounds.History().Of(target(1)), [...]verdict.Probe{{Outcome: verdict.Succeeded}, failed("4"), failed("3")}},
		"new":      {rounds.History().Of(target(2)), [...]verdict.Probe{failed("5"), {}, {}}},
		"no such":  {rounds.History().Of(target(3)), [verdict.ProbeRounds]verdict.Probe{}},
		"no round": {new(Rounds).History().Of(target(1)), [verdict.ProbeRounds]verdict.Probe{}},
	} {
		if row.got != row.want {
			t.Errorf("%s: %+v", name, row.got)
		}
	}
}

func TestI11_ARoundWithoutTheTargetIsUnknown(t *testing.T) {
	judged := func(rounds *Rounds, t Target) verdict.Availability {
		agent := verdict.Agent{Registration: verdict.Accepted, Linked: true, BaseURL: t.BaseURL, Probes: rounds.History().Of(t)}
		return verdict.Judge(agent, time.Time{}, time.Minute).Availability
	}
	renamed, moved := target(1), target(1)
	renamed.Agent, moved.BaseURL = "bm-9999", "http://bm-9999"
	all := []Target{target(1), target(2)}
	rounds := &Rounds{}
	for range verdict.ProbeRounds {
		if got := judged(rounds, target(1)); got != verdict.Unknown {
			t.Errorf("before all rounds failed it is %s", got)
		}
		rounds.Add(failing("refused", all...))
	}
	for name, row := range map[string]struct {
		target Target
		want   verdict.Availability
	}{
		"all failed":     {target(1), verdict.Unavailable},
		"another name":   {renamed, verdict.Unknown},
		"another URL":    {moved, verdict.Unknown},
		"never a target": {target(3), verdict.Unknown},
	} {
		if got := judged(rounds, row.target); got != row.want {
			t.Errorf("%s: it is %s", name, got)
		}
	}
	rounds.Add(failing("refused", moved, target(2)))
	if got := judged(rounds, moved); got != verdict.Unknown {
		t.Errorf("once failed at its new URL it is %s", got)
	}
	rounds.Add(nil) // a round that did not happen
	if got := judged(rounds, target(2)); got != verdict.Unknown {
		t.Errorf("after a round that did not happen it is %s", got)
	}
}

// The race detector looks on.
func TestRoundsAreSafeForConcurrentUse(t *testing.T) {
	var rounds Rounds
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				rounds.Add(failing("refused", target(1)))
				if probes := rounds.History().Of(target(1)); probes[2].Outcome != verdict.Unfinished && probes[1].Outcome == verdict.Unfinished {
					t.Errorf("%+v", probes)
				}
			}
		})
	}
	group.Wait()
}
