package sqldb

import (
	"fmt"
	"strings"
	"time"
)

// Statements read the database's clock by exactly one expression a dialect, so that StepClock can find it.
const (
	sqliteClock    = "'now'"
	sqlserverClock = "SYSUTCDATETIME()"
)

// StepClock lets the statements of this DB take the database's clock for ahead by offset (behind, if it is negative), as after a
// step of that clock or a failover to a host whose clock differs. It is for tests; no service calls it. At most 24 days.
func (db *DB) StepClock(offset time.Duration) { db.step.Store(int64(offset)) }

func (db *DB) offset() time.Duration { return time.Duration(db.step.Load()) + clockStep() }

// onClock returns the statement as it reads the clock now; outside of tests that is the statement itself.
func (db *DB) onClock(statement string) string {
	if offset := db.offset(); offset != 0 {
		return onClock(db.Dialect, statement, offset)
	}
	return statement
}

// onClock returns the statement with its readings of the clock moved by offset.
func onClock(dialect Dialect, statement string, offset time.Duration) string {
	if dialect == SQLServer {
		return strings.ReplaceAll(statement, sqlserverClock, fmt.Sprintf("DATEADD(millisecond, %d, %s)", offset.Milliseconds(), sqlserverClock))
	}
	return strings.ReplaceAll(statement, sqliteClock, fmt.Sprintf("%s, '%+.3f seconds'", sqliteClock, offset.Seconds()))
}
