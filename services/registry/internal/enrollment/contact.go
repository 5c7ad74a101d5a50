package enrollment

import (
	"slices"
	"time"
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

// Boot is an earlier boot of an agent, and the highest sequence heard of it.
type Boot struct {
	ID       string `json:"id"`
	Sequence int64  `json:"sequence"`
}

const (
	// rememberedBoots is how many earlier boots are remembered; a boot never returns, so a few are plenty.
	rememberedBoots = 8
	// conflictingTurns is how often an earlier boot must be heard again, after a newer one, before two machines are assumed.
	// One late message of a boot that just ended is no conflict.
	conflictingTurns = 3
)

// Contact is all that heartbeats have told about one agent.
type Contact struct {
	LastBusAt, LastDirectAt time.Time
	Newest                  Order
	Content                 Content
	EarlierBoots            []Boot // newest last
	Turns                   int    // how often an earlier boot was heard after a newer one
	ConflictAt              time.Time

	BindingsOrder Order
	Bindings      []byte // JSON; nil: never reported
}

// Heartbeat is one heartbeat that passed its checks.
type Heartbeat struct {
	Name     Name
	Path     Path
	Order    Order
	Content  Content
	Bindings []byte // JSON; nil: not in this heartbeat
}

// Result is what a heartbeat did.
type Result int

// The results.
const (
	Created Result = iota + 1
	Updated
	Stale
	Duplicate
)

// Changes says which parts of a row must be written.
type Changes struct{ Liveness, Content, Bindings bool }

// Any tells whether anything must be written.
func (c Changes) Any() bool { return c.Liveness || c.Content || c.Bindings }

// Observe applies a heartbeat to what is known. Now is the database's clock: nothing is ever heard in the future.
// Applying a heartbeat again, or an older one late, moves nothing backwards (I-6).
func (c Contact) Observe(heartbeat Heartbeat, now time.Time) (Contact, Changes, Result) {
	var changes Changes
	order := heartbeat.Order
	if order.ObservedAt.After(now) {
		order.ObservedAt = now
	}
	next, known := c, !c.Newest.ObservedAt.IsZero()
	changes.Liveness = next.hear(heartbeat.Path, order.ObservedAt)

	wins := next.order(order, now, &changes)
	if wins {
		changes.Liveness = true
		changes.Content = !next.Content.Same(heartbeat.Content)
		count := next.Content.BindingsCount
		next.Content, next.Newest = heartbeat.Content, order
		next.Content.BindingsCount = count
	} else if order.BootID == next.Newest.BootID && order.ObservedAt.After(next.Newest.ObservedAt) {
		next.Newest.ObservedAt, changes.Liveness = order.ObservedAt, true
	}
	if heartbeat.Bindings != nil && next.newerBindings(order) {
		next.Bindings, next.BindingsOrder, changes.Bindings = heartbeat.Bindings, order, true
		next.Content.BindingsCount = heartbeat.Content.BindingsCount
	}
	switch {
	case wins || changes.Bindings || (changes.Any() && !known):
		return next, changes, Updated
	case order.BootID != "" && order.BootID == c.Newest.BootID && order.Sequence == c.Newest.Sequence && !changes.Any():
		return next, changes, Duplicate
	case changes.Liveness:
		return next, changes, Updated
	default:
		return next, changes, Stale
	}
}

// hear moves the liveness of a path forward, never back.
func (c *Contact) hear(path Path, at time.Time) bool {
	last := &c.LastBusAt
	if path == Direct {
		last = &c.LastDirectAt
	}
	if !at.After(*last) {
		return false
	}
	*last = at
	return true
}

// order tells whether a heartbeat's content is newer than the newest known, and keeps track of boots.
func (c *Contact) order(order Order, now time.Time, changes *Changes) bool {
	newest := c.Newest
	switch {
	case newest.ObservedAt.IsZero():
		return true
	case order.BootID == "":
		return order.ObservedAt.After(newest.ObservedAt)
	case order.BootID == newest.BootID:
		return order.Sequence > newest.Sequence
	}
	if at := slices.IndexFunc(c.EarlierBoots, func(b Boot) bool { return b.ID == order.BootID }); at >= 0 {
		c.hearEarlier(at, order, now, changes)
		return false
	}
	wins := order.ObservedAt.After(newest.ObservedAt) || (order.ObservedAt.Equal(newest.ObservedAt) && order.BootID > newest.BootID)
	if wins && newest.BootID != "" {
		c.remember(Boot{newest.BootID, newest.Sequence})
	} else if !wins {
		c.remember(Boot{order.BootID, order.Sequence})
		changes.Liveness = true
	}
	return wins
}

// hearEarlier notes an earlier boot that spoke after a newer one. A few such turns mean two machines under one name.
func (c *Contact) hearEarlier(at int, order Order, now time.Time, changes *Changes) {
	if order.Sequence <= c.EarlierBoots[at].Sequence {
		return
	}
	c.EarlierBoots = slices.Clone(c.EarlierBoots)
	c.EarlierBoots[at].Sequence = order.Sequence
	changes.Liveness = true
	if !order.ObservedAt.After(c.Newest.ObservedAt) {
		return
	}
	c.Turns++
	if c.Turns >= conflictingTurns && c.ConflictAt.IsZero() {
		c.ConflictAt = now
	}
}

func (c *Contact) remember(boot Boot) {
	c.EarlierBoots = append(slices.Clone(c.EarlierBoots), boot)
	if len(c.EarlierBoots) > rememberedBoots {
		c.EarlierBoots = c.EarlierBoots[len(c.EarlierBoots)-rememberedBoots:]
	}
}

// newerBindings orders bindings among themselves, so that a newer heartbeat without any does not lose them.
func (c *Contact) newerBindings(order Order) bool {
	known := c.BindingsOrder
	if c.Bindings == nil {
		return true
	}
	if order.BootID != "" && order.BootID == known.BootID {
		return order.Sequence > known.Sequence
	}
	if order.BootID != c.Newest.BootID {
		return false // of a boot that a newer one superseded
	}
	return order.ObservedAt.After(known.ObservedAt)
}
