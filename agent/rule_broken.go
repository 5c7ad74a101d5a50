//go:build break_late

package agent

const countsTheWay = false
