package windows

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func recur(t *testing.T, start, zone, rule string, duration time.Duration) Window {
	t.Helper()
	w, err := Recur(Recurrence{Start: start, Zone: zone, Rule: rule, Duration: duration})
	if err != nil {
		t.Fatalf("%s %s %s: %v", start, zone, rule, err)
	}
	return w
}

func once(t *testing.T, start, end string) Window {
	t.Helper()
	w, err := Once(utc(start), utc(end))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func utc(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return at
}

func starts(found []Occurrence) string {
	var texts []string
	for _, o := range found {
		texts = append(texts, o.Start.Format("2006-01-02T15:04Z07:00"))
	}
	return strings.Join(texts, " ")
}

// weeks are so many one-off windows of a week, each beginning where the one before ends.
func weeks(t *testing.T, start string, count int) []Window {
	t.Helper()
	var found []Window
	for at := utc(start); len(found) < count; at = at.Add(MaxDuration) {
		w, err := Once(at, at.Add(MaxDuration))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, w)
	}
	return found
}

var epoch = time.Unix(0, 0)

// The first occurrences, in zone, around what zones do to the wall clock.
func TestDaylightSaving(t *testing.T) {
	for _, c := range []struct{ name, start, zone, rule, want string }{
		{"Amsterdam gap", "2026-03-28T02:30", "Europe/Amsterdam", "FREQ=DAILY;COUNT=3", "2026-03-28T02:30+01:00 2026-03-29T03:30+02:00 2026-03-30T02:30+02:00"},
		{"Amsterdam gap starts", "2026-03-29T02:00", "Europe/Amsterdam", "FREQ=DAILY;COUNT=1", "2026-03-29T03:00+02:00"},
		{"Amsterdam gap ends", "2026-03-29T03:00", "Europe/Amsterdam", "FREQ=DAILY;COUNT=1", "2026-03-29T03:00+02:00"},
		{"Amsterdam overlap", "2026-10-24T02:30", "Europe/Amsterdam", "FREQ=DAILY;COUNT=3", "2026-10-24T02:30+02:00 2026-10-25T02:30+02:00 2026-10-26T02:30+01:00"},
		{"Amsterdam overlap starts", "2026-10-25T02:00", "Europe/Amsterdam", "FREQ=DAILY;COUNT=1", "2026-10-25T02:00+02:00"},
		{"Amsterdam overlap ends", "2026-10-25T03:00", "Europe/Amsterdam", "FREQ=DAILY;COUNT=1", "2026-10-25T03:00+01:00"},
		{"New York gap", "2026-03-01T02:30", "America/New_York", "FREQ=WEEKLY;COUNT=3", "2026-03-01T02:30-05:00 2026-03-08T03:30-04:00 2026-03-15T02:30-04:00"},
		{"New York overlap", "2026-10-25T01:30", "America/New_York", "FREQ=WEEKLY;COUNT=3", "2026-10-25T01:30-04:00 2026-11-01T01:30-04:00 2026-11-08T01:30-05:00"},
		{"Lord Howe gap", "2026-10-03T02:15", "Australia/Lord_Howe", "FREQ=DAILY;COUNT=3", "2026-10-03T02:15+10:30 2026-10-04T02:45+11:00 2026-10-05T02:15+11:00"},
		{"Lord Howe overlap", "2026-04-04T01:45", "Australia/Lord_Howe", "FREQ=DAILY;COUNT=3", "2026-04-04T01:45+11:00 2026-04-05T01:45+11:00 2026-04-06T01:45+10:30"},
		{"Santiago midnight gap", "2026-09-05T00:00", "America/Santiago", "FREQ=DAILY;COUNT=3", "2026-09-05T00:00-04:00 2026-09-06T01:00-03:00 2026-09-07T00:00-03:00"},
		{"Santiago gap", "2026-09-06T00:30", "America/Santiago", "FREQ=DAILY;COUNT=2", "2026-09-06T01:30-03:00 2026-09-07T00:30-03:00"},
		{"Santiago overlap", "2026-04-03T23:30", "America/Santiago", "FREQ=DAILY;COUNT=3", "2026-04-03T23:30-03:00 2026-04-04T23:30-03:00 2026-04-05T23:30-04:00"},
		{"Santiago Sundays", "2026-08-30T00:00", "America/Santiago", "FREQ=WEEKLY;BYDAY=SU;UNTIL=20260913T000000", "2026-08-30T00:00-04:00 2026-09-06T01:00-03:00 2026-09-13T00:00-03:00"},
		{"Amsterdam, leap year's end", "2096-12-30T23:30", "Europe/Amsterdam", "FREQ=DAILY;COUNT=4", "2096-12-30T23:30+01:00 2096-12-31T23:30+01:00 2097-01-01T23:30+01:00 2097-01-02T23:30+01:00"},
		{"New York, leap year's end", "2040-12-31T00:00", "America/New_York", "FREQ=DAILY;COUNT=3", "2040-12-31T00:00-05:00 2041-01-01T00:00-05:00 2041-01-02T00:00-05:00"},
		{"Lord Howe, leap year's end", "2040-12-31T12:00", "Australia/Lord_Howe", "FREQ=DAILY;COUNT=3", "2040-12-31T12:00+11:00 2041-01-01T12:00+11:00 2041-01-02T12:00+11:00"},
		{"Santiago, leap year's end", "2400-12-30T20:00", "America/Santiago", "FREQ=DAILY;COUNT=4", "2400-12-30T20:00-03:00 2400-12-31T20:00-03:00 2401-01-01T20:00-03:00 2401-01-02T20:00-03:00"},
		{"Apia skips a day", "2011-12-29T10:00", "Pacific/Apia", "FREQ=DAILY;UNTIL=20120101", "2011-12-29T10:00-10:00 2011-12-31T10:00+14:00 2012-01-01T10:00+14:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := recur(t, c.start, c.zone, c.rule, time.Hour)
			if got := starts(w.Occurrences(epoch, 10)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// An end on the wall is that wall time whatever the clocks do, and the elapsed time says what they did.
func TestEndsByTheWall(t *testing.T) {
	for _, c := range []struct{ name, start, zone, ends, want, elapsed, byWall string }{
		{"no change", "2026-02-01T22:00", "Europe/Amsterdam", "06:00", "2026-02-02T06:00+01:00", "8h0m0s", "8h0m0s"},
		{"clocks go forward", "2026-03-28T22:00", "Europe/Amsterdam", "06:00", "2026-03-29T06:00+02:00", "7h0m0s", "8h0m0s"},
		{"clocks go back", "2026-10-24T22:00", "Europe/Amsterdam", "06:00:00", "2026-10-25T06:00+01:00", "9h0m0s", "8h0m0s"},
		{"end in the gap", "2026-03-29T01:00", "Europe/Amsterdam", "02:30", "2026-03-29T03:30+02:00", "1h30m0s", "2h30m0s"},
		{"end comes twice", "2026-10-25T01:00", "Europe/Amsterdam", "02:30", "2026-10-25T02:30+01:00", "2h30m0s", "1h30m0s"},
		{"both come twice", "2026-10-25T02:15", "Europe/Amsterdam", "02:30", "2026-10-25T02:30+01:00", "1h15m0s", "15m0s"},
		{"both in the gap", "2026-03-29T02:15", "Europe/Amsterdam", "02:30", "2026-03-29T03:30+02:00", "15m0s", "15m0s"},
		{"start moved past the end", "2026-03-29T02:30", "Europe/Amsterdam", "03:00", "2026-03-29T04:00+02:00", "30m0s", "30m0s"},
		{"a day", "2026-02-01T06:00", "Europe/Amsterdam", "06:00", "2026-02-02T06:00+01:00", "24h0m0s", "24h0m0s"},
		{"a day over a change", "2026-10-24T06:00", "Europe/Amsterdam", "06:00", "2026-10-25T06:00+01:00", "25h0m0s", "24h0m0s"},
		{"half an hour", "2026-10-04T01:00", "Australia/Lord_Howe", "04:00", "2026-10-04T04:00+11:00", "2h30m0s", "3h0m0s"},
		{"no midnight", "2026-09-05T22:00", "America/Santiago", "00:30", "2026-09-06T01:30-03:00", "2h30m0s", "3h30m0s"},
		{"a day skipped", "2011-12-29T22:00", "Pacific/Apia", "06:00", "2011-12-31T06:00+14:00", "8h0m0s", "32h0m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := Recur(Recurrence{Start: c.start, Zone: c.zone, Rule: "FREQ=DAILY;COUNT=1", Ends: c.ends})
			if err != nil {
				t.Fatal(err)
			}
			o := w.Occurrences(epoch, 1)[0]
			if got := o.End.Format("2006-01-02T15:04Z07:00"); got != c.want || o.Elapsed().String() != c.elapsed || o.ByWall().String() != c.byWall {
				t.Errorf("ends %s after %s, %s by the wall", got, o.Elapsed(), o.ByWall())
			}
			if end, ends := w.LastEnd(); !ends || !end.Equal(o.End) {
				t.Errorf("ends for good at %s, %t", end, ends)
			}
			if during, ok := w.Covering(o.End.Add(-1)); !ok || during != o {
				t.Errorf("right before its end %v, %t", during, ok)
			}
			if _, ok := w.Covering(o.End); ok {
				t.Error("goes on at its end")
			}
		})
	}
}

// What calendar files write before a rule is no part of it.
func TestRulesMayHaveTheirName(t *testing.T) {
	for _, text := range []string{"RRULE:FREQ=DAILY;COUNT=2", " rrule:FREQ=DAILY;COUNT=2 ", "FREQ=DAILY;COUNT=2"} {
		if w, err := Recur(Recurrence{Start: "2026-02-01T02:30", Zone: "UTC", Rule: text, Duration: time.Hour}); err != nil || len(w.Occurrences(epoch, 9)) != 2 {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCalendar(t *testing.T) {
	for _, c := range []struct{ start, rule, want string }{
		{"2026-01-01", "FREQ=DAILY;INTERVAL=10;COUNT=3", "2026-01-01 2026-01-11 2026-01-21"},
		{"2026-01-01", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU;COUNT=3", "2026-01-04 2026-01-12 2026-01-18"},
		{"2026-01-31", "FREQ=MONTHLY;COUNT=3", "2026-01-31 2026-03-31 2026-05-31"},
		{"2026-01-31", "freq=monthly;bymonthday=-1;count=3", "2026-01-31 2026-02-28 2026-03-31"},
		{"2026-01-01", "FREQ=MONTHLY;BYDAY=1MO,-1FR;COUNT=4", "2026-01-05 2026-01-30 2026-02-02 2026-02-27"},
		{"2026-01-01", "FREQ=MONTHLY;BYDAY=5SA;COUNT=3", "2026-01-31 2026-05-30 2026-08-29"},
		{"2026-01-01", "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13;COUNT=3", "2026-02-13 2026-03-13 2026-11-13"},
		{"2026-01-15", "FREQ=MONTHLY;BYMONTHDAY=1,15;UNTIL=20260215T120000Z", "2026-01-15 2026-02-01 2026-02-15"},
		{"2026-01-15", "FREQ=MONTHLY;BYMONTHDAY=1,15;UNTIL=20260215T115959Z", "2026-01-15 2026-02-01"},
		{"2026-01-15", "FREQ=MONTHLY;BYMONTHDAY=1,15;UNTIL=20260215T120000", "2026-01-15 2026-02-01 2026-02-15"},
		{"2026-01-15", "FREQ=MONTHLY;BYMONTHDAY=1,15;UNTIL=20260215T115959", "2026-01-15 2026-02-01"},
		{"2026-01-15", "FREQ=MONTHLY;BYMONTHDAY=1,15;UNTIL=20260215", "2026-01-15 2026-02-01 2026-02-15"},
		{"2028-02-29", "FREQ=MONTHLY;INTERVAL=12;COUNT=2", "2028-02-29 2032-02-29"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := recur(t, c.start+"T12:00", "UTC", c.rule, time.Hour)
			got := strings.ReplaceAll(starts(w.Occurrences(epoch, 10)), "T12:00Z", "")
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestUntilInUTCOfAnotherDay(t *testing.T) {
	// 23:00 in New York is 04:00 UTC on the next day.
	w := recur(t, "2026-01-01T23:00", "America/New_York", "FREQ=DAILY;UNTIL=20260103T040000Z", time.Hour)
	if got, want := starts(w.Occurrences(epoch, 10)), "2026-01-01T23:00-05:00 2026-01-02T23:00-05:00"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOccurrencesPartition(t *testing.T) {
	w := recur(t, "2026-01-01T12:00", "UTC", "FREQ=DAILY", 49*time.Hour)
	at := utc("2026-01-05T12:00:00Z")
	if o, ok := w.Covering(at); !ok || !o.Start.Equal(at) {
		t.Errorf("covering: %v %v, want the latest start", o, ok)
	}
	if got := starts(w.Occurrences(at, 1)); got != "2026-01-06T12:00Z" {
		t.Errorf("next: %s", got)
	}
	if got := w.Occurrences(at, 0); got != nil {
		t.Errorf("limit 0: %v", got)
	}
	if _, ok := w.Covering(utc("2026-01-01T11:59:59Z")); ok {
		t.Error("covers before its start")
	}
	if got := w.Occurrences(utc("9999-01-01T00:00:00Z"), 5); got != nil {
		t.Errorf("after the last year: %v", got)
	}
}

// A start that a gap moves to the next day is found from that day.
func TestShiftedToTheNextDay(t *testing.T) {
	w := recur(t, "2011-12-30T10:00", "Pacific/Apia", "FREQ=DAILY;COUNT=1", time.Hour)
	want := "2011-12-31T10:00+14:00"
	if got := starts(w.Occurrences(utc("2011-12-31T09:00:00+14:00"), 5)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFarFuture(t *testing.T) {
	w := recur(t, "1970-01-01T02:30", "Europe/Amsterdam", "FREQ=MONTHLY;BYMONTHDAY=29;BYDAY=-1SU", time.Hour)
	if got := starts(w.Occurrences(utc("9000-01-01T00:00:00Z"), 1)); !strings.HasPrefix(got, "9000-") {
		t.Errorf("got %s", got)
	}
}

func TestZeroWindow(t *testing.T) {
	var w Window
	if _, ok := w.Covering(time.Time{}); ok || w.Occurrences(epoch, 5) != nil {
		t.Error("the zero window occurs")
	}
}

func TestOnce(t *testing.T) {
	w := once(t, "2026-01-01T10:00:00+01:00", "2026-01-03T10:00:00Z")
	for at, want := range map[string]bool{
		"2026-01-01T08:59:59Z": false, "2026-01-01T09:00:00Z": true,
		"2026-01-03T09:59:59Z": true, "2026-01-03T10:00:00Z": false,
	} {
		if _, ok := w.Covering(utc(at)); ok != want {
			t.Errorf("%s: %v", at, ok)
		}
	}
	if got := starts(w.Occurrences(epoch, 5)); got != "2026-01-01T09:00Z" {
		t.Errorf("got %s", got)
	}
}

func TestActive(t *testing.T) {
	night := recur(t, "2026-03-01T23:00", "Europe/Amsterdam", "FREQ=DAILY", 6*time.Hour)
	always := recur(t, "2026-01-01T12:00", "UTC", "FREQ=DAILY", 24*time.Hour)
	noon := recur(t, "2026-01-01T12:00", "UTC", "FREQ=DAILY;COUNT=500", 24*time.Hour)
	short := recur(t, "2026-01-01T12:00", "UTC", "FREQ=DAILY;COUNT=3", 25*time.Hour)
	for _, c := range []struct {
		name    string
		windows []Window
		at      string
		until   string // empty: not active; never: no end
	}{
		{"none", nil, "2026-01-01T00:00:00Z", ""},
		{"outside", []Window{night}, "2026-03-10T12:00:00Z", ""},
		{"elapsed time over a gap", []Window{night}, "2026-03-29T00:00:00Z", "2026-03-29T04:00:00Z"},
		{"elapsed time over an overlap", []Window{night}, "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z"},
		{"end is outside", []Window{night}, "2026-03-10T04:00:00Z", ""},
		{"overlapping, listed in reverse", []Window{once(t, "2026-03-10T05:00:00Z", "2026-03-10T06:00:00Z"), once(t, "2026-03-10T03:00:00Z", "2026-03-10T05:00:00Z"), night}, "2026-03-10T01:00:00Z", "2026-03-10T06:00:00Z"},
		{"contained", []Window{night, once(t, "2026-03-10T01:00:00Z", "2026-03-10T02:00:00Z")}, "2026-03-10T01:00:00Z", "2026-03-10T04:00:00Z"},
		{"not yet", []Window{once(t, "2026-03-10T04:00:01Z", "2026-03-10T05:00:00Z"), night}, "2026-03-10T01:00:00Z", "2026-03-10T04:00:00Z"},
		{"overlaps itself", []Window{short}, "2026-01-01T12:00:00Z", "2026-01-04T13:00:00Z"},
		{"no end", []Window{always}, "2026-06-01T00:00:00Z", "never"},
		{"end beyond the horizon", []Window{noon}, "2026-01-02T00:00:00Z", "never"},
		{"end within the horizon", []Window{noon}, "2027-01-02T00:00:00Z", "2027-05-16T12:00:00Z"},
		{"one-offs beyond the horizon", append(weeks(t, "2026-03-01T00:00:00Z", 60), night), "2026-03-01T00:00:00Z", "2027-04-25T03:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			until, active := Active(c.windows, utc(c.at))
			got := ""
			if active {
				got = until.Format(time.RFC3339)
			}
			if active && until.IsZero() {
				got = "never"
			}
			if got != c.until {
				t.Errorf("got %q, want %q", got, c.until)
			}
		})
	}
}

func TestLastEnd(t *testing.T) {
	start := "2026-03-01T23:00"
	for rule, want := range map[string]string{ // none: no end in sight
		"FREQ=DAILY":                "",
		"FREQ=DAILY;UNTIL=99991231": "",
		"FREQ=MONTHLY;INTERVAL=1000;COUNT=100;BYMONTHDAY=31":             "", // beyond the last year
		"FREQ=DAILY;COUNT=28":                                            "2026-03-29T04:00:00Z",
		"FREQ=WEEKLY;BYDAY=MO;UNTIL=20260405":                            "2026-03-31T03:00:00Z",
		"FREQ=MONTHLY;INTERVAL=12;UNTIL=99980228":                        "9997-03-02T04:00:00Z",
		"FREQ=MONTHLY;BYMONTHDAY=29;BYDAY=SU;INTERVAL=11;UNTIL=99971231": "9988-05-30T03:00:00Z",
	} {
		at, ends := recur(t, start, "Europe/Amsterdam", rule, 6*time.Hour).LastEnd()
		if got := at.Format(time.RFC3339); ends != (want != "") || ends && got != want {
			t.Errorf("%s: %s %v, want %q", rule, got, ends, want)
		}
	}
	if at, ends := once(t, "2026-03-01T00:00:00+01:00", "2026-03-02T00:00:00+01:00").LastEnd(); !ends || !at.Equal(utc("2026-03-01T23:00:00Z")) {
		t.Errorf("one-off: %s %v", at, ends)
	}
	if _, ends := (Window{}).LastEnd(); !ends {
		t.Error("the zero window goes on")
	}
}

func TestRefused(t *testing.T) {
	valid := Recurrence{Start: "2026-02-01T02:30", Zone: "Europe/Amsterdam", Rule: "FREQ=DAILY", Duration: time.Hour}
	with := func(change func(*Recurrence)) Recurrence { r := valid; change(&r); return r }
	start := func(text string) Recurrence { return with(func(r *Recurrence) { r.Start = text }) }
	zone := func(text string) Recurrence { return with(func(r *Recurrence) { r.Zone = text }) }
	rule := func(text string) Recurrence { return with(func(r *Recurrence) { r.Rule = text }) }
	duration := func(d time.Duration) Recurrence { return with(func(r *Recurrence) { r.Duration = d }) }
	ends := func(text string) Recurrence { return with(func(r *Recurrence) { r.Duration, r.Ends = 0, text }) }
	for _, c := range []struct {
		name         string
		r            Recurrence
		field, names string
	}{
		{"empty start", start(""), "start", "2026-03-29T02:30"},
		{"zoned start", start("2026-02-01T02:30Z"), "start", "without zone"},
		{"fraction", start("2026-02-01T02:30:00.5"), "start", "without zone"},
		{"no such date", start("2026-02-30T02:30"), "start", "wall time"},
		{"early start", start("1969-12-31T02:30"), "start", "1970"},
		{"late start", start("9999-01-01T02:30"), "start", "9998"},
		{"unknown zone", zone("Europe/Atlantis"), "zone", "IANA"},
		{"empty zone", zone(""), "zone", "IANA"},
		{"local zone", zone("Local"), "zone", "IANA"},
		{"path as zone", zone("../etc/passwd"), "zone", "IANA"},
		{"the host's zone", zone("localtime"), "zone", "IANA"},
		{"leap seconds", zone("right/Europe/Amsterdam"), "zone", "IANA"},
		{"rules of the host", zone("posixrules"), "zone", "IANA"},
		{"no zone set", zone("Factory"), "zone", "IANA"},
		{"two slashes", zone("Europe//Amsterdam"), "zone", "IANA"},
		{"other case", zone("europe/amsterdam"), "zone", "spells it"},
		{"end and duration", with(func(r *Recurrence) { r.Ends = "06:00" }), "ends", "duration"},
		{"no clock", ends("6"), "ends", "06:00"},
		{"one digit", ends("6:00"), "ends", "two digits for the hour"},
		{"24 o'clock", ends("24:00"), "ends", "00:00 to 23:59"},
		{"zoned end", ends("06:00Z"), "ends", "06:00"},
		{"zero duration", duration(0), "duration", "7 days"},
		{"negative duration", duration(-1), "duration", "7 days"},
		{"long duration", duration(MaxDuration + 1), "duration", "7 days"},
		{"empty rule", rule(""), "rule", "FREQ"},
		{"no frequency", rule("INTERVAL=2"), "rule", "FREQ is required"},
		{"yearly", rule("FREQ=YEARLY"), "rule", "DAILY, WEEKLY or MONTHLY"},
		{"unsupported part", rule("FREQ=DAILY;BYHOUR=3"), "rule", `"BYHOUR" is not supported`},
		{"trailing semicolon", rule("FREQ=DAILY;"), "rule", "not supported"},
		{"twice", rule("FREQ=DAILY;FREQ=DAILY"), "rule", "once"},
		{"too long", rule("FREQ=DAILY;" + strings.Repeat("x", 500)), "rule", "500"},
		{"zero interval", rule("FREQ=DAILY;INTERVAL=0"), "rule", "INTERVAL must be 1 to 1000"},
		{"large interval", rule("FREQ=DAILY;INTERVAL=1001"), "rule", "INTERVAL must be 1 to 1000"},
		{"daily by day", rule("FREQ=DAILY;BYDAY=MO"), "rule", "FREQ=WEEKLY"},
		{"weekly ordinal", rule("FREQ=WEEKLY;BYDAY=1MO"), "rule", "MO to SU"},
		{"weekday", rule("FREQ=WEEKLY;BYDAY=XX"), "rule", "MO to SU"},
		{"empty weekday", rule("FREQ=WEEKLY;BYDAY="), "rule", "MO to SU"},
		{"ordinal", rule("FREQ=MONTHLY;BYDAY=6MO"), "rule", "1MO to 5MO"},
		{"zero ordinal", rule("FREQ=MONTHLY;BYDAY=0MO"), "rule", "1MO to 5MO"},
		{"weekly month day", rule("FREQ=WEEKLY;BYMONTHDAY=1"), "rule", "FREQ=MONTHLY"},
		{"month day", rule("FREQ=MONTHLY;BYMONTHDAY=32"), "rule", "1 to 31"},
		{"zero month day", rule("FREQ=MONTHLY;BYMONTHDAY=0"), "rule", "1 to 31"},
		{"zero count", rule("FREQ=DAILY;COUNT=0"), "rule", "COUNT must be 1 to 10000"},
		{"count and until", rule("FREQ=DAILY;COUNT=1;UNTIL=20270101"), "rule", "exclude each other"},
		{"until", rule("FREQ=DAILY;UNTIL=tomorrow"), "rule", "20261231T225959Z"},
		{"until before start", rule("FREQ=DAILY;UNTIL=20260201T012959Z"), "rule", "never occurs"},
		{"until before start, local", rule("FREQ=DAILY;UNTIL=20260201T022959"), "rule", "never occurs"},
		{"until before start, date", rule("FREQ=DAILY;UNTIL=20260131"), "rule", "never occurs"},
		{"31 February", rule("FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=31"), "rule", "never occurs"},
		{"fifth Monday on the first", rule("FREQ=MONTHLY;BYMONTHDAY=1;BYDAY=5MO"), "rule", "never occurs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Recur(c.r)
			requireRefused(t, err, c.field, c.names)
		})
	}
}

func TestOnceRefused(t *testing.T) {
	at := utc("2026-01-01T00:00:00Z")
	for _, c := range []struct {
		name, field string
		start, end  time.Time
	}{
		{"end before start", "end", at, at.Add(-1)},
		{"empty", "end", at, at},
		{"no start", "start", time.Time{}, at},
		{"no end", "end", at, time.Time{}},
		{"late end", "end", at, utc("9999-01-01T00:00:00Z")},
		{"long", "end", at, at.Add(MaxDuration + 1)},
		{"years", "end", at, at.AddDate(400, 0, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Once(c.start, c.end)
			requireRefused(t, err, c.field, "must be")
		})
	}
	_, err := Once(at, at.Add(MaxDuration+1))
	requireRefused(t, err, "end", "at most 7 days after start, so by 2026-01-08T00:00:00Z")
}

func requireRefused(t *testing.T, err error, field, names string) {
	t.Helper()
	var refused *FieldError
	if !errors.As(err, &refused) || refused.Field != field || !strings.Contains(err.Error(), names) {
		t.Errorf("got %v, want a refusal of %s that says %q", err, field, names)
	}
}
