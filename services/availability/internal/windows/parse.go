package windows

import (
	"strconv"
	"strings"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/windows/zoneinfo"
)

const (
	maxRuleLength = 500 // bytes
	maxInterval   = 1000
	maxCount      = 10_000
)

// Recurrence is a recurring window as a person writes it.
type Recurrence struct {
	// Start is the first wall time that may be an occurrence, without a zone:
	// 2026-03-29T02:30 or 2026-03-29T02:30:00, in the years 1970 to 9998. It is
	// an occurrence itself only if the rule includes its day.
	Start string
	// Zone is an IANA name, such as Europe/Amsterdam.
	Zone string
	// Rule is an RFC 5545 RRULE value, with or without "RRULE:" before it, of the parts
	//
	//	FREQ        DAILY, WEEKLY or MONTHLY; required
	//	INTERVAL    1 to 1000
	//	BYDAY       WEEKLY: MO,TU,…; MONTHLY: also with ordinals, 1MO or -1FR (±1 to ±5)
	//	BYMONTHDAY  MONTHLY: ±1 to ±31; with BYDAY, both must hold
	//	COUNT       1 to 10000 days of the rule
	//	UNTIL       inclusive: 20261231T225959Z in UTC; 20261231T235959 or, for
	//	            the whole day, 20261231 in Zone's wall time. Not with COUNT
	Rule string
	// Duration is the elapsed time of each occurrence, over 0 and up to [MaxDuration]. Not with Ends.
	Duration time.Duration
	// Ends is when an occurrence ends on the wall, 06:00 or 06:00:00: at the first such time after its start, at most a day later, however
	// the zone's clocks are changed meanwhile. Of a time that comes twice the second counts. An occurrence whose start a change of clocks
	// moves to its end, or past it, keeps its length by the wall. Not with Duration.
	Ends string
}

// TrimRule returns the rule without blanks around it and without the "RRULE:" that calendar files put before it.
func TrimRule(rule string) string {
	const prefix = "RRULE:"
	rule = strings.TrimSpace(rule)
	if len(rule) >= len(prefix) && strings.EqualFold(rule[:len(prefix)], prefix) {
		return rule[len(prefix):]
	}
	return rule
}

// Recur returns the recurring window that r describes. A window that would never
// occur is refused. Every error is a [*FieldError].
func Recur(r Recurrence) (Window, error) {
	wall, err := parseWall(r.Start)
	if err != nil {
		return Window{}, err
	}
	zone, err := parseZone(r.Zone)
	if err != nil {
		return Window{}, err
	}
	first := dayOf(wall)
	s := &series{clock: wall.Sub(first.midnight()), zone: zone}
	if err := s.parseLength(r); err != nil {
		return Window{}, err
	}
	if err := s.parseRule(TrimRule(r.Rule), first); err != nil {
		return Window{}, err
	}
	return Window{series: s}, nil
}

// parseLength reads how long occurrences last; it needs the clock of their start.
func (s *series) parseLength(r Recurrence) error {
	if r.Ends == "" {
		if r.Duration <= 0 || r.Duration > MaxDuration {
			return refuse("duration", "must be over 0 and at most 7 days, is %s; or give ends, a wall time such as 06:00", r.Duration)
		}
		s.duration = r.Duration
		return nil
	}
	if r.Duration != 0 {
		return refuse("ends", "cannot be combined with duration: give one of them")
	}
	ends, ok := parseClock(r.Ends)
	if !ok {
		return refuse("ends", "must be a wall time of 00:00 to 23:59, with two digits for the hour, such as 06:00 or 06:00:00")
	}
	s.byWall, s.duration = true, ends-s.clock
	if s.duration <= 0 {
		s.duration += 24 * time.Hour
	}
	return nil
}

// parseClock returns a time of the day, since midnight on the wall.
func parseClock(text string) (time.Duration, bool) {
	for _, layout := range []string{"15:04", "15:04:05"} {
		if at, err := time.Parse(layout, text); err == nil && at.Format(layout) == text {
			return at.Sub(at.Truncate(24 * time.Hour)), true
		}
	}
	return 0, false
}

// parseWall returns a wall time as if it were UTC.
func parseWall(text string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		wall, err := time.Parse(layout, text)
		// [time.Parse] lets fractions of a second through.
		if err == nil && wall.Format(layout) == text && inRange(wall) {
			return wall, nil
		}
	}
	return time.Time{}, refuse("start",
		"must be a wall time without zone, such as 2026-03-29T02:30, in the years %d to %d", minYear, maxYear)
}

func parseZone(name string) (*time.Location, error) {
	zone, err := zoneinfo.Load(name)
	if err != nil {
		return nil, refuse("zone", "must be an IANA time zone as that database spells it, such as Europe/Amsterdam or UTC")
	}
	return zone, nil
}

// parseRule sets s.rule; it needs the other fields for UNTIL.
func (s *series) parseRule(text string, first day) error {
	parts, err := splitRule(text)
	if err != nil {
		return err
	}
	s.rule = rule{freq: frequency(parts["FREQ"]), interval: 1, first: first, last: neverEnds}
	switch s.rule.freq {
	case daily, weekly, monthly:
	default:
		return refuse("rule", "FREQ is required and must be DAILY, WEEKLY or MONTHLY")
	}
	if value, ok := parts["INTERVAL"]; ok {
		if s.rule.interval, err = integer("INTERVAL", value, maxInterval); err != nil {
			return err
		}
	}
	if err := s.rule.parseDays(parts); err != nil {
		return err
	}
	return s.parseEnd(parts)
}

