package windows

import (
	"iter"
	"time"
)

// series is a rule's days at one wall-clock time in one zone.
type series struct {
	rule     rule
	clock    time.Duration // of starts, since midnight on the wall
	duration time.Duration // of occurrences; of those that end by the wall, by how much the clock goes on: over 0, at most a day
	byWall   bool          // occurrences end when the wall says so, and not after the duration
	zone     *time.Location
}

func (s *series) start(d day) time.Time { return first(d.midnight().Add(s.clock), s.zone) }

func (s *series) occurrence(d day) Occurrence {
	start := s.start(d)
	if s.byWall {
		// Where the end comes twice, the second counts: what is planned until then is not cut short. Where a gap moved the start to the
		// end or past it, the occurrence keeps its length.
		if end := last(d.midnight().Add(s.clock+s.duration), s.zone); end.After(start) {
			return Occurrence{start, end}
		}
	}
	return Occurrence{start, start.Add(s.duration)}
}

// longest is no less than the elapsed time of any occurrence: a zone skips or repeats a day at most.
func (s *series) longest() time.Duration {
	if s.byWall {
		return s.duration + 24*time.Hour
	}
	return s.duration
}

// occurrences yields those that start after the given instant, in order, each instant once: where a zone skips a whole day (Apia,
// 2011-12-30), two days share one start.
func (s *series) occurrences(after time.Time) iter.Seq[Occurrence] {
	return func(yield func(Occurrence) bool) {
		// A gap or an overlap moves a start by a day at most.
		for d := range s.rule.days(dayOf(after.In(s.zone)) - 1) {
			o := s.occurrence(d)
			if !o.Start.After(after) {
				continue
			}
			if !yield(o) {
				return
			}
			after = o.Start
		}
	}
}

// first turns a wall time, written as if it were UTC, into an instant of the zone: the first of two in an overlap; in a gap, shifted by
// the gap, which is the offset from before it. [time.Date] promises neither.
func first(wall time.Time, zone *time.Location) time.Time {
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

// last is like first, but the last of two in an overlap.
func last(wall time.Time, zone *time.Location) time.Time {
	found := first(wall, zone)
	_, offset := found.Zone()
	end := boundAfter(found)
	if end.IsZero() {
		return found
	}
	_, next := end.Zone()
	if again := less(wall, next).In(zone); next < offset && !again.Before(end) {
		return again
	}
	return found
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
