//go:build !linux

package agent

import "time"

// suspended is 0: the wall clock shows how long this machine slept.
func suspended() time.Duration { return 0 }
