package conformance

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkPuppet checks a puppet that breaks one rule, by the rules given; none: by all.
func checkPuppet(t *testing.T, breaks string, only ...string) reported {
	t.Helper()
	emulator := newEmulator(t)
	p := newPuppet(t, emulator.ConnectionString(), breaks)
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, _ := p.Stop(context.Background())
		<-ended
		p.work.Wait()
	})
	return check(t, Options{
		Name: testName, ConnectionString: emulator.ConnectionString(), Emulator: emulator, Interval: puppetInterval, Patience: 20 * time.Second,
		SlowWrite: `{"restartService":{"service":"` + slowService + `"}}`, Process: p, BaseURL: p.serve(), Token: puppetToken, Only: only,
	})
}

// A puppet that breaks nothing passes, so that what follows is of what it breaks.
func TestAnAgentThatBreaksNothingPasses(t *testing.T) {
	t.Parallel()
	checkPuppet(t, "").all("8.1", journalRule, hostStateRule)
}

// Whatever rule is broken, it is named.
func TestABrokenRuleIsNamed(t *testing.T) {
	for breaks, number := range map[string]string{
		"has a host name that is too long":   "1.1",
		"has no boot id":                     "1.2",
		"names other capabilities":           "1.3",
		"does not count":                     "1.4",
		"beats seldom":                       "1.5",
		"repeats its bindings":               "1.6",
		"takes another session":              "2.1",
		"takes its session once":             "2.2",
		"completes what it can't read":       "3.1",
		"runs before it settles":             "3.2",
		"runs what it could not settle":      "3.2",
		"runs what is for others":            "4.1",
		"compares names byte by byte":        "4.2",
		"fails what it does not know":        "4.3",
		"takes any argument":                 "4.4",
		"takes any command":                  "4.5",
		"compares issuedAt":                  "4.6",
		"lets writes wait for ever":          "4.7",
		"gives back what came late only":     "4.8",
		"counts from when a message came":    "4.8",
		"counts from when it goes on":        "4.9",
		"counts from when the body was read": "4.9",
		"renews no lock before it settles":   "4.10",
		"runs writes at once":                "5.1",
		"has reads wait":                     "5.2",
		"waits for no first":                 "6.1",
		"runs repeats":                       "6.2",
		"takes an id for another command":    "6.3",
		"records what it refused":            "6.4",
		"tells no record":                    "6.5",
		"forgets at a restart":               "6.6",
		"does not correlate":                 "7.1",
		"needs a content type":               "7.2",
		"is strict about fields":             "7.3",
		"always answers in JSON":             "7.4",
		"leaves its work at a stop":          "8.2",
		"asks a ping for the token":          "H.1",
		"answers HTTP without a result":      "H.2",
		"refuses by status":                  "H.3",
		"takes any body":                     "H.4",
		"asks for no token":                  "H.5",
		"answers 404 to what it never had":   "H.6",
		"has a journal for each transport":   "H.7",
	} {
		t.Run(breaks, func(t *testing.T) {
			t.Parallel()
			found := checkPuppet(t, breaks, number)
			for _, result := range found.report {
				if result.Rule == number && result.Status != Failed {
					t.Errorf("%s: rule %s is %s: %s", breaks, number, result.Status, result.Seen)
				}
				if result.Rule != number && result.Status == Failed {
					t.Errorf("%s: rule %s is failed as well: %s", breaks, result.Rule, result.Seen)
				}
			}
			if !slices.ContainsFunc(found.report, func(r Result) bool { return r.Rule == number }) {
				t.Errorf("rule %s was not tried:\n%s", number, found.said)
			}
		})
	}
}

// Every rule has a test that breaks it, but those for which the check needs an agent's own service.
func TestRulesHaveNumbersOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, one := range rules() {
		if seen[one.number] || one.title == "" || strings.HasSuffix(one.title, ".") {
			t.Errorf("rule %s: %q", one.number, one.title)
		}
		seen[one.number] = true
	}
}

// What the check itself held up does not count between two heartbeats.
func TestAGapIsWithoutWhatWasHeldUp(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	r := &run{holds: [][2]time.Time{{at(10), at(20)}, {at(30), at(34)}}}
	for _, c := range []struct{ from, to, want int }{
		{0, 9, 9}, {0, 10, 10}, {0, 15, 10}, {0, 25, 15}, {12, 18, 0}, {15, 25, 5}, {0, 40, 26}, {20, 30, 10}, {35, 40, 5},
	} {
		if got := r.gap(at(c.from), at(c.to)); got != time.Duration(c.want)*time.Second {
			t.Errorf("from %d s to %d s: %s, want %d s", c.from, c.to, got, c.want)
		}
	}
}
