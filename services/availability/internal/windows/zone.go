package windows

import (
	"iter"
	"time"
	_ "time/tzdata" // the images carry no time-zone database
)

// series is a rule's days at one wall-clock time in one zone.
type series struct {
	rule  rule
	clock time.Duration // since midnight on the wall
	zone  *time.Location
}

func (s *series) start(d day) time.Time { return instant(d.midnight().Add(s.clock), s.zone) }

// starts yields the starts after the given instant, in order, each instant once:
// where a zone skips a whole day (Apia, 2011-12-30), two days share one start.
func (s *series) starts(after time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		// A gap or an overlap moves a start by a day at most.
		for d := range s.rule.days(dayOf(after.In(s.zone)) - 1) {
			start := s.start(d)
			if !start.After(after) {
				continue
			}
			if !yield(start) {
				return
			}
			after = start
		}
	}
}

// instant turns a wall time, written as if it were UTC, into an instant of the
// zone: the first of two in an overlap; in a gap, shifted by the gap, which is
// the offset from before it. [time.Date] promises neither.
func instant(wall time.Time, zone *time.Location) time.Time {
	at := wall.Add(-24 * time.Hour).In(zone) // earlier than wall in every zone
	for {
		_, offset := at.Zone()
		end := boundAfter(at)
		found := less(wall, offset).In(zone)
		if end.IsZero() || found.Before(end) {
			return found
		}
		if _, next := end.Zone(); less(wall, next).Before(end) {
			return found // in the gap at end
		}
		at = end
	}
}

// boundAfter is where the offset at the instant may end; zero if it goes on for ever. Beyond a zone's listed changes, which end in
// 2037, [time.Time.ZoneBounds] ends every year after 365 days: on the last day of a leap year its bound lies behind.
func boundAfter(at time.Time) time.Time {
	_, end := at.ZoneBounds()
	if end.IsZero() || end.After(at) {
		return end
	}
	return time.Date(at.UTC().Year()+1, time.January, 1, 0, 0, 0, 0, time.UTC).In(at.Location())
}

func less(wall time.Time, offsetSeconds int) time.Time {
	return wall.Add(-time.Duration(offsetSeconds) * time.Second)
}