func splitRule(text string) (map[string]string, error) {
	if len(text) > maxRuleLength {
		return nil, refuse("rule", "must be at most %d bytes", maxRuleLength)
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(strings.ToUpper(text), ";") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "FREQ", "INTERVAL", "BYDAY", "BYMONTHDAY", "COUNT", "UNTIL":
		default:
			return nil, refuse("rule",
				"part %q is not supported; allowed are FREQ, INTERVAL, BYDAY, BYMONTHDAY, COUNT and UNTIL, as NAME=VALUE between semicolons", name)
		}
		if _, twice := parts[name]; twice {
			return nil, refuse("rule", "%s may be given once", name)
		}
		parts[name] = value
	}
	return parts, nil
}

// integer parses 1 to limit.
func integer(part, value string, limit int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > limit {
		return 0, refuse("rule", "%s must be 1 to %d", part, limit)
	}
	return n, nil
}

// parseDays reads BYDAY and BYMONTHDAY. Without them the first day's weekday or
// day of the month is meant.
func (r *rule) parseDays(parts map[string]string) error {
	byDay, hasDay := parts["BYDAY"]
	byMonthDay, hasMonthDay := parts["BYMONTHDAY"]
	switch {
	case hasDay && r.freq == daily:
		return refuse("rule", "BYDAY is allowed with FREQ=WEEKLY and FREQ=MONTHLY")
	case hasMonthDay && r.freq != monthly:
		return refuse("rule", "BYMONTHDAY is allowed with FREQ=MONTHLY")
	}
	if hasDay {
		if err := r.parseByDay(byDay); err != nil {
			return err
		}
	} else if r.freq == weekly {
		r.weekdays[r.first.weekday()] = everyPosition
	} else {
		for i := range r.weekdays {
			r.weekdays[i] = everyPosition
		}
	}
	switch {
	case hasMonthDay:
		return r.parseByMonthDay(byMonthDay)
	case r.freq == monthly && !hasDay:
		r.monthDays.add(r.first.midnight().Day())
	default:
		r.monthDays = everyPosition
	}
	return nil
}

var weekdayNames = map[string]time.Weekday{
	"SU": time.Sunday, "MO": time.Monday, "TU": time.Tuesday, "WE": time.Wednesday,
	"TH": time.Thursday, "FR": time.Friday, "SA": time.Saturday,
}

func (r *rule) parseByDay(list string) error {
	allowed := "MO to SU"
	if r.freq == monthly {
		allowed += ", also with an ordinal: 1MO to 5MO, -1FR to -5FR"
	}
	for item := range strings.SplitSeq(list, ",") {
		split := max(0, len(item)-2)
		weekday, ok := weekdayNames[item[split:]]
		if !ok {
			return refuse("rule", "BYDAY %q must be %s", item, allowed)
		}
		if split == 0 {
			r.weekdays[weekday] = everyPosition
			continue
		}
		n, err := strconv.Atoi(item[:split])
		if err != nil || n == 0 || n < -5 || n > 5 || r.freq != monthly {
			return refuse("rule", "BYDAY %q must be %s", item, allowed)
		}
		r.weekdays[weekday].add(n)
	}
	return nil
}

func (r *rule) parseByMonthDay(list string) error {
	for item := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(item)
		if err != nil || n == 0 || n < -31 || n > 31 {
			return refuse("rule", "BYMONTHDAY %q must be 1 to 31, or -1 (the last day) to -31", item)
		}
		r.monthDays.add(n)
	}
	return nil
}

// parseEnd turns COUNT or UNTIL into the rule's last day, and refuses a rule
// without any day.
func (s *series) parseEnd(parts map[string]string) error {
	value, hasCount := parts["COUNT"]
	until, hasUntil := parts["UNTIL"]
	count := 0 // no limit
	var err error
	switch {
	case hasCount && hasUntil:
		return refuse("rule", "COUNT and UNTIL exclude each other; give one of them")
	case hasCount:
		count, err = integer("COUNT", value, maxCount)
	case hasUntil:
		s.rule.last, err = s.parseUntil(until)
	}
	if err != nil {
		return err
	}
	seen := 0
	for d := range s.rule.days(s.rule.first) {
		if seen++; seen >= count {
			if hasCount {
				s.rule.last = d
			}
			break
		}
	}
	if seen == 0 {
		return refuse("rule", "never occurs: no day from start on, up to UNTIL or the year %d, fits the rule", maxYear)
	}
	return nil
}

// parseUntil returns the last day that starts at or before UNTIL.
func (s *series) parseUntil(text string) (day, error) {
	bound := s.rule.last
	if until, err := time.Parse("20060102T150405Z", text); err == nil && len(text) == 16 {
		last := dayOf(until.In(s.zone)) + 1
		for s.start(last).After(until) {
			last--
		}
		return min(last, bound), nil
	}
	if until, err := time.Parse("20060102T150405", text); err == nil && len(text) == 15 {
		last := dayOf(until)
		if until.Before(last.midnight().Add(s.clock)) {
			last--
		}
		return min(last, bound), nil
	}
	if until, err := time.Parse("20060102", text); err == nil {
		return min(dayOf(until), bound), nil
	}
	return 0, refuse("rule", "UNTIL must be like 20261231T225959Z (UTC), 20261231T235959 or 20261231 (wall time of zone)")
}
