package live

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// count is a suite's line of the report.
type count struct{ passed, failed, notApplicable int }

// judge prints the results of a suite and answers what failed. A test that is skipped and not named in NotApplicable has failed, and so
// has one that is named though it passes, and a suite with fewer tests than it had.
func judge(w io.Writer, s Suite, all []Result, complete bool) count {
	var c count
	var lines strings.Builder
	for _, r := range all {
		why, excepted := notApplicable(s.Name, r.Test)
		switch {
		case excepted && r.Outcome == Passed:
			c.failed++
			fmt.Fprintf(&lines, "  FAILED  %s passes, and need not be named as not applicable: %s\n", r.Test, why)
		case excepted:
			c.notApplicable++
			fmt.Fprintf(&lines, "  not applicable  %s: %s\n", r.Test, why)
		case r.Outcome == Passed:
			c.passed++
		default:
			c.failed++
			fmt.Fprintf(&lines, "  %s  %s (%s): %s\n", strings.ToUpper(string(r.Outcome)), r.Test, r.Took, summary(r.Output))
		}
	}
	if missing := s.Tests - len(all); complete && missing > 0 {
		c.failed += missing
		fmt.Fprintf(&lines, "  MISSING  %d tests did not run\n", missing)
	}
	fmt.Fprintf(w, "%-20s %d tests: %d passed, %d failed, %d not applicable\n%s", s.Name, cmp.Or(s.Tests, len(all)), c.passed, c.failed, c.notApplicable, &lines)
	return c
}

// telling is a line that says why a test failed.
var telling = regexp.MustCompile(`^\s*(Error:|Messages:|panic:|\w+_test\.go:\d+: \S)`)

const (
	summaryLength = 500 // characters
	summaryLines  = 12  // of what follows a telling line
)

// summary is what an output tells of the first failure, in one line. Of values that are not equal it shows where they differ.
func summary(output string) string {
	var said []string
	follow, differ := 0, false
	for line := range strings.Lines(output) {
		text := strings.Join(strings.Fields(line), " ")
		switch {
		case telling.MatchString(line):
			follow, differ = summaryLines, false
		case strings.HasPrefix(text, "Test:"), strings.HasPrefix(text, "--- FAIL"), strings.HasPrefix(text, "Error Trace"):
			follow, differ = 0, false
		case strings.HasPrefix(text, "at "): // a frame of a stack
			continue
		case strings.HasPrefix(text, "Diff:"):
			follow, differ = 0, true
		}
		if differ && (strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+")) && !strings.HasPrefix(text, "--- ") && !strings.HasPrefix(text, "+++ ") {
			said = append(said, text)
		}
		if follow > 0 && text != "" && !strings.HasPrefix(text, "expected:") && !strings.HasPrefix(text, "actual") {
			said = append(said, text)
			follow--
		}
	}
	text := []rune(strings.Join(said, " "))
	if len(text) > summaryLength {
		return string(text[:summaryLength]) + "…"
	}
	return string(text)
}
