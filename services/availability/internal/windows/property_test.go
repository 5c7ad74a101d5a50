package windows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/commandcenter/fleet/services/availability/internal/windows/zoneinfo"
)

// plan is a recurrence as the second way computes it: it walks every day of the
// wall calendar and every minute around a wall time, and shares no code with the
// package.
type plan struct {
	start     time.Time // wall
	zone      *time.Location
	freq      string
	interval  int
	weekdays  []ordinalDay
	monthDays []int
	count     int
	until     time.Time // wall
	duration  time.Duration
	byWall    bool // the duration is by the wall, and at most a day
}

type ordinalDay struct {
	n       int // 0: every
	weekday time.Weekday
}

const planDays = 800

func drawPlan(t *rapid.T) plan {
	// Around the changes of 2026, so that they are met often, and around the end of a leap year that zones reach by rule alone.
	day := rapid.SampledFrom([]string{"2039-11-01", "2026-03-01", "2026-03-28", "2026-04-04", "2026-08-30", "2026-10-03", "2026-10-25", "2024-01-31"}).Draw(t, "day")
	start, _ := time.Parse(time.DateOnly, day)
	minute := rapid.OneOf(rapid.IntRange(0, 24*60-1), rapid.IntRange(0, 3*60), rapid.IntRange(23*60, 24*60-1)).Draw(t, "minute")
	name := rapid.SampledFrom([]string{"Europe/Amsterdam", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca", "UTC"}).Draw(t, "zone")
	zone, err := zoneinfo.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	p := plan{
		start:    start.Add(time.Duration(minute) * time.Minute),
		zone:     zone,
		freq:     rapid.SampledFrom([]string{"DAILY", "WEEKLY", "MONTHLY"}).Draw(t, "freq"),
		interval: rapid.IntRange(1, 5).Draw(t, "interval"),
		duration: time.Duration(rapid.IntRange(1, 7*24*60).Draw(t, "minutes")) * time.Minute,
	}
	if rapid.Bool().Draw(t, "byWall") {
		p.byWall, p.duration = true, min(p.duration, time.Duration(rapid.IntRange(1, 24*60).Draw(t, "wall minutes"))*time.Minute)
	}
	ordinal := rapid.Just(0)
	if p.freq == "MONTHLY" {
		ordinal = rapid.IntRange(-5, 5)
		p.monthDays = rapid.SliceOfN(rapid.IntRange(1, 31), 0, 4).Draw(t, "monthDays")
		for i := range p.monthDays {
			if rapid.Bool().Draw(t, "fromEnd") {
				p.monthDays[i] *= -1
			}
		}
	}
	if p.freq != "DAILY" {
		p.weekdays = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ordinalDay {
			return ordinalDay{ordinal.Draw(t, "n"), time.Weekday(rapid.IntRange(0, 6).Draw(t, "weekday"))}
		}), 0, 4).Draw(t, "weekdays")
	}
	switch rapid.IntRange(0, 2).Draw(t, "end") {
	case 1:
		p.count = rapid.IntRange(1, 40).Draw(t, "count")
	case 2:
		p.until = p.start.Add(time.Duration(rapid.IntRange(0, planDays*24*60).Draw(t, "until")) * time.Minute)
	}
	return p
}

func (p plan) recurrence() Recurrence {
	rule := fmt.Sprintf("FREQ=%s;INTERVAL=%d", p.freq, p.interval)
	var items []string
	for _, d := range p.weekdays {
		item := strings.ToUpper(d.weekday.String()[:2])
		if d.n != 0 {
			item = fmt.Sprintf("%d%s", d.n, item)
		}
		items = append(items, item)
	}
	if items != nil {
		rule += ";BYDAY=" + strings.Join(items, ",")
	}
	if len(p.monthDays) > 0 {
		rule += ";BYMONTHDAY=" + strings.ReplaceAll(strings.Trim(fmt.Sprint(p.monthDays), "[]"), " ", ",")
	}
	if p.count > 0 {
		rule += fmt.Sprintf(";COUNT=%d", p.count)
	}
	if !p.until.IsZero() {
		rule += ";UNTIL=" + p.until.Format("20060102T150405")
	}
	r := Recurrence{Start: p.start.Format("2006-01-02T15:04"), Zone: p.zone.String(), Rule: rule, Duration: p.duration}
	if p.byWall {
		r.Duration, r.Ends = 0, p.start.Add(p.duration).Format("15:04")
	}
	return r
}

// occurrences are those of planDays from the start.
func (p plan) occurrences() []Occurrence {
	var found []Occurrence
	for i := range planDays {
		wall := p.start.AddDate(0, 0, i)
		if !p.includes(wall) {
			continue
		}
		if p.count > 0 && len(found) == p.count || !p.until.IsZero() && wall.After(p.until) {
			break
		}
		start := byTheMinute(wall, p.zone)
		found = append(found, Occurrence{start, p.end(wall, start)})
	}
	return found
}

