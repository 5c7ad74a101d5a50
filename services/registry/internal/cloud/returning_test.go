package cloud

import (
	"testing"
	"time"
)

func TestReturnsFollowThePublishedPause(t *testing.T) {
	r := DefaultReturns()
	for _, c := range []struct {
		name        string
		got, expect time.Duration
	}{
		{"all control servers are back", r.AfterOutage(Displacement{}), time.Minute + 75*time.Second + 35*time.Second},
		{"two are silent still", r.AfterOutage(Displacement{Silent: 2}), time.Minute + 75*time.Second + 3*35*time.Second},
		{"a shorter pause shortens all", Returns{LongestPause: 4 * time.Second}.AfterOutage(Displacement{}), 4*time.Second + 5*time.Second + 9*time.Second},
		{"one of several is lost", r.AfterLoss(Displacement{Silent: 1}), 16 * time.Second},
		{"twenty are lost", r.AfterLoss(Displacement{Silent: 20}), 130 * time.Second},
	} {
		if c.got != c.expect {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.expect)
		}
	}
}

func TestDisplacementCountsTheListedThatAreSilent(t *testing.T) {
	now, l := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), DefaultLimits()
	member := func(id int64, silent time.Duration, listed bool) Member {
		return Member{Server: Server{ID: id, Weight: 1}, Mode: ModeNormal, RenewedAt: now.Add(-silent), Listing: Listing{Listed: listed}}
	}
	got := Judge([]Member{
		member(1, time.Second, true), member(2, 20*time.Second, true), member(3, 40*time.Second, true), member(4, 16*time.Second, false), member(5, 2*time.Second, true),
	}, now, l).Displacement()
	if want := (Displacement{Silent: 2, Since: now.Add(-20 * time.Second)}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if none := Judge([]Member{member(1, time.Second, true)}, now, l).Displacement(); none != (Displacement{}) {
		t.Errorf("none is silent: %+v", none)
	}
}
