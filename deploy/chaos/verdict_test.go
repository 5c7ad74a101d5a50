package chaos

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// Each thing that must not happen is noticed, and nothing else is.
func TestWhatMustNotHappenIsNoticed(t *testing.T) {
	asked := time.Now()
	begun := func(after ...time.Duration) map[string][]time.Time {
		var times []time.Time
		for _, d := range after {
			times = append(times, asked.Add(d))
		}
		return map[string][]time.Time{"job": times}
	}
	for name, row := range map[string]struct {
		answers []answered
		begun   map[string][]time.Time
		want    string // the check that fails; empty: none
	}{
		"done":                        {[]answered{saidDone}, begun(time.Millisecond), ""},
		"done, but not executed":      {[]answered{saidDone}, begun(), "answered done but not executed: 1"},
		"executed twice":              {[]answered{saidDone}, begun(1, 2), "executed more than once: 1"},
		"unknown, executed twice":     {[]answered{saidUnknown, saidDone}, begun(1, 2), "executed more than once: 1"},
		"unknown, executed":           {[]answered{saidUnknown}, begun(1), ""},
		"unknown, not executed":       {[]answered{saidUnknown}, begun(), ""},
		"begun after its budget":      {[]answered{saidUnknown}, begun(writeBudget + time.Second), "begun after their budget: 1"},
		"refused":                     {[]answered{saidNot}, begun(), ""},
		"refused, but executed":       {[]answered{saidNot}, begun(1), "answered as not done but executed: 1"},
		"refused once, unknown later": {[]answered{saidUnknown, saidNot}, begun(1), ""},
	} {
		var out bytes.Buffer
		v := &verdict{out: &out}
		v.tally(count([]*job{{name: "job", asked: []time.Time{asked}, answers: row.answers}}, row.begun))
		failed := strings.Contains(out.String(), "FAILED  "+row.want)
		if row.want == "" && v.failed != 0 || row.want != "" && (v.failed != 1 || !failed) {
			t.Errorf("%s:\n%s", name, out.String())
		}
	}
}

func TestWhatIsMissingOrStrangeAmongTheDeadIsNoticed(t *testing.T) {
	set := func(ids ...string) map[string]bool {
		found := map[string]bool{}
		for _, id := range ids {
			found[id] = true
		}
		return found
	}
	for name, row := range map[string]struct {
		dead, poison map[string]bool
		failed       int
	}{
		"all poison":        {set("p1", "p2"), set("p1", "p2"), 0},
		"one missing":       {set("p1"), set("p1", "p2"), 1},
		"a heartbeat there": {set("p1", "h"), set("p1"), 1},
		"both":              {set("h"), set("p1"), 2},
	} {
		v := &verdict{out: &bytes.Buffer{}}
		if v.poison(row.dead, row.poison); v.failed != row.failed {
			t.Errorf("%s: %d checks failed", name, v.failed)
		}
	}
}

// Rounds hold what the newest of each agent is, in whatever order they are sent.
func TestTheNewestHeartbeatIsTheHighestSent(t *testing.T) {
	h := newHeartbeats("", 50, 1)
	for range 200 {
		h.round()
	}
	if h.once != 200*newcomers || len(h.poison) == 0 || h.sent < 200*50 {
		t.Errorf("%d newcomers, %d poison, %d sent", h.once, len(h.poison), h.sent)
	}
	for i, newest := range h.newest {
		if newest.boot == 0 || newest.sequence == 0 {
			t.Errorf("agent %d: %+v", i, newest)
		}
	}
}

// A server that went offline while its agent spoke is noticed, and so is one that stayed online without it, or went offline twice.
func TestServersThatStandAsTheirAgentsDoNotAreNoticed(t *testing.T) {
	ended := []string{"WORK-2", "DIRECT-2"}
	before := standings{servers: 4, online: 4}
	for name, row := range map[string]struct {
		before, after standings
		want          string // the check that fails; empty: none
	}{
		"as promised": {before, standings{offlineRows: map[string]int{"WORK-2": 1, "DIRECT-2": 1}}, ""},
		"one was offline while its agent spoke": {
			standings{servers: 4, online: 3}, standings{offlineRows: map[string]int{"WORK-2": 1, "DIRECT-2": 1}}, "servers online while",
		},
		"one went offline and came back": {
			standings{servers: 4, online: 4, offlineRows: map[string]int{"WORK-1": 1}},
			standings{offlineRows: map[string]int{"WORK-1": 1, "WORK-2": 1, "DIRECT-2": 1}},
			"servers that went offline though",
		},
		"one stayed online":            {before, standings{offlineRows: map[string]int{"WORK-2": 1}}, "ended agents whose servers"},
		"one has two rows":             {before, standings{offlineRows: map[string]int{"WORK-2": 2, "DIRECT-2": 1}}, "ended agents whose servers"},
		"another went offline as well": {before, standings{offlineRows: map[string]int{"WORK-1": 1, "WORK-2": 1, "DIRECT-2": 1}}, "other servers with rows"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			v := &verdict{out: &out}
			v.spared(row.before)
			v.silenced(row.before, row.after, ended)
			if row.want == "" && v.failed > 0 || row.want != "" && !strings.Contains(out.String(), "FAILED  "+row.want) {
				t.Errorf("expected %q to fail:\n%s", row.want, out.String())
			}
		})
	}
}