func (p plan) end(wall, start time.Time) time.Time {
	if p.byWall {
		if end := backByTheMinute(wall.Add(p.duration), p.zone); end.After(start) {
			return end
		}
	}
	return start.Add(p.duration)
}

func (p plan) includes(wall time.Time) bool {
	days := int(wall.Sub(p.start).Hours() / 24)
	switch p.freq {
	case "DAILY":
		return days%p.interval == 0
	case "WEEKLY":
		sinceMonday := (int(p.start.Weekday()) + 6) % 7
		if (days+sinceMonday)/7%p.interval != 0 {
			return false
		}
		if len(p.weekdays) == 0 {
			return wall.Weekday() == p.start.Weekday()
		}
	case "MONTHLY":
		months := (wall.Year()-p.start.Year())*12 + int(wall.Month()) - int(p.start.Month())
		if months%p.interval != 0 {
			return false
		}
		if len(p.weekdays)+len(p.monthDays) == 0 {
			return wall.Day() == p.start.Day()
		}
	}
	left := 0 // days to the end of the month, this one included
	for d := wall; d.Month() == wall.Month(); d = d.AddDate(0, 0, 1) {
		left++
	}
	isMonthDay := func(n int) bool { return n == wall.Day() || n == -left }
	isOrdinalDay := func(d ordinalDay) bool {
		if wall.Weekday() != d.weekday || d.n == 0 {
			return wall.Weekday() == d.weekday
		}
		step, n := -7, d.n
		if n < 0 {
			step, n = 7, -n
		}
		return wall.AddDate(0, 0, step*(n-1)).Month() == wall.Month() && wall.AddDate(0, 0, step*n).Month() != wall.Month()
	}
	return (len(p.monthDays) == 0 || slices.ContainsFunc(p.monthDays, isMonthDay)) &&
		(len(p.weekdays) == 0 || slices.ContainsFunc(p.weekdays, isOrdinalDay))
}

// byTheMinute walks the zone's clock from well before until it shows the wall
// time, or jumps over it: then as much after the jump as it jumped over.
func byTheMinute(wall time.Time, zone *time.Location) time.Time {
	at := wall.Add(-15 * time.Hour)
	for shown(at, zone).Before(wall) {
		at = at.Add(time.Minute)
	}
	if shown(at, zone).Equal(wall) {
		return at
	}
	expected := shown(at.Add(-time.Minute), zone).Add(time.Minute) // had it not jumped
	return at.Add(wall.Sub(expected))
}

// backByTheMinute walks back, and so finds the last of two.
func backByTheMinute(wall time.Time, zone *time.Location) time.Time {
	at := wall.Add(15 * time.Hour)
	for shown(at, zone).After(wall) {
		at = at.Add(-time.Minute)
	}
	if shown(at, zone).Equal(wall) {
		return at
	}
	return byTheMinute(wall, zone) // jumped over
}

func shown(at time.Time, zone *time.Location) time.Time {
	local := at.In(zone)
	y, m, d := local.Date()
	return time.Date(y, m, d, local.Hour(), local.Minute(), 0, 0, time.UTC)
}

func TestSameAsDayByDay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		want := p.occurrences()
		w, err := Recur(p.recurrence())
		if err != nil {
			if len(want) > 0 {
				t.Fatalf("%+v refused: %v", p.recurrence(), err)
			}
			return
		}
		minutes := rapid.IntRange(-1, (planDays-10)*24*60).Draw(t, "at")
		at := p.start.Add(time.Duration(minutes) * time.Minute)
		if len(want) > 0 && rapid.Bool().Draw(t, "edge") {
			o := rapid.SampledFrom(want).Draw(t, "of")
			at = rapid.SampledFrom([]time.Time{o.Start, o.End, o.End.Add(-1)}).Draw(t, "edge at")
		}
		compare(t, w, p, want, at)
	})
}

func TestLastEndSameAsDayByDay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		all := p.occurrences()
		w, err := Recur(p.recurrence())
		if err != nil {
			return // refused ones are compared above
		}
		got, ends := w.LastEnd()
		endless := p.count == 0 && p.until.IsZero()
		switch {
		case ends == endless:
			t.Fatalf("%+v: ends %v", p.recurrence(), ends)
		case endless || p.count > len(all) || p.until.After(p.start.AddDate(0, 0, planDays-1)):
			return // the plan does not see that far
		case !got.Equal(all[len(all)-1].End):
			t.Fatalf("%+v: ends %s, want %s", p.recurrence(), got, all[len(all)-1].End)
		}
	})
}

