package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended is how long the machine has slept since it started: CLOCK_BOOTTIME counts that time, and CLOCK_MONOTONIC, which Go
// uses, does not.
func suspended() time.Duration {
	var boot, monotonic unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	// The two are not read at once; what they differ by then must not look like sleep.
	return time.Duration(boot.Nano() - monotonic.Nano()).Round(10 * time.Millisecond)
}
