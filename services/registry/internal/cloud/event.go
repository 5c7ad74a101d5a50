package cloud

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Cause is what changed how agents are spread, in stable words: it is stored, and counted in metrics.
type Cause string

// The causes. The first eight change the directory.
const (
	Joining        Cause = "join"        // new, or back after an eviction
	Leaving        Cause = "leave"       // removed by an operator, or replaced at its endpoint
	Eviction       Cause = "eviction"    // silent for the eviction grace
	ModeChange     Cause = "mode change" // into or out of maintenance
	WeightChange   Cause = "weight change"
	StandbyChange  Cause = "standby change"
	GroupChange    Cause = "group change"    // of the server; from and to are ids
	EndpointChange Cause = "endpoint change" // moves nobody, but the lists must tell
	AgentChange    Cause = "agent change"    // agents came, went or changed their group
)

// Change is one cause.
type Change struct {
	Cause    Cause
	Server   int64 // 0: it is about no server
	Name     string
	From, To string // for people; empty where the cause says it all
	Actor    string // the operator who did it; empty: nobody did, or nobody knows who
}

// Changes compares the servers that lists named with those they will name, by server id.
func (d Directory) Changes(m Membership) []Change {
	var changes []Change
	for _, old := range d.servers {
		at := slices.IndexFunc(m.Members, func(s Standing) bool { return s.ID == old.ID })
		switch {
		case at < 0:
			changes = append(changes, Change{Cause: Leaving, Server: old.ID, Name: old.Name})
		case m.Members[at].eligible():
			changes = append(changes, differences(old, m.Members[at])...)
		default:
			changes = append(changes, exit(m.Members[at]))
		}
	}
	for _, s := range m.Members {
		if s.eligible() && d.position(s.ID) == none {
			changes = append(changes, entry(s))
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Server, b.Server) })
	return changes
}

func exit(s Standing) Change {
	if s.Mode == ModeMaintenance {
		return Change{Cause: ModeChange, Server: s.ID, Name: s.Name, From: string(Normal), To: string(s.State), Actor: s.ChangedBy}
	}
	return Change{Cause: Eviction, Server: s.ID, Name: s.Name}
}

func entry(s Standing) Change {
	c := Change{Cause: Joining, Server: s.ID, Name: s.Name, From: string(s.Listing.UnlistedAs), To: string(s.State)}
	if s.Listing.UnlistedAs == Draining {
		c.Cause, c.Actor = ModeChange, s.ChangedBy
	}
	return c
}

func differences(old Server, s Standing) []Change {
	var changes []Change
	add := func(cause Cause, changed bool, actor, from, to string) {
		if changed {
			changes = append(changes, Change{Cause: cause, Server: s.ID, Name: s.Name, From: from, To: to, Actor: actor})
		}
	}
	add(WeightChange, old.Weight != s.Weight, s.ChangedBy, strconv.Itoa(old.Weight), strconv.Itoa(s.Weight))
	add(StandbyChange, old.Standby != s.Standby, s.ChangedBy, strconv.FormatBool(old.Standby), strconv.FormatBool(s.Standby))
	add(GroupChange, old.Group != s.Group, s.ChangedBy, strconv.FormatInt(old.Group, 10), strconv.FormatInt(s.Group, 10))
	add(EndpointChange, !slices.Equal(old.Endpoints, s.Endpoints), "", fmt.Sprint(old.Endpoints), fmt.Sprint(s.Endpoints))
	return changes
}

// Partition is how agents are to be spread from now on, beside what was committed before.
type Partition struct {
	Assignment
	Directory Directory
	Changes   []Change // of the directory; none: it is that of before
	Agents    int
}

// Repartition decides anew. It is ErrNobody if no control server is eligible.
func (d Directory) Repartition(m Membership, agents []Agent) (Partition, error) {
	p := Partition{Directory: d, Changes: d.Changes(m), Agents: len(agents)}
	var err error
	if len(p.Changes) > 0 {
		if p.Directory, err = NewDirectory(d.Version+1, m.Eligible()); err != nil {
			return Partition{}, err
		}
	}
	if p.Assignment, err = p.Directory.Assign(agents); err != nil {
		return Partition{}, err
	}
	return p, nil
}

// Unchanged tells whether there is nothing to commit.
func (p Partition) Unchanged() bool { return len(p.Changes) == 0 && len(p.Moves) == 0 }

// Event is the record of one partition.
type Event struct {
	Epoch            int64
	At               time.Time
	Causes           []Change
	Agents           int // in all
	Placed           int
	PrimariesMoved   int
	SecondariesMoved int
}

// Event is what to record of a partition committed as epoch. Actor is the operator who asked for it, since the servers do not show what was
// done; empty: none did. Servers that changed at the same time don't hide that.
func (p Partition) Event(epoch int64, at time.Time, actor string) Event {
	e := Event{
		Epoch: epoch, At: at, Causes: slices.Clone(p.Changes), Agents: p.Agents,
		Placed: p.Placed, PrimariesMoved: p.PrimariesMoved, SecondariesMoved: p.SecondariesMoved,
	}
	told := len(e.Causes) > 0 && actor == ""
	for i := range e.Causes {
		if e.Causes[i].Cause == Leaving {
			e.Causes[i].Actor = actor
		}
		told = told || e.Causes[i].Actor == actor
	}
	if !told {
		e.Causes = append(e.Causes, Change{Cause: AgentChange, Actor: actor})
	}
	return e
}
