//go:build chaos_clock

package sqldb

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestChaosStepsTheClockByAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clock")
	t.Setenv("CHAOS_DATABASE_CLOCK", file)
	for text, want := range map[string]time.Duration{"1h\n": time.Hour, "-90s": -90 * time.Second, "": 0, "an hour": 0} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := clockStep(); got != want {
			t.Errorf("%q steps by %s, want %s", text, got, want)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := clockStep(); got != 0 {
		t.Errorf("no file steps by %s", got)
	}
}
