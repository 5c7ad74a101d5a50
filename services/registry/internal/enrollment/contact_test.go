package enrollment

import (
	"fmt"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// long after everything that is observed in these tests.
var now = epoch.Add(240 * time.Hour)

func beat(boot string, sequence int64, seconds int) Heartbeat {
	return Heartbeat{
		Name: Name{"BM-1", "bm-1"}, Path: Bus, Order: Order{boot, sequence, at(seconds)},
		Content: Content{ReportedName: "BM-1", Hostname: fmt.Sprintf("%s/%d@%d", boot, sequence, seconds)},
	}
}

func observe(c Contact, beats ...Heartbeat) (Contact, Result) {
	var result Result
	for _, b := range beats {
		c, _, result = c.Observe(b, now)
	}
	return c, result
}

func TestI6_WhatIsNewer(t *testing.T) {
	for _, row := range []struct {
		what   string
		before []Heartbeat
		then   Heartbeat
		wins   bool
		result Result
	}{
		{"the first", nil, beat("a", 1, 1), true, Updated},
		{"same boot, higher sequence", []Heartbeat{beat("a", 1, 1)}, beat("a", 2, 2), true, Updated},
		{"same boot, higher sequence, observed sooner", []Heartbeat{beat("a", 1, 5)}, beat("a", 2, 2), true, Updated},
		{"same boot, lower sequence", []Heartbeat{beat("a", 2, 2)}, beat("a", 1, 1), false, Stale},
		{"the same again", []Heartbeat{beat("a", 2, 2)}, beat("a", 2, 2), false, Duplicate},
		{"another boot, newer", []Heartbeat{beat("a", 9, 1)}, beat("b", 1, 2), true, Updated},
		{"a superseded boot, newer", []Heartbeat{beat("a", 9, 1), beat("b", 1, 2)}, beat("a", 10, 3), false, Updated},
		{"no boot, newer", []Heartbeat{beat("", 0, 1)}, beat("", 0, 2), true, Updated},
		{"no boot, older", []Heartbeat{beat("", 0, 2)}, beat("", 0, 1), false, Stale},
	} {
		t.Run(row.what, func(t *testing.T) {
			before, _ := observe(Contact{}, row.before...)
			after, result := observe(before, row.then)
			if won := after.Content.Hostname == row.then.Content.Hostname; result != row.result || (won != row.wins && result != Duplicate) {
				t.Fatalf("wins %v, result %v; want %v, %v", won, result, row.wins, row.result)
			}
		})
	}
}

// A superseded boot's liveness counts (the host is alive), its content never again.
func TestI6_ASupersededBootNeverWinsAgain(t *testing.T) {
	contact, _ := observe(Contact{}, beat("a", 1, 1), beat("b", 1, 2))
	for i := range 50 {
		contact, _ = observe(contact, beat("a", int64(i)+2, i+3))
		if contact.Newest.BootID != "b" || contact.Content.Hostname != "b/1@2" {
			t.Fatalf("after %d: %+v", i, contact.Newest)
		}
		if !contact.LastBusAt.Equal(at(i + 3)) {
			t.Fatal("its liveness must count")
		}
	}
}

func TestI6_AgentClocksDecideNothing(t *testing.T) {
	for _, skew := range []time.Duration{-2 * time.Hour, -time.Second, 0, time.Second, 2 * time.Hour} {
		var contact Contact
		for i := range 10 {
			b := beat("a", int64(i)+1, i*30)
			b.Content.ReportedAt = b.Order.ObservedAt.Add(skew)
			if i%2 == 1 { // the clock jumps to and fro
				b.Content.ReportedAt = b.Order.ObservedAt.Add(-skew)
			}
			contact, _ = observe(contact, b)
		}
		contact.Content.ReportedAt = time.Time{}
		want, _ := observe(Contact{}, beat("a", 10, 270))
		want.Content.ReportedAt = time.Time{}
		if fmt.Sprint(contact) != fmt.Sprint(want) {
			t.Fatalf("skew %s changes the row:\n%+v\n%+v", skew, contact, want)
		}
	}
}

func TestI6_NothingIsHeardInTheFuture(t *testing.T) {
	early := at(100)
	contact, _, _ := Contact{}.Observe(beat("a", 1, 7300), early)
	if !contact.LastBusAt.Equal(early) || !contact.Newest.ObservedAt.Equal(early.Add(clockLead)) {
		t.Fatalf("%+v", contact)
	}
	// An observed time far ahead must not keep what comes later from counting: liveness at once, content when clocks that are
	// only a little apart can tell.
	contact, _, _ = contact.Observe(beat("b", 1, 101), at(102))
	if contact.Newest.BootID != "a" || !contact.LastBusAt.Equal(at(101)) {
		t.Fatalf("%+v", contact)
	}
	contact, _, _ = contact.Observe(beat("b", 2, 401), at(402))
	if contact.Newest.BootID != "b" || !contact.LastBusAt.Equal(at(401)) {
		t.Fatalf("%+v", contact)
	}
}

// With the database's clock behind, all that is heard is ahead of it: the order is kept, and an old message that is delivered
// again is old.
func TestI6_ADatabaseClockThatIsBehindMakesNothingOldNew(t *testing.T) {
	for _, boots := range [][2]string{{"", ""}, {"a", "a"}, {"x", "c"}} {
		older, newer := beat(boots[0], 0, 60), beat(boots[1], 0, 90)
		contact, _, _ := Contact{}.Observe(older, at(5))
		contact, _, _ = contact.Observe(newer, at(6))
		again, changes, _ := contact.Observe(older, at(7))
		if again.Content.Hostname != newer.Content.Hostname || changes.Content || !again.Newest.ObservedAt.Equal(at(90)) {
			t.Errorf("boots %q: %+v", boots, again)
		}
		if !again.LastBusAt.Equal(at(7)) {
			t.Errorf("boots %q: heard at %s, in the future of %s", boots, again.LastBusAt, at(7))
		}
	}
}

func TestI6_PathsAreHeardApart(t *testing.T) {
	direct := beat("a", 2, 20)
	direct.Path = Direct
	contact, _ := observe(Contact{}, beat("a", 1, 10), direct)
	if !contact.LastBusAt.Equal(at(10)) || !contact.LastDirectAt.Equal(at(20)) {
		t.Fatal("a direct heartbeat proves nothing about the bus")
	}
	again := beat("a", 2, 21) // the same heartbeat over the other path
	contact, result := observe(contact, again)
	if result != Updated || !contact.LastBusAt.Equal(at(21)) || contact.Newest.Sequence != 2 {
		t.Fatalf("%v %+v", result, contact)
	}
}

func TestTwoMachinesUnderOneNameAreMarked(t *testing.T) {
	var contact Contact
	for i := range 10 {
		contact, _ = observe(contact, beat("a", int64(i)+1, i*30), beat("b", int64(i)+1, i*30+15))
	}
	if !contact.ConflictAt.Equal(now) {
		t.Fatalf("boots that alternate are two machines: %+v", contact)
	}
}

func TestALateMessageAtEachOfSeveralUpgradesIsNoConflict(t *testing.T) {
	var contact Contact
	const week = 7 * 24 * 3600
	for upgrade := range 6 {
		from := upgrade * week
		before, after := fmt.Sprintf("boot-%d", upgrade), fmt.Sprintf("boot-%d", upgrade+1)
		for i, b := range []Heartbeat{beat(before, 1000, from), beat(after, 1, from+5), beat(before, 1001, from+6), beat(after, 2, from+35)} {
			contact, _, _ = contact.Observe(b, b.Order.ObservedAt)
			if late := contact.EarlierBoots[max(len(contact.EarlierBoots)-1, 0):]; i == 2 && (len(late) != 1 || late[0].Turns != 1) {
				t.Fatalf("the late message of upgrade %d is no turn: %+v", upgrade, late)
			}
		}
	}
	if !contact.ConflictAt.IsZero() {
		t.Fatalf("%+v", contact)
	}
	// The same boots, alternating closely, are two machines: turns count within the interval.
	from := 7 * week
	for i := range conflictingReturns + 1 {
		for _, b := range []Heartbeat{beat("boot-6", int64(i)+3, from+i*300), beat("boot-5", int64(i)+2000, from+i*300+100)} {
			contact, _, _ = contact.Observe(b, b.Order.ObservedAt)
		}
	}
	if contact.ConflictAt.IsZero() {
		t.Fatalf("%+v", contact)
	}
}

func TestRestartsAreNoConflict(t *testing.T) {
	var contact Contact
	var all []Heartbeat
	for boot := range 30 {
		for i := range 4 {
			b := beat(fmt.Sprintf("boot-%d", boot), int64(i)+1, boot*1000+i*30)
			contact, _ = observe(contact, b)
			all = append(all, b)
		}
	}
	contact, _ = observe(contact, all...) // everything is delivered again
	if !contact.ConflictAt.IsZero() || contact.Turns != 0 || contact.Newest.BootID != "boot-29" {
		t.Fatalf("%+v", contact)
	}
	if len(contact.EarlierBoots) > recentBoots+sampledBoots {
		t.Fatalf("%d boots are remembered", len(contact.EarlierBoots))
	}
}

// The row that a heartbeat is applied to may be shared: applying must not write into it.
func TestObserveLeavesItsReceiverAlone(t *testing.T) {
	contact, _ := observe(Contact{}, beat("a", 1, 1), beat("b", 1, 2), beat("c", 1, 3))
	before := fmt.Sprint(contact)
	observe(contact, beat("a", 5, 9), beat("d", 1, 10), beat("b", 7, 11))
	if fmt.Sprint(contact) != before {
		t.Fatalf("was %s\nis  %+v", before, contact)
	}
}
