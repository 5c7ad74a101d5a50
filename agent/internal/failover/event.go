package failover

import "time"

// Event is what happened: Tick, Answered, Failed or Probed.
type Event interface{ event() }

// Tick says that it is time: see WakeAt.
type Tick struct{}

// Answered says that a Register, Heartbeat or Ask was answered.
type Answered struct {
	Server Server
	// List that came with the answer; empty: none did.
	List List
	// Draining: the heartbeat was taken, and the server asks the agent to go elsewhere.
	Draining bool
}

// Failed says that a Register, Heartbeat or Ask was not answered as hoped; or, while none is under way, that the connection to the
// server worked with broke.
type Failed struct {
	Server Server
	Why    Reason
	// RetryAfter is the delay that a Busy server asked for; 0: none.
	RetryAfter time.Duration
	// Detail of a Refused, for people.
	Detail string
}

// Reason of a failure.
type Reason int

const (
	// Down: nobody answered, or what answered can't serve this agent now. Whatever is not one of the others is this.
	Down Reason = iota
	// Busy: the server is there, and takes no more for the moment.
	Busy
	// Draining: the server is there, and about to leave.
	Draining
	// Unregistered: the control plane does not know the agent, which has to register again.
	Unregistered
	// Refused: the control plane wants this agent not, or not like this. Its name may be another machine's, its token or the
	// enrolment key wrong, or its heartbeat invalid. People have to see to it.
	Refused
)

// Probed says how a Probe ended. A server that drains or is busy is not good.
type Probed struct {
	Server Server
	Good   bool
}

func (Tick) event()     {}
func (Answered) event() {}
func (Failed) event()   {}
func (Probed) event()   {}

// Action is what is to be done now: Register, Heartbeat, Ask, Probe, Leave, Save or Report. Each Register, Heartbeat and Ask
// must end with one Answered or Failed, so it needs a timeout; each Probe with one Probed.
type Action interface{ action() }

// Register with a control server, which answers with a list. Connect to it as needed.
type Register struct{ Server Server }

// Heartbeat to a control server. Connect to it as needed, and keep the connection until Leave.
type Heartbeat struct {
	Server Server
	Etag   string // of the list held
}

// Ask a control server for the list, as bus agents do.
type Ask struct {
	Server Server
	Etag   string // of the list held
}

// Probe a server by a connection of its own, so that it also shows that it takes new ones.
type Probe struct{ Server Server }

// Leave a server: close the connection to it, if there is one.
type Leave struct{ Server Server }

// Save the list on disk. If that fails, the agent goes on.
type Save struct{ List List }

// Report a refusal to people. It is given once, and again when its text changes.
type Report struct {
	Server Server
	Detail string
}

func (Register) action()  {}
func (Heartbeat) action() {}
func (Ask) action()       {}
func (Probe) action()     {}
func (Leave) action()     {}
func (Save) action()      {}
func (Report) action()    {}
