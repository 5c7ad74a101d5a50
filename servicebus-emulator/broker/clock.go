package broker

import "time"

// A Clock tells the time and calls back later.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once, on a goroutine of its own, after d.
	AfterFunc(d time.Duration, f func()) Timer
}

// A Timer is a call to come.
type Timer interface {
	// Stop prevents the call, and says whether it did.
	Stop() bool
	// Reset moves the call, or schedules another one, to d from now.
	Reset(d time.Duration) bool
}

// SystemClock is the real time.
type SystemClock struct{}

// Now is time.Now.
func (SystemClock) Now() time.Time { return time.Now() }

// AfterFunc is time.AfterFunc.
func (SystemClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
