package transport

import "github.com/commandcenter/fleet/servicebus-emulator/amqp"

// An Acceptor decides what the links of one connection lead to.
type Acceptor interface {
	// Attach must lead to exactly one AcceptSink, AcceptSource or Refuse, now or later, from any goroutine. It is called
	// on the connection's reading goroutine and must not block.
	Attach(l *Link)
}

// A Sink takes the messages that a peer sends on a link.
type Sink interface {
	// Receive handles one message and answers why it is refused, or nil. The payload is only valid during the call.
	Receive(format uint32, payload []byte) *amqp.Error
}

// A Delivery is one message on its way to a peer.
type Delivery struct {
	Tag     amqp.UUID // as written to the delivery tag
	Settled bool
	Payload []byte // valid until the next Take of the same source
}

// A Source holds the messages for one link to a peer.
type Source interface {
	// Take answers at most max messages, and whether more can be had at once. If not, and max was not reached, the source calls
	// Link.Notify when there is something. Take(0) means that a notification cannot be used now.
	Take(max int) (batch []Delivery, more bool)
	// Undelivered gives back deliveries of the last Take, from the n-th on, because the link ended meanwhile.
	Undelivered(n int)
	// Settle carries out the peer's decision on a delivery and answers the state to confirm to it. One without an
	// outcome is not confirmed.
	Settle(tag amqp.UUID, state amqp.State) amqp.State
}

type linkState uint8

const (
	linkAttaching linkState = iota // the peer waits for our attach
	linkAttached
	linkDetaching // we detached or refused; the peer still has to
	linkGone
)

// Link is one link. Everything in it is guarded by the connection's mutex but for what is never changed and for
// incoming, which belongs to the reading goroutine.
type Link struct {
	conn    *Conn
	session *session
	attach  amqp.Attach

	state    linkState
	onDetach []func()

	sink           Sink
	maxMessageSize int // bytes; zero: no limit
	incoming       message
	remoteCredit   uint32 // what the peer may still send
	receivedCount  uint32 // the peer's delivery-count as we know it

	source        Source
	credit        uint32 // what we may still send
	deliveryCount uint32
	drain         bool
	queued        bool // is in conn.pumping
}

// Request is the peer's attach.
func (l *Link) Request() *amqp.Attach { return &l.attach }

// Reply is what an attach is answered with, besides the echo of what was asked.
type Reply struct {
	MaxMessageSize uint64   // bytes; zero: not stated
	Filter         amqp.Map // the source filter in force
	Properties     amqp.Map
}

// initialCredit is what a sending peer is granted, in messages; it is topped up when half is used.
const initialCredit = 1000

// AcceptSink attaches a link on which the peer sends. False says that the link ended meanwhile.
func (l *Link) AcceptSink(sink Sink, reply Reply) bool {
	c := l.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if !l.reply(reply) {
		return false
	}
	l.sink = sink
	l.maxMessageSize = int(reply.MaxMessageSize)
	l.remoteCredit = initialCredit
	l.receivedCount = l.attach.InitialDeliveryCount
	l.session.appendFlow(l)
	c.signal()
	return true
}

// AcceptSource attaches a link on which we send. False says that the link ended meanwhile.
func (l *Link) AcceptSource(source Source, reply Reply) bool {
	c := l.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if !l.reply(reply) {
		return false
	}
	l.source = source
	c.signal()
	return true
}

// reply writes our attach; it needs the connection's mutex.
func (l *Link) reply(r Reply) bool {
	if l.state != linkAttaching {
		return false
	}
	l.state = linkAttached
	a := l.echo()
	a.MaxMessageSize, a.Properties = r.MaxMessageSize, r.Properties
	if a.Source == nil {
		a.Source = &amqp.Terminus{}
	}
	if a.Target == nil {
		a.Target = &amqp.Terminus{}
	}
	if r.Filter != nil {
		a.Source = &amqp.Terminus{Address: a.Source.Address, Filter: r.Filter}
	}
	l.conn.appendFrame(l.session.channel, a)
	return true
}

// echo is an attach in the other role with the same name, handle, settle modes and termini.
func (l *Link) echo() amqp.Attach {
	a := l.attach
	a.Role = !a.Role
	a.InitialDeliveryCount, a.MaxMessageSize, a.Properties = 0, 0, nil
	return a
}

// Refuse answers the attach with no terminus and detaches with the reason.
func (l *Link) Refuse(reason *amqp.Error) {
	c := l.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.state != linkAttaching {
		return
	}
	l.state = linkDetaching
	a := l.echo()
	if a.Role == amqp.RoleSender {
		a.Source = nil
	} else {
		a.Target = nil
	}
	c.appendFrame(l.session.channel, a)
	c.appendFrame(l.session.channel, amqp.Detach{Handle: l.attach.Handle, Closed: true, Error: reason})
	c.signal()
}

// Detach ends an attached link from our side. It must not be called with locks held that OnDetach functions take.
func (l *Link) Detach(reason *amqp.Error) {
	c := l.conn
	c.mu.Lock()
	if l.state != linkAttached {
		c.mu.Unlock()
		return
	}
	c.appendFrame(l.session.channel, amqp.Detach{Handle: l.attach.Handle, Closed: true, Error: reason})
	functions := l.end(linkDetaching)
	c.signal()
	c.mu.Unlock()
	run(functions)
}

// Drop closes the link's connection without a word to the peer.
func (l *Link) Drop() { l.conn.Drop() }

// OnDetach adds a function that runs once, without locks, when the link ends for whatever reason. If it has
// ended already the function runs at once.
func (l *Link) OnDetach(f func()) {
	c := l.conn
	c.mu.Lock()
	if l.state == linkAttaching || l.state == linkAttached {
		l.onDetach = append(l.onDetach, f)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	f()
}

// end moves the link to one of its last two states and answers what must run once the mutex is free.
func (l *Link) end(state linkState) []func() {
	l.state = state
	for id, u := range l.session.unsettled {
		if u.link == l {
			delete(l.session.unsettled, id)
		}
	}
	functions := l.onDetach
	l.onDetach = nil
	return functions
}

func run(functions []func()) {
	for _, f := range functions {
		f()
	}
}

// Notify says that the source has something to take. It may be called with any lock held but the connection's.
func (l *Link) Notify() {
	c := l.conn
	c.mu.Lock()
	l.enqueue()
	c.mu.Unlock()
}

// enqueue has the writing goroutine look at the link; it needs the connection's mutex.
func (l *Link) enqueue() {
	if l.queued || l.source == nil || l.state != linkAttached {
		return
	}
	l.queued = true
	l.conn.pumping = append(l.conn.pumping, l)
	l.conn.signal()
}
