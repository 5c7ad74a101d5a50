package verdict

import (
	"reflect"
	"testing"
	"time"
)

var (
	epoch  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	limits = Limits{MaxAge: 90 * time.Second, HeartbeatInterval: 30 * time.Second, SweepInterval: 15 * time.Second}
)

func ago(d time.Duration) time.Time { return epoch.Add(-d) }

func heardOn(p Path, at time.Time) Agent {
	a := Agent{Registration: Accepted, Linked: true}
	a.HeardAt[p] = at
	return a
}

func probedWith(outcomes ...Outcome) Agent {
	a := Agent{Registration: Accepted, Linked: true, BaseURL: "http://bm"}
	for i, o := range outcomes {
		a.Probes[i].Outcome = o
		if o == Failed {
			a.Probes[i].Error = "refused"
		}
	}
	return a
}

func TestJudge(t *testing.T) {
	both := heardOn(Bus, ago(10*time.Minute))
	both.HeardAt[Direct] = ago(5 * time.Second)
	heardAndURL := heardOn(Bus, ago(2*time.Minute))
	heardAndURL.BaseURL, heardAndURL.Probes[0].Outcome = "http://bm", Succeeded
	for name, c := range map[string]struct {
		agent Agent
		want  Availability
		why   Reason
	}{
		"bus fresh":               {heardOn(Bus, ago(89*time.Second)), Available, HeartbeatFresh},
		"bus just too old":        {heardOn(Bus, ago(90*time.Second)), Unavailable, HeartbeatSilent},
		"direct fresh":            {heardOn(Direct, ago(0)), Available, HeartbeatFresh},
		"direct silent":           {heardOn(Direct, ago(time.Hour)), Unavailable, HeartbeatSilent},
		"the newer decides":       {both, Available, HeartbeatFresh},
		"heard ahead of us":       {heardOn(Bus, ago(-time.Second)), Available, HeartbeatFresh},
		"heard beats probed":      {heardAndURL, Unavailable, HeartbeatSilent},
		"last probe good":         {probedWith(Succeeded, Failed, Failed), Available, ProbeSucceeded},
		"three probes bad":        {probedWith(Failed, Failed, Failed), Unavailable, ProbeFailed},
		"two probes bad":          {probedWith(Failed, Failed, Succeeded), Unknown, ProbeUndecided},
		"new holder":              {probedWith(Failed, Failed), Unknown, ProbeUndecided},
		"unfinished round":        {probedWith(Unfinished, Failed, Failed), Unknown, ProbeUndecided},
		"unfinished after good":   {probedWith(Unfinished, Succeeded, Succeeded), Unknown, ProbeUndecided},
		"accepted, nothing known": {Agent{Registration: Accepted, Linked: true}, Unknown, NeverHeard},
		"removed":                 {Agent{Registration: Removed, Linked: true}, Unavailable, AgentRemoved},
		"rejected after linked":   {Agent{Registration: Rejected, Linked: true}, Unavailable, AgentRejected},
		"rejected, never linked":  {Agent{Registration: Rejected}, Unknown, NeverAccepted},
		"removed, never linked":   {Agent{Registration: Removed}, Unknown, NeverAccepted},
		"no agent":                {Agent{}, Unknown, NeverAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(c.agent, epoch, limits.MaxAge)
			if v.Availability != c.want || v.Reason != c.why {
				t.Errorf("got %v (%s), want %v (%s)", v.Availability, v.Reason, c.want, c.why)
			}
			if v.Reason == ProbeFailed && v.ProbeError != "refused" {
				t.Errorf("probe error %q", v.ProbeError)
			}
		})
	}
}

func TestOnline(t *testing.T) {
	for _, was := range []bool{false, true} {
		for a, want := range map[Availability]bool{Unknown: was, Available: true, Unavailable: false} {
			if got := Online(was, false, a); got != want {
				t.Errorf("was %v, %v: %v", was, a, got)
			}
			if Online(was, true, a) {
				t.Errorf("was %v, %v: online in maintenance", was, a)
			}
		}
	}
}

// Active cannot play a part where it isn't known.
func TestI10_ActiveIsNotKnown(t *testing.T) {
	for _, of := range []any{Server{}, Agent{}, Input{}, Change{}} {
		if _, known := reflect.TypeOf(of).FieldByName("Active"); known {
			t.Errorf("%T knows Active", of)
		}
	}
}

func TestBlindness(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Evidence)
		want  Blindness
	}{
		"proven":              {func(*Evidence) {}, NotBlind},
		"evidence 15 s old":   {func(e *Evidence) { e.ReportedAt = ago(15 * time.Second) }, NotBlind},
		"evidence older":      {func(e *Evidence) { e.ReportedAt = ago(15*time.Second + 1) }, NoEvidence},
		"no evidence":         {func(e *Evidence) { *e = Evidence{} }, NoEvidence},
		"ingest down":         {func(e *Evidence) { e.HealthySince = time.Time{} }, IngestDown},
		"restarted":           {func(e *Evidence) { e.HealthySince = ago(limits.MaxAge - 1) }, IngestRestarted},
		"one full max age":    {func(e *Evidence) { e.HealthySince = ago(limits.MaxAge) }, NotBlind},
		"agents may be away":  {func(e *Evidence) { e.HealthySince, e.LongestReturn = ago(93*time.Second-1), time.Minute }, AgentsReturning},
		"agents are back":     {func(e *Evidence) { e.HealthySince, e.LongestReturn = ago(93*time.Second), time.Minute }, NotBlind},
		"an old registry":     {func(e *Evidence) { e.HealthySince, e.LongestReturn = ago(158*time.Second-1), 0 }, AgentsReturning},
		"and then":            {func(e *Evidence) { e.HealthySince, e.LongestReturn = ago(158*time.Second), 0 }, NotBlind},
		"displaced for short": {func(e *Evidence) { e.DisplacedAt, e.LongestFailover = ago(20*time.Second), 57*time.Second }, NotBlind},
		"displaced for long":  {func(e *Evidence) { e.DisplacedAt, e.LongestFailover = ago(91*time.Second-1), 58*time.Second }, AgentsReturning},
		"and found others":    {func(e *Evidence) { e.DisplacedAt, e.LongestFailover = ago(91*time.Second), 58*time.Second }, NotBlind},
		"backlog at half":     {func(e *Evidence) { e.Backlog = 45 * time.Second }, NotBlind},
		"backlog beyond half": {func(e *Evidence) { e.Backlog = 45*time.Second + 1 }, IngestBehind},
		"somebody heard":      {func(e *Evidence) { e.HeardAt = ago(time.Minute - 1) }, NotBlind},
		"nobody heard":        {func(e *Evidence) { e.HeardAt = ago(time.Minute) }, NobodyHeard},
		"nobody ever heard":   {func(e *Evidence) { e.HeardAt = time.Time{} }, NobodyHeard},
	} {
		t.Run(name, func(t *testing.T) {
			e := proof(epoch)
			c.spoil(&e)
			if got := e.blindness(epoch, limits); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func proof(now time.Time) Evidence {
	return Evidence{ReportedAt: now, HealthySince: now.Add(-time.Hour), HeardAt: now, LongestReturn: time.Second}
}
