package verdict

// State is how a server stands, in the one word that an operator would use.
type State int

// The states.
const (
	StateUnknown     State = iota // not judged yet, or nothing tells; Online stays as it is
	StateOnline                   // takes traffic
	StateOffline                  // takes none
	StateMaintenance              // takes none on purpose
	StateHeld                     // silent, and online only because it is held
	stateCount
)

// States are all of them.
func States() []State {
	all := make([]State, stateCount)
	for i := range all {
		all[i] = State(i)
	}
	return all
}

// Facts are what a server's state follows from.
type Facts struct {
	Judged       bool
	Availability Availability
	Held         bool
	Maintenance  bool
	Online       bool // as stored in TblServer
}

// State derives the word. It is the only place that does.
func (f Facts) State() State {
	switch {
	case !f.Judged:
		return StateUnknown
	case f.Maintenance:
		return StateMaintenance
	case f.Held:
		return StateHeld
	case f.Availability == Unknown:
		return StateUnknown
	case f.Online:
		return StateOnline
	}
	return StateOffline
}

// Code numbers the facts, so that a database can look for those of a state without knowing what follows from what: eight times the
// availability, 3 where nothing is judged, then 4 for held, 2 for maintenance and 1 for online.
func (f Facts) Code() int {
	code := int(f.Availability) * 8
	if !f.Judged {
		code = 3 * 8
	}
	for bit, set := range map[int]bool{4: f.Held, 2: f.Maintenance, 1: f.Online} {
		if set {
			code += bit
		}
	}
	return code
}

// FactsOf is what a code stands for.
func FactsOf(code int) Facts {
	return Facts{
		Judged: code/8 != 3, Availability: Availability(code / 8 % 3), Held: code&4 != 0, Maintenance: code&2 != 0, Online: code&1 != 0,
	}
}

// Codes are those of all facts from which one of the states follows.
func Codes(states ...State) []int {
	var codes []int
	for code := range 4 * 8 {
		for _, state := range states {
			if FactsOf(code).State() == state {
				codes = append(codes, code)
				break
			}
		}
	}
	return codes
}
