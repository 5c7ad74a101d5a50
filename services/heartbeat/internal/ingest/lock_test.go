package ingest

import (
	"strings"
	"testing"
	"time"
)

func TestALockMayLastTwentySeconds(t *testing.T) {
	for lock, wrong := range map[time.Duration]bool{
		0: false, 5 * time.Second: false, 20 * time.Second: false, 20*time.Second + 900*time.Millisecond: false, // learnt a little late
		30 * time.Second: true, time.Minute: true, 5 * time.Minute: true,
	} {
		problem := LockProblem(lock)
		if (problem != nil) != wrong || wrong && !strings.Contains(problem.Error(), lock.String()) {
			t.Errorf("a lock of %s: %v", lock, problem)
		}
	}
}
