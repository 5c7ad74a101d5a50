package verdict

import (
	"time"

	"github.com/commandcenter/fleet/services/internal/dbclock"
)

// Skew is how far the broker's clock is ahead of the database's, negative when it is behind, and how far that may be wrong either way.
// The zero value is one that need not be told.
type Skew struct{ Ahead, Within time.Duration }

// notable reports whether the clocks differ by more than they should, however wrong the measurement is.
func (s Skew) notable() bool { return s.Ahead.Abs()-s.Within > dbclock.Tolerance }

// Shown is what is shown of a new measurement where before was shown: nothing while the clocks agree, and not a new figure for each
// measurement, so that an unchanged fleet writes nothing.
func (s Skew) Shown(before Skew) Skew {
	switch {
	case !s.notable():
		return Skew{}
	case before.notable() && (s.Ahead-before.Ahead).Abs() <= max(s.Within, before.Within)+time.Second:
		return before
	}
	return s
}
