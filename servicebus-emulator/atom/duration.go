package atom

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// forever is the longest TimeSpan of .NET, which is how Service Bus writes "never".
const forever = "P10675199DT2H48M5.4775807S"

// unlimited is from when on a duration is, for us, forever.
const unlimited = 100 * 365 * 24 * time.Hour

var durationForm = regexp.MustCompile(
	`^P(?:(\d{1,18})W)?(?:(\d{1,18})D)?(?:T(?:(\d{1,18})H)?(?:(\d{1,18})M)?(?:(\d{1,18})(?:\.(\d{1,9}))?S)?)?$`)

// ParseDuration reads an ISO 8601 duration of weeks, days, hours, minutes and seconds. Years and months are refused: how
// long they are depends on when they start. What is longer than a time.Duration holds becomes the longest it does.
func ParseDuration(s string) (time.Duration, error) {
	parts := durationForm.FindStringSubmatch(s)
	if parts == nil || s == "P" || strings.HasSuffix(s, "T") {
		return 0, fmt.Errorf("%q is not a duration of the form P1DT2H3M4.5S", s)
	}
	var exact int64
	approximate := 0.0
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second} {
		n, _ := strconv.ParseInt("0"+parts[i+1], 10, 64)
		exact += n * int64(unit) // may overflow; then approximate tells
		approximate += float64(n) * float64(unit)
	}
	fraction, _ := strconv.ParseInt((parts[6] + "000000000")[:9], 10, 64)
	if approximate >= math.MaxInt64-float64(time.Second) {
		return math.MaxInt64, nil
	}
	return time.Duration(exact + fraction), nil
}

// FormatDuration writes a duration as Service Bus does, in ticks of 100 ns at the finest. What is not positive, or a
// hundred years and more, is forever.
func FormatDuration(d time.Duration) string {
	if d <= 0 || d >= unlimited {
		return forever
	}
	d = max(d.Truncate(100), 100)
	var b strings.Builder
	b.WriteString("P")
	if days := d / (24 * time.Hour); days > 0 {
		fmt.Fprintf(&b, "%dD", days)
	}
	if d %= 24 * time.Hour; d == 0 {
		return b.String()
	}
	b.WriteString("T")
	if d >= time.Hour {
		fmt.Fprintf(&b, "%dH", d/time.Hour)
	}
	if d %= time.Hour; d >= time.Minute {
		fmt.Fprintf(&b, "%dM", d/time.Minute)
	}
	if d %= time.Minute; d > 0 {
		seconds := fmt.Sprintf("%d.%07d", d/time.Second, d%time.Second/100)
		b.WriteString(strings.TrimRight(strings.TrimRight(seconds, "0"), ".") + "S")
	}
	return b.String()
}
