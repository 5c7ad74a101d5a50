package enrollment

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"
)

const (
	// recentBoots is how many boots that were superseded last are remembered. A boot once superseded never wins again.
	recentBoots = 8
	// sampledBoots is how many more are remembered of those heard within turnInterval: those whose hash is lowest. So of any number
	// of machines that take turns some are always known when they return, in whatever order they speak. The last few alone would
	// never be, once the machines outnumber them.
	sampledBoots = 8
	// rememberedTwins is how many counters are remembered that are not the newest of their boot.
	rememberedTwins = 8
	// conflictingReturns is how often one boot must be heard again after a newer one, the newer one speaking in between, before
	// two machines are assumed. A boot that ended sends at most one message late, however often its machine restarts.
	conflictingReturns = 2
	// conflictingRepeats is how many steps a counter of the newest boot must make behind the newest counter before two machines
	// with one boot id are assumed.
	conflictingRepeats = 3
	// conflictingSwaps is how often counters without a boot id must take turns before two machines are assumed. Such a counter
	// also begins again at a restart; that is no turn, since the counter before is not heard any more.
	conflictingSwaps = 4
	// twinStep is by how much a counter may have grown and still be the one that was heard: by 1, and by 2 if one was lost.
	twinStep = 2
	// turnInterval is within which one turn must follow another: machines keep alternating, whereas a late message here and
	// there, at upgrades weeks apart, is none.
	turnInterval = 10 * time.Minute
	// ownBeats is within how many of a boot's own intervals its turns must follow each other, where that is longer than turnInterval, up to
	// longestTurnInterval: agents may be told to send a heartbeat an hour.
	ownBeats            = 3
	longestTurnInterval = ownBeats * time.Hour
)

// Boot is another boot that was heard under an agent's name than the newest, with what was heard of it last.
type Boot struct {
	ID           string    `json:"id"`
	Hostname     string    `json:"hostname,omitempty"` // only without an id: what tells its machine from others
	Sequence     int64     `json:"sequence"`
	ObservedAt   time.Time `json:"observedAt,omitzero"`
	SupersededAt time.Time `json:"supersededAt,omitzero"` // when the boot that superseded it was first heard
	TurnedAt     time.Time `json:"turnedAt,omitzero"`     // when it last spoke after a newer boot
	Turns        int       `json:"turns,omitempty"`       // how often, of late, it spoke after a newer boot
	// Of a twin: a second counter of the boot, behind the newest one's. Behind is where the newest counter was when it spoke.
	Twin   bool  `json:"twin,omitempty"`
	Behind int64 `json:"behind,omitempty"`
}

// speaker is what tells machines under one name apart: the boot id, or, where there is none, the host name.
type speaker struct{ bootID, hostname string }

func voice(order Order, content Content) speaker {
	if order.BootID != "" {
		return speaker{bootID: order.BootID}
	}
	return speaker{hostname: content.Hostname}
}

func (b Boot) speaker() speaker { return speaker{b.ID, b.Hostname} }

// hearEarlier notes a boot that spoke after a newer one. It reports whether the heartbeat is of a boot that is superseded for good; what
// comes without a boot id never is. The same machine may return once, by a message that was late; the same machine twice, with the newer
// one in between, is a second one that lives.
func (c *Contact) hearEarlier(from speaker, path Path, order Order, now time.Time, changes *Changes) bool {
	at := slices.IndexFunc(c.EarlierBoots, func(b Boot) bool { return !b.Twin && b.speaker() == from })
	if at < 0 {
		return false
	}
	boot := c.EarlierBoots[at]
	if !order.after(Order{boot.ID, boot.Sequence, boot.ObservedAt}) {
		return from.bootID != ""
	}
	// It is alive after the newer boot began, whatever the order of delivery. Of two paths the clocks may differ.
	since := boot.SupersededAt
	if c.onBothPaths(path, order.ObservedAt) {
		since = since.Add(clockLead)
	}
	newest := c.Newest.ObservedAt
	if order.ObservedAt.After(newest) && order.ObservedAt.After(since) && newest.After(boot.ObservedAt) {
		within := ownBeats * order.ObservedAt.Sub(boot.ObservedAt)
		boot.turn(order.ObservedAt, min(max(within, turnInterval), longestTurnInterval))
	}
	boot.Sequence, boot.ObservedAt = order.Sequence, later(boot.ObservedAt, order.ObservedAt)
	c.EarlierBoots = slices.Clone(c.EarlierBoots)
	c.EarlierBoots[at] = boot
	changes.Liveness = true
	c.conflict(boot.Turns >= conflictingReturns, now)
	return from.bootID != ""
}

// turn counts a turn, of those that follow each other within so long.
func (b *Boot) turn(at time.Time, within time.Duration) {
	if at.Sub(b.TurnedAt) > within {
		b.Turns = 0
	}
	b.Turns++
	b.TurnedAt = at
}

// supersede remembers the newest boot as one that another has superseded.
func (c *Contact) supersede(known speaker, at time.Time) {
	boot := Boot{ID: known.bootID, Hostname: known.hostname}
	boots := slices.Clone(c.EarlierBoots)
	if i := slices.IndexFunc(boots, func(b Boot) bool { return !b.Twin && b.speaker() == known }); i >= 0 {
		boot = boots[i] // without a boot id it may return and win
		boots = slices.Delete(boots, i, i+1)
	} else {
		boot.SupersededAt = at
	}
	boot.Sequence, boot.ObservedAt = c.Newest.Sequence, c.Newest.ObservedAt
	c.EarlierBoots = bounded(append(boots, boot), at)
}

