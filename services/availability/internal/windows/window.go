// Package windows answers when planned maintenance happens: one-off spans and
// recurring ones in a zone's wall time. It is pure: no clock, no state; every
// question carries its instant.
//
// It reads an RFC 5545 RRULE subset (see [Recurrence]). The calendar part
// (rule.go) works on civil days; the zone part (zone.go) turns a wall time into
// one instant. Nothing starts before 1970 or after 9998, so that every end has
// a four-digit year and every search ends.
package windows

import (
	"fmt"
	"iter"
	"time"
)

const (
	// MaxDuration is the longest that one occurrence of a window lasts.
	MaxDuration = 7 * 24 * time.Hour
	// Horizon is how far [Active] follows windows that keep meeting each other.
	Horizon = 366 * 24 * time.Hour

	minYear, maxYear = 1970, 9998
)

// FieldError says which field of a window is refused, why, and what is allowed.
type FieldError struct {
	Field  string // start, end, zone, rule, duration or ends
	Detail string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Detail }

func refuse(field, format string, args ...any) error {
	return &FieldError{Field: field, Detail: fmt.Sprintf(format, args...)}
}

// Occurrence is one span [Start, End) of maintenance. The occurrences of a
// recurring window carry its zone, those of a one-off window UTC.
type Occurrence struct {
	Start, End time.Time
}

// Elapsed is how long the occurrence lasts, and ByWall by how much the clocks on the walls of its zone go on meanwhile. They differ where
// the zone's clocks are changed within the occurrence.
func (o Occurrence) Elapsed() time.Duration { return o.End.Sub(o.Start) }

// ByWall is explained at Elapsed.
func (o Occurrence) ByWall() time.Duration {
	_, before := o.Start.Zone()
	_, after := o.End.Zone()
	return o.Elapsed() + time.Duration(after-before)*time.Second
}

// Nominal is the duration of a recurring window's occurrences: as given, or for one that ends by the wall, without a change of clocks.
// Zero for a one-off window.
func (w Window) Nominal() time.Duration {
	if w.series == nil {
		return 0
	}
	return w.series.duration
}

// Window is a valid maintenance window, from [Once] or [Recur]. It is immutable;
// the zero Window never occurs.
type Window struct {
	once   Occurrence
	series *series // nil: one-off
}

// Once returns the window [start, end). Both are in the years 1970 to 9998, and
// end is after start by up to [MaxDuration]; else the error is a [*FieldError].
func Once(start, end time.Time) (Window, error) {
	start, end = start.UTC(), end.UTC()
	switch {
	case !inRange(start):
		return Window{}, refuse("start", "must be an instant in the years %d to %d", minYear, maxYear)
	case !inRange(end):
		return Window{}, refuse("end", "must be an instant in the years %d to %d", minYear, maxYear)
	case !end.After(start):
		return Window{}, refuse("end", "must be after start (%s)", start.Format(time.RFC3339Nano))
	case end.Sub(start) > MaxDuration:
		return Window{}, refuse("end", "must be at most 7 days after start, so by %s", start.Add(MaxDuration).Format(time.RFC3339Nano))
	}
	return Window{once: Occurrence{start, end}}, nil
}

func inRange(t time.Time) bool { return t.Year() >= minYear && t.Year() <= maxYear }

// Occurrences returns up to limit occurrences that start after the given
// instant, in order. One that starts at the instant is in progress: ask
// [Window.Covering]. The cost does not grow with the distance from the start.
func (w Window) Occurrences(after time.Time, limit int) []Occurrence {
	var found []Occurrence
	if limit <= 0 {
		return nil
	}
	for o := range w.endingAfter(after) {
		if !o.Start.After(after) {
			continue
		}
		if found = append(found, o); len(found) == limit {
			break
		}
	}
	return found
}

// Covering returns the occurrence in progress, Start <= at < End. Where the
// window overlaps itself, it is the one that ends last.
func (w Window) Covering(at time.Time) (o Occurrence, ok bool) {
	for next := range w.endingAfter(at) {
		if next.Start.After(at) {
			break
		}
		o, ok = next, true
	}
	return o, ok
}

// LastEnd returns when the window ends for good (UTC); false if it has no end in
// sight: a rule without COUNT or UNTIL, or one that reaches the year 9998.
func (w Window) LastEnd() (at time.Time, ends bool) {
	if w.series == nil {
		return w.once.End, true
	}
	last, ends := w.series.rule.lastDay()
	if !ends {
		return time.Time{}, false
	}
	return w.series.occurrence(last).End.UTC(), true
}

// endingAfter yields, in order, the occurrences in progress at t and those to come.
func (w Window) endingAfter(t time.Time) iter.Seq[Occurrence] {
	return func(yield func(Occurrence) bool) {
		if w.series == nil {
			if w.once.End.After(t) {
				yield(w.once)
			}
			return
		}
		for o := range w.series.occurrences(t.Add(-w.series.longest())) {
			if o.End.After(t) && !yield(o) {
				return
			}
		}
	}
}

// Active reports whether any window is in progress, and until when (UTC)
// maintenance lasts without a pause: windows that overlap or touch count as one.
// Until is zero when recurring windows meet each other for more than [Horizon]
// after at, or after the last one-off among them: no end is in sight.
func Active(windows []Window, at time.Time) (until time.Time, active bool) {
	until = at
	limit := at.Add(Horizon)
	ahead := make([]Occurrence, len(windows)) // each window's first to end after until
	for grown := true; grown; {
		grown = false
		for i, w := range windows {
			if !ahead[i].End.After(until) {
				ahead[i] = w.firstEndingAfter(until)
			}
			o := ahead[i]
			if o.Start.After(until) || !o.End.After(until) {
				continue
			}
			until, grown = o.End, true
			if w.series == nil {
				limit = until.Add(Horizon)
			} else if until.After(limit) {
				return time.Time{}, true
			}
		}
	}
	if !until.After(at) {
		return time.Time{}, false
	}
	return until.UTC(), true
}

// firstEndingAfter returns the zero Occurrence when none is left.
func (w Window) firstEndingAfter(t time.Time) Occurrence {
	for o := range w.endingAfter(t) {
		return o
	}
	return Occurrence{}
}
