package store

import (
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/windows"
)

// Switch is a server's manual maintenance switch. Its zero value was never turned.
type Switch struct {
	On        bool // as stored; it is off as well from EndAt on
	Reason    string
	EndAt     time.Time // zero: until it is turned off
	ChangedBy string
	ChangedAt time.Time
	Version   int64 // 0: never turned
}

// OnAt tells whether the switch is on.
func (s Switch) OnAt(at time.Time) bool {
	return s.On && (s.EndAt.IsZero() || at.Before(s.EndAt))
}

// Window is one stored maintenance window: one-off with StartAt and EndAt, or recurring with Start, Zone, Rule, and one of Duration and Ends.
type Window struct {
	ID                int64
	ServerKey         int64
	StartAt, EndAt    time.Time
	Start, Zone, Rule string
	Duration          time.Duration
	Ends              string // wall time
	Reason            string
	CreatedBy         string
	CreatedAt         time.Time
	LastEndAt         time.Time // when it ends for good; zero: it never does
}

// Window reads the window's rule.
func (w Window) Window() (windows.Window, error) {
	if w.Rule == "" {
		return windows.Once(w.StartAt, w.EndAt)
	}
	return windows.Recur(windows.Recurrence{Start: w.Start, Zone: w.Zone, Rule: w.Rule, Duration: w.Duration, Ends: w.Ends})
}
