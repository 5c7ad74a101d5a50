//go:build chaos_clock

package sqldb

import (
	"os"
	"strings"
	"time"
)

// clockStep reads the file that the environment variable CHAOS_DATABASE_CLOCK names: one duration, such as "1h" or "-90s". All
// processes that are to see the step name the same file. No variable, no file, or a file that holds no duration is no step.
func clockStep() time.Duration {
	text, err := os.ReadFile(os.Getenv("CHAOS_DATABASE_CLOCK"))
	if err != nil {
		return 0
	}
	step, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return step
}
