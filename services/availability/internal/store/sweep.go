package store

import (
	"errors"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

// ErrLeaseLost says that the job's lease is another's by now, or has run out: nothing was written.
var ErrLeaseLost = errors.New("the job's lease was lost; nothing was written")

// Lease is the right to run the job. It is fenced: every write names its token, and comes to nothing once it was lost (I-15).
type Lease struct {
	Holder    string
	Token     int64     // grows with every change of holder
	ExpiresAt time.Time // database time
}

// Fleet is what the database knows for one sweep, read consistently.
type Fleet struct {
	ReadAt  time.Time // the database's clock
	Servers []Server  // of type BenefitManager, by key
	Windows []Window  // of those servers, without those that ended for good
	Paths   verdict.PerPath[Path]
	Acts    int64 // grows with every operator's act
}

// Server is one TblServer row of type BenefitManager.
type Server struct {
	Key            int64
	Name           string
	Online         bool
	Switch         Switch
	Status         verdict.Status // zero: not judged yet
	Detail         string         // of the status, for people
	SecondWriterAt time.Time      // zero: never
}

// Facts are what the server's state follows from.
func (s Server) Facts() verdict.Facts {
	return verdict.Facts{
		Judged: !s.Status.Since.IsZero(), Availability: s.Status.Verdict.Availability, Held: s.Status.Held != verdict.NotHeld,
		Maintenance: s.Status.Maintenance, Online: s.Online,
	}
}

// Path is a path's state with what is shown of it.
type Path struct {
	State  verdict.PathState
	Blind  verdict.Blindness
	Braked bool
	Crowd  verdict.Crowd
	Held   int // servers
	// StartingUntil is when silence on it counts again, while it only proves itself; zero otherwise.
	StartingUntil time.Time
	Broker        verdict.Skew
	OrderedBy     string
	OrderedAt     time.Time
}

// Sweep is what one sweep writes, in one transaction whose first statement holds the lease.
type Sweep struct {
	Token         int64
	LeaseDuration time.Duration // the lease lasts so long from the commit's own time on
	Own           bool          // false: Online and the offline log are left alone
	Changes       []verdict.Change
	Statuses      []Status // those that changed
	SecondWriters []int64  // servers whose Online another writer changed
	// Paths are the Fleet's with State, Blind, Braked, Crowd, Held and Broker of this sweep, and with OrderedBy and OrderedAt as they were read:
	// they tell which order was obeyed, so that one given meanwhile is kept. Written where they differ from what is stored.
	Paths verdict.PerPath[Path]
}

// Status is a server's status with its words for people.
type Status struct {
	verdict.Status
	Detail string
}

// Recorded is what a sweep did.
type Recorded struct {
	Lease   Lease
	At      time.Time // database time: CreateDate of the log rows
	Online  []int64   // servers turned online
	Offline []int64   // servers turned offline, each with one log row
}
