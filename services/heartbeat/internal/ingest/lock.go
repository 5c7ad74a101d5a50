package ingest

import (
	"fmt"
	"time"
)

// longestLock is how long the subscription may lock a heartbeat. A replica that stands still keeps what it was sent for up to two locks: with
// an interval of 30 s and a maximum age of 90 s no agent is silent for that. What is learnt of a lock is up to lockTolerance too long.
const longestLock, lockTolerance = 20 * time.Second, 2 * time.Second

// LockProblem returns what is wrong with the length of the subscription's lock; nil when nothing is, or it is 0: not known.
func LockProblem(lock time.Duration) error {
	if lock <= longestLock+lockTolerance {
		return nil
	}
	return fmt.Errorf("the subscription locks heartbeats for about %s: a replica that stands still holds them back so long, and its agents may look silent; "+
		"set the subscription's lock duration to %s, then restart this service's replicas", lock.Round(time.Second), longestLock)
}