func compare(t *rapid.T, w Window, p plan, want []Occurrence, at time.Time) {
	last := p.start.AddDate(0, 0, planDays-2) // want is complete up to here
	var covering Occurrence
	var later []Occurrence
	for _, o := range want {
		switch {
		case o.Start.After(at) && o.Start.Before(last):
			later = append(later, o)
		case !o.Start.After(at) && o.End.After(at):
			covering = o
		}
	}
	if at.Before(last) {
		got, ok := w.Covering(at)
		if ok == covering.Start.IsZero() || !got.Start.Equal(covering.Start) || !got.End.Equal(covering.End) {
			t.Fatalf("%+v at %s: covering %v %v, want %v", p.recurrence(), at, got, ok, covering)
		}
	}
	got := w.Occurrences(at, len(later)+1)
	if n := len(got); n > len(later) && got[n-1].Start.Before(last) {
		t.Fatalf("%+v after %s: %v is one too many", p.recurrence(), at, got[n-1])
	}
	for i, o := range later {
		if i >= len(got) || !got[i].Start.Equal(o.Start) || !got[i].End.Equal(o.End) {
			t.Fatalf("%+v after %s: got %v, want %v at %d", p.recurrence(), at, got, o, i)
		}
	}
}

func TestActiveSameAsMerged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var windows []Window
		var all []Occurrence
		base := utc("2026-03-01T00:00:00Z")
		for range rapid.IntRange(0, 4).Draw(t, "windows") {
			start := base.Add(time.Duration(rapid.IntRange(0, 72).Draw(t, "start")) * time.Hour)
			duration := time.Duration(rapid.IntRange(1, 30).Draw(t, "hours")) * time.Hour
			count := rapid.IntRange(1, 5).Draw(t, "count")
			w, err := Recur(Recurrence{
				Start: start.Format("2006-01-02T15:04"), Zone: "UTC",
				Rule: fmt.Sprintf("FREQ=DAILY;COUNT=%d", count), Duration: duration,
			})
			if err != nil {
				t.Fatal(err)
			}
			windows = append(windows, w)
			for i := range count {
				begin := start.AddDate(0, 0, i)
				all = append(all, Occurrence{begin, begin.Add(duration)})
			}
		}
		at := base.Add(time.Duration(rapid.IntRange(0, 9*24).Draw(t, "at")) * time.Hour)
		want := at
		// Every edge is at a full hour: go on by the hour while any covers it.
		for slices.ContainsFunc(all, func(o Occurrence) bool { return !o.Start.After(want) && o.End.After(want) }) {
			want = want.Add(time.Hour)
		}
		until, active := Active(windows, at)
		if active != want.After(at) || active && !until.Equal(want) {
			t.Fatalf("at %s: got %s %v, want %s", at, until, active, want)
		}
	})
}

func FuzzRecur(f *testing.F) {
	f.Add("2026-03-29T02:30", "Europe/Amsterdam", "FREQ=DAILY;COUNT=3", int64(time.Hour))
	f.Add("2026-09-06T00:00:00", "America/Santiago", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU;UNTIL=20270101T000000Z", int64(MaxDuration))
	f.Add("2011-12-30T10:00", "Pacific/Apia", "FREQ=MONTHLY;BYDAY=1MO,-1FR;BYMONTHDAY=-31,5", int64(1))
	f.Add("9998-12-31T23:59", "Africa/Casablanca", "FREQ=MONTHLY;INTERVAL=1000;UNTIL=00000101T000000Z", int64(1))
	f.Fuzz(func(t *testing.T, start, zone, rule string, duration int64) {
		w, err := Recur(Recurrence{Start: start, Zone: zone, Rule: rule, Duration: time.Duration(duration)})
		if err != nil {
			if refused := (*FieldError)(nil); !errors.As(err, &refused) {
				t.Fatalf("%T is not a field error", err)
			}
			return
		}
		found := w.Occurrences(time.Time{}, 5)
		if len(found) == 0 {
			t.Fatal("never occurs, and is not refused")
		}
		if last, ends := w.LastEnd(); ends {
			if _, active := w.Covering(last.Add(-1)); !active || w.firstEndingAfter(last) != (Occurrence{}) {
				t.Fatalf("does not end at %s", last)
			}
		}
		for i, o := range found {
			if i > 0 && !o.Start.After(found[i-1].Start) {
				t.Fatalf("%v after %v", o, found[i-1])
			}
			if got, ok := w.Covering(o.Start); !ok || !got.Start.Equal(o.Start) {
				t.Fatalf("covering %v: %v %v", o, got, ok)
			}
			if _, active := Active([]Window{w}, o.Start); !active {
				t.Fatalf("not active at %v", o)
			}
		}
	})
}