// bounded keeps the boots that were superseded last, a sample of the others that were heard lately, and the twins of late.
func bounded(boots []Boot, at time.Time) []Boot {
	var plain, twins []Boot
	for _, boot := range boots {
		if boot.Twin {
			twins = append(twins, boot)
		} else {
			plain = append(plain, boot)
		}
	}
	recent := max(len(plain)-recentBoots, 0)
	older := slices.DeleteFunc(slices.Clone(plain[:recent]), func(b Boot) bool { return at.Sub(b.ObservedAt) > turnInterval })
	if len(older) > sampledBoots {
		slices.SortStableFunc(older, func(a, b Boot) int { return cmp.Compare(a.hash(), b.hash()) })
		older = older[:sampledBoots]
		slices.SortStableFunc(older, func(a, b Boot) int { return a.SupersededAt.Compare(b.SupersededAt) })
	}
	twins = slices.DeleteFunc(twins, func(b Boot) bool { return at.Sub(b.ObservedAt) > turnInterval })
	twins = twins[max(len(twins)-rememberedTwins, 0):]
	return slices.Concat(twins, older, plain[recent:])
}

func (b Boot) hash() uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(b.ID + "\x00" + b.Hostname)) // cannot fail
	return sum.Sum64()
}

// hearTwin notes counters that go back and forth under one boot id, or without one: a machine whose memory was restored twice, or several
// that were cloned before their agents knew of boot ids. Only what was observed later counts, so that redelivery and reordering are none;
// on two paths no order is certain.
func (c *Contact) hearTwin(heartbeat Heartbeat, order Order, now time.Time, changes *Changes) {
	newest := c.Newest
	if order.Sequence == 0 || newest.Sequence == 0 || !order.ObservedAt.After(newest.ObservedAt) || c.onBothPaths(heartbeat.Path, order.ObservedAt) {
		return
	}
	sameInstant := heartbeat.Content.ReportedAt.Truncate(time.Millisecond).Equal(c.Content.ReportedAt.Truncate(time.Millisecond))
	if order.Sequence == newest.Sequence && sameInstant {
		return // sent twice
	}
	if order.BootID == "" {
		c.swap(heartbeat, order, now, changes)
		return
	}
	if order.Sequence > newest.Sequence {
		return
	}
	twin := Boot{ID: order.BootID, Twin: true}
	at := slices.IndexFunc(c.EarlierBoots, func(b Boot) bool { return b.Twin && b.ID == order.BootID })
	if at >= 0 && follows(c.EarlierBoots[at].Sequence, order.Sequence) && newest.Sequence > c.EarlierBoots[at].Behind {
		twin = c.EarlierBoots[at]
	}
	boots := slices.Clone(c.EarlierBoots)
	if at >= 0 {
		boots = slices.Delete(boots, at, at+1)
	}
	twin.turn(order.ObservedAt, turnInterval)
	twin.Sequence, twin.Behind, twin.ObservedAt = order.Sequence, newest.Sequence, order.ObservedAt
	c.EarlierBoots = bounded(append(boots, twin), order.ObservedAt)
	changes.Liveness = true
	c.conflict(twin.Turns >= conflictingRepeats, now)
}

// swap notes that a counter without a boot id goes on where another left off, one after the other.
func (c *Contact) swap(heartbeat Heartbeat, order Order, now time.Time, changes *Changes) {
	newest := c.Newest
	if follows(newest.Sequence, order.Sequence) {
		return
	}
	at := slices.IndexFunc(c.EarlierBoots, func(b Boot) bool {
		return b.Twin && b.ID == "" && b.Hostname == heartbeat.Content.Hostname && follows(b.Sequence, order.Sequence)
	})
	if at < 0 && order.Sequence > newest.Sequence {
		return // some were lost
	}
	left := Boot{Hostname: c.Content.Hostname, Twin: true, Sequence: newest.Sequence, ObservedAt: newest.ObservedAt}
	boots := slices.Clone(c.EarlierBoots)
	c.Turns++
	if order.Sequence == newest.Sequence { // in step: the other one's turn looked like this one going on
		c.Turns++
	}
	if at < 0 || order.ObservedAt.Sub(boots[at].ObservedAt) > turnInterval {
		c.Turns = 0
	}
	if at >= 0 {
		boots = slices.Delete(boots, at, at+1)
	}
	c.EarlierBoots = bounded(append(boots, left), order.ObservedAt)
	changes.Liveness = true
	c.conflict(c.Turns >= conflictingSwaps, now)
}

// follows reports whether a counter can be the one that stood at last.
func follows(last, sequence int64) bool { return sequence > last && sequence-last <= twinStep }

// conflict marks that two machines use the name, once.
func (c *Contact) conflict(found bool, now time.Time) {
	if found && c.ConflictAt.IsZero() {
		c.ConflictAt = now
	}
}

// onBothPaths reports whether the agent was lately heard on the other path too. Two paths are observed by two clocks, so what came over one
// of them may seem to be later than what came over the other.
func (c *Contact) onBothPaths(path Path, at time.Time) bool {
	other := c.LastDirectAt
	if path == Direct {
		other = c.LastBusAt
	}
	return !other.IsZero() && at.Sub(other) < turnInterval
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
