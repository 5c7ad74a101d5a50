package windows

import (
	"iter"
	"time"
)

// day counts civil days from 1970-01-01.
type day int

const daySeconds = 24 * 60 * 60

// dayOf is the day on the wall at t, in t's zone.
func dayOf(t time.Time) day {
	y, m, d := t.Date()
	return civil(y, m, d)
}

func civil(y int, m time.Month, d int) day {
	seconds := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()
	return day(floorDiv(int(seconds), daySeconds))
}

func (d day) midnight() time.Time { return time.Unix(int64(d)*daySeconds, 0).UTC() }

func (d day) weekday() time.Weekday { return time.Weekday(mod(int(d)+int(time.Thursday), 7)) }

// month counts from January of year 0.
func (d day) month() int {
	y, m, _ := d.midnight().Date()
	return y*12 + int(m) - 1
}

// monday is the first day of d's week: RFC 5545 weeks start on Monday (WKST=MO).
func (d day) monday() day { return d - day(mod(int(d.weekday())-1, 7)) }

func firstOfMonth(month int) day { return civil(0, time.Month(month+1), 1) }

func floorDiv(a, b int) int { return (a - mod(a, b)) / b }

func mod(a, b int) int { return (a%b + b) % b }

// positions is a set of places in a row, counted from its start (1, 2, …) and
// from its end (-1, -2, …), at most 31 either way.
type positions struct{ fromStart, fromEnd uint32 }

var everyPosition = positions{fromStart: ^uint32(0)}

func (p *positions) add(n int) {
	if n > 0 {
		p.fromStart |= 1 << n
	} else {
		p.fromEnd |= 1 << -n
	}
}

func (p positions) has(fromStart, fromEnd int) bool {
	return (p.fromStart>>fromStart|p.fromEnd>>fromEnd)&1 == 1
}

type frequency string

const (
	daily   frequency = "DAILY"
	weekly  frequency = "WEEKLY"
	monthly frequency = "MONTHLY"
)

// neverEnds is the last day of a rule that has no other.
var neverEnds = civil(maxYear, time.December, 31)

// rule is a set of days. Time is cut in periods (a day, a week or a month),
// numbered from the one that holds first; a rule takes every interval-th.
type rule struct {
	freq        frequency
	interval    int
	monthDays   positions    // of the period
	weekdays    [7]positions // by [time.Weekday]: which of them in the period
	first, last day          // inclusive; COUNT and UNTIL end up in last
}

// days yields the rule's days from the given one on, in order. It jumps to the
// first period by arithmetic. The last day bounds its work, also for a rule
// that never occurs: below 100,000 months, a few milliseconds.
func (r rule) days(from day) iter.Seq[day] {
	return func(yield func(day) bool) {
		from = max(from, r.first)
		if from > r.last {
			return
		}
		for n := r.periodOf(from); ; n++ {
			start, length := r.period(n)
			if start > r.last {
				return
			}
			for i := range length {
				d := start + day(i)
				if d < from || d > r.last || !r.includes(d, i, length) {
					continue
				}
				if !yield(d) {
					return
				}
			}
		}
	}
}

// lastDay is the rule's last; false if it goes on to the last year. It looks back from where COUNT or UNTIL ended up.
func (r rule) lastDay() (day, bool) {
	if r.last >= neverEnds {
		return 0, false
	}
	for n := r.periodOf(r.last); ; n-- {
		start, length := r.period(n)
		for i := length - 1; i >= 0; i-- {
			if d := start + day(i); d >= r.first && d <= r.last && r.includes(d, i, length) {
				return d, true
			}
		}
	}
}

// periodOf numbers the rule's last period that starts at or before d.
func (r rule) periodOf(d day) int {
	switch r.freq {
	case monthly:
		return floorDiv(d.month()-r.first.month(), r.interval)
	case weekly:
		return floorDiv(int(d-r.first.monday()), 7*r.interval)
	default:
		return floorDiv(int(d-r.first), r.interval)
	}
}

// period returns the first day and the number of days of the rule's n-th period.
func (r rule) period(n int) (start day, length int) {
	switch r.freq {
	case monthly:
		month := r.first.month() + n*r.interval
		start = firstOfMonth(month)
		return start, int(firstOfMonth(month+1) - start)
	case weekly:
		return r.first.monday() + day(7*n*r.interval), 7
	default:
		return r.first + day(n*r.interval), 1
	}
}

// includes tells whether the rule takes d, the i-th day (from 0) of its period.
func (r rule) includes(d day, i, length int) bool {
	left := length - 1 - i
	return r.monthDays.has(i+1, left+1) && r.weekdays[d.weekday()].has(i/7+1, left/7+1)
}
