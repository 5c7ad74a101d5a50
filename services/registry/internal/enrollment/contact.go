package enrollment

import (
	"slices"
	"time"

	"github.com/commandcenter/fleet/services/internal/dbclock"
)

// Path is how a heartbeat came.
type Path int

// The paths.
const (
	Bus Path = iota + 1
	Direct
)

// Content is what an agent says about itself.
type Content struct {
	ReportedName  string
	Hostname      string
	AgentVersion  string
	HTTPBaseURL   string
	Capabilities  []string
	ReportedAt    time.Time // the agent's clock; shown, never decided on
	BindingsCount int
}

// Same tells whether nothing but the agent's clock differs.
func (c Content) Same(other Content) bool {
	return c.ReportedName == other.ReportedName && c.Hostname == other.Hostname && c.AgentVersion == other.AgentVersion &&
		c.HTTPBaseURL == other.HTTPBaseURL && slices.Equal(c.Capabilities, other.Capabilities)
}

// Order places a heartbeat among the others of its agent.
type Order struct {
	BootID     string
	Sequence   int64
	ObservedAt time.Time // the broker's or our own clock
}

// after orders heartbeats of one boot: by the agent's counter, and by when they were observed where it gives none.
func (o Order) after(other Order) bool {
	if o.BootID == "" || o.Sequence == 0 || other.Sequence == 0 {
		return o.ObservedAt.After(other.ObservedAt)
	}
	return o.Sequence > other.Sequence
}

// same tells whether two orders are of one heartbeat, as far as its agent lets us know.
func (o Order) same(other Order) bool {
	if o.BootID == "" || o.Sequence == 0 {
		return o.BootID == other.BootID && o.ObservedAt.Equal(other.ObservedAt)
	}
	return o.BootID == other.BootID && o.Sequence == other.Sequence
}

const (
	// clockLead is how far the clock of a broker or a control server may be ahead of the database's. What lies further ahead is
	// absurd, and must not beat all that is heard later.
	clockLead = 5 * time.Minute
)

// Contact is all that heartbeats have told about one agent.
type Contact struct {
	LastBusAt, LastDirectAt time.Time
	Newest                  Order
	Content                 Content
	EarlierBoots            []Boot // who else spoke under the name, as far as it is remembered; the last superseded is last
	Turns                   int    // how often, of late, counters without a boot id took turns
	ConflictAt              time.Time
	Claim

	BindingsOrder Order
	Bindings      []byte // JSON; nil: never reported
}

// Heartbeat is one heartbeat that passed its checks.
type Heartbeat struct {
	Name     Name
	Path     Path
	Identity Identity // direct ones only
	Order    Order
	Age      Age
	Content  Content
	Bindings []byte // JSON; nil: not in this heartbeat
	// OnlyKnown is why it makes no new agent: a text of it would not be taken from one. Nil: it does.
	OnlyKnown *InvalidError
}

// Result is what a heartbeat did.
type Result int

// The results. The last four refuse a heartbeat, the three before the last a direct one.
const (
	Created Result = iota + 1
	Updated
	Stale
	Duplicate
	WrongToken
	NotRegistered
	NotClaimable
	NotNew // it would make a new agent, and says why not in OnlyKnown
)

// Taken tells that a heartbeat was its agent's, whether or not it told anything new.
func (r Result) Taken() bool { return r >= Created && r <= Duplicate }

// Changes says which parts of a row must be written.
type Changes struct{ Liveness, Content, Bindings, Claim bool }

// Any tells whether anything must be written.
func (c Changes) Any() bool { return c.Liveness || c.Content || c.Bindings || c.Claim }

// And adds what must be written for another heartbeat.
func (c Changes) And(o Changes) Changes {
	return Changes{c.Liveness || o.Liveness, c.Content || o.Content, c.Bindings || o.Bindings, c.Claim || o.Claim}
}

