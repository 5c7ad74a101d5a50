//go:build !break_late

package agent

// countsTheWay is the rule that a command counts as arrived when the broker was asked for it, so that the time it may have waited on its way
// counts (I-5). A build with the tag break_late breaks it, so that chaos can be seen to notice.
const countsTheWay = true
