package servicebusemulator

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseDuration reads an ISO 8601 duration of days, hours, minutes and seconds. Years and months are refused: how
// long they are depends on when they start. What is longer than a time.Duration holds becomes the longest it does.
func parseDuration(s string) (time.Duration, error) {
	refused := fmt.Errorf("duration %q is not of the form P1DT2H3M4.5S", s)
	date, clock, hasClock := strings.Cut(s, "T")
	date, isPeriod := strings.CutPrefix(date, "P")
	if !isPeriod || (date == "" && clock == "") || (hasClock && clock == "") {
		return 0, refused
	}
	total := 0.0
	for _, part := range []struct {
		text  string
		units []unit
	}{
		{date, []unit{{'W', 7 * 24 * time.Hour}, {'D', 24 * time.Hour}}},
		{clock, []unit{{'H', time.Hour}, {'M', time.Minute}, {'S', time.Second}}},
	} {
		seconds, ok := sum(part.text, part.units)
		if !ok {
			return 0, refused
		}
		total += seconds
	}
	if total >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64, nil
	}
	return time.Duration(total * float64(time.Second)), nil
}

type unit struct {
	letter byte
	length time.Duration
}

// sum adds up numbers with units, which must come in the given order. The answer is in seconds.
func sum(text string, units []unit) (float64, bool) {
	total := 0.0
	for text != "" {
		digits := strings.TrimLeft(text, "0123456789.")
		number := text[:len(text)-len(digits)]
		value, err := strconv.ParseFloat(number, 64)
		if err != nil || digits == "" {
			return 0, false
		}
		for len(units) > 0 && units[0].letter != digits[0] {
			units = units[1:]
		}
		if len(units) == 0 {
			return 0, false
		}
		total += value * units[0].length.Seconds()
		units, text = units[1:], digits[1:]
	}
	return total, true
}