// Observe applies a heartbeat to what is known. Now is the database's clock: nothing is ever heard in the future. What is newer
// is told by observed times as they are, since a database whose clock is behind would make them all one.
// Applying a heartbeat again, or an older one late, moves nothing backwards (I-6).
func (c Contact) Observe(heartbeat Heartbeat, now time.Time) (Contact, Changes, Result) {
	var changes Changes
	c = c.settled(heartbeat, now)
	order := heartbeat.Order
	order.ObservedAt = earlier(order.ObservedAt, now.Add(clockLead))
	own := order
	next, known := c, !c.Newest.ObservedAt.IsZero()
	heard := next.hear(heartbeat.Path, earlier(order.ObservedAt, now), now)
	changes.Liveness = heard

	wins := next.order(heartbeat, order, now, &changes) || !keepsOrder
	if wins {
		changes.Liveness = true
		changes.Content = !next.Content.Same(heartbeat.Content)
		count := next.Content.BindingsCount
		// Of one boot the sequence decides, and a later one may have been observed sooner over another path.
		if order.BootID == next.Newest.BootID && next.Newest.ObservedAt.After(order.ObservedAt) {
			order.ObservedAt = next.Newest.ObservedAt
		}
		next.Content, next.Newest = heartbeat.Content, order
		next.Content.BindingsCount = count
	} else if order.BootID == next.Newest.BootID && order.ObservedAt.After(next.Newest.ObservedAt) {
		next.Newest.ObservedAt, changes.Liveness = order.ObservedAt, true
	}
	if heartbeat.Bindings != nil && next.newerBindings(own) {
		next.Bindings, next.BindingsOrder, changes.Bindings = heartbeat.Bindings, own, true
		next.Content.BindingsCount = heartbeat.Content.BindingsCount
	}
	switch {
	case wins || changes.Bindings || (changes.Any() && !known):
		return next, changes, Updated
	case heard:
		return next, changes, Updated
	case order.same(c.Newest):
		return next, changes, Duplicate
	default:
		return next, changes, Stale
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// hear moves the liveness of a path forward, never back, except from the future: the clock was stepped since that was stored.
func (c *Contact) hear(path Path, at, now time.Time) bool {
	last := &c.LastBusAt
	if path == Direct {
		last = &c.LastDirectAt
	}
	if !at.After(*last) && !last.After(now.Add(dbclock.Tolerance)) {
		return false
	}
	*last = at
	return true
}

// order reports whether a heartbeat's content is newer than the newest known, and keeps track of who speaks under the name.
func (c *Contact) order(heartbeat Heartbeat, order Order, now time.Time, changes *Changes) bool {
	newest := c.Newest
	if newest.ObservedAt.IsZero() {
		return true
	}
	from, known := voice(order, heartbeat.Content), voice(newest, c.Content)
	if from == known {
		c.hearTwin(heartbeat, order, now, changes)
		if order.BootID == "" {
			return order.ObservedAt.After(newest.ObservedAt)
		}
		return order.after(newest)
	}
	if c.hearEarlier(from, heartbeat.Path, order, now, changes) {
		return false
	}
	wins := order.ObservedAt.After(newest.ObservedAt) || (order.ObservedAt.Equal(newest.ObservedAt) && order.BootID > newest.BootID)
	// A boot that loses here was never the newest, so it is not superseded: it may be new, heard by a clock behind that of the
	// other path, and its next heartbeat wins.
	if wins {
		c.supersede(known, order.ObservedAt)
	}
	return wins
}

// newerBindings orders bindings among themselves, so that a newer heartbeat without any does not lose them.
func (c *Contact) newerBindings(order Order) bool {
	known := c.BindingsOrder
	switch {
	case c.Bindings == nil:
		return true
	case order.BootID == known.BootID:
		return order.after(known)
	case order.BootID != c.Newest.BootID && order.ObservedAt.After(c.Newest.ObservedAt):
		return false // a superseded boot that speaks on never wins
	}
	return order.ObservedAt.After(known.ObservedAt)
}
