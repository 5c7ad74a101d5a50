// Package node connects links to what their addresses name: topics and queues of the broker, and the nodes
// $cbs and <entity>/$management. It is the one place that knows links and entities both.
package node

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/broker"
	"github.com/commandcenter/fleet/servicebus-emulator/faults"
	"github.com/commandcenter/fleet/servicebus-emulator/management"
	"github.com/commandcenter/fleet/servicebus-emulator/transport"
)

const (
	// CBS is the address of the node that tokens are put to.
	CBS              = "$cbs"
	managementSuffix = "/$management"
)

// Namespace is what all connections share.
type Namespace struct {
	Broker *broker.Broker
	Keys   management.Keys
	Clock  broker.Clock
	Faults *faults.Faults
	Logger *slog.Logger
}

// Connect makes the acceptor for the links of one connection, and what checks its SASL before.
func (n *Namespace) Connect() (links transport.Acceptor, authenticate func(mechanism string, response []byte) bool) {
	c := &connection{Namespace: n, replies: map[string]*replies{}, claims: map[string]management.Claim{}}
	return c, c.authenticate
}

// connection is a client's: its claims, and where its replies go.
type connection struct {
	*Namespace

	mu      sync.Mutex
	replies map[string]*replies // by the address that requests name as reply-to
	claims  map[string]management.Claim
	cbs     *transport.Link // the sender to $cbs; nil: none
}

// authenticate checks SASL. Clients that come with a token use one of the two anonymous mechanisms, and put it to $cbs; a key,
// which PLAIN carries, opens everything.
func (c *connection) authenticate(mechanism string, response []byte) bool {
	switch mechanism {
	case "ANONYMOUS", "MSSBCBS":
		return true
	case "PLAIN":
		if len(c.Keys) > 0 && !c.Keys.Plain(response) {
			return false
		}
		c.grant(management.Claim{ExpiresAt: c.Clock.Now().AddDate(100, 0, 0)})
		return true
	case "": // no SASL at all
		return len(c.Keys) == 0
	}
	return false
}

func (c *connection) grant(claim management.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims[claim.Path] = claim
}

// Attach connects a link, or refuses it.
func (c *connection) Attach(l *transport.Link) {
	a := l.Request()
	receiving := a.Role == amqp.RoleReceiver // the peer
	address := Address(a)
	switch {
	case address == CBS && !receiving && !c.openCBS(l):
		l.Refuse(amqp.Errorf(amqp.ErrNotAllowed, "$cbs node has already been opened by this connection"))
	case address == CBS:
		c.attachRequests(l, receiving, maxRequestSize, c.putToken)
	case !c.mayUse(address):
		l.Refuse(amqp.Errorf(amqp.ErrUnauthorizedAccess,
			"no valid token for '%s' was put on this connection", address))
	default:
		c.attachEntity(l, receiving, address)
	}
}

// openCBS notes the sender to $cbs, of which a connection has one at a time, and reports whether this one is it.
func (c *connection) openCBS(l *transport.Link) bool {
	c.mu.Lock()
	isFirst := c.cbs == nil
	if isFirst {
		c.cbs = l
	}
	c.mu.Unlock()
	if isFirst {
		l.OnDetach(func() { // at once, if the link is gone
			c.mu.Lock()
			defer c.mu.Unlock()
			c.cbs = nil
		})
	}
	return isFirst
}

func (c *connection) attachEntity(l *transport.Link, receiving bool, address string) {
	if err := c.Faults.Strike(faults.Attaching, address); err != nil {
		l.Refuse(err)
		return
	}
	entity, isManagement := cutSuffixFold(address, managementSuffix)
	switch {
	case isManagement:
		c.attachManagement(l, receiving, entity)
	case receiving:
		c.attachReceiver(l, address)
	default:
		c.attachSender(l, address)
	}
}

// Address answers the path of the node that a link leads to. Some clients send a URL.
func Address(a *amqp.Attach) string {
	t := a.Target
	if a.Role == amqp.RoleReceiver {
		t = a.Source
	}
	if t == nil {
		return ""
	}
	return pathOf(t.Address)
}

// pathOf answers the path of an address or a URL.
func pathOf(address string) string {
	if _, rest, ok := strings.Cut(address, "://"); ok {
		_, address, _ = strings.Cut(rest, "/")
	}
	return strings.Trim(address, "/")
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) >= len(suffix) && strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s[:len(s)-len(suffix)], true
	}
	return s, false
}

func (c *connection) mayUse(address string) bool {
	if len(c.Keys) == 0 {
		return true
	}
	now := c.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, claim := range c.claims {
		if claim.Covers(address, now) {
			return true
		}
	}
	return false
}

func (c *connection) putToken(r *management.Request) management.Response {
	if err := c.Faults.Strike(faults.Authenticating, CBS); err != nil {
		return failure(statusUnauthorized, err)
	}
	response, claim := management.PutToken(c.Keys, r, c.Clock.Now())
	if claim != nil {
		// The service answers here, before there is a link: that is what clients make their "not found" of.
		entity, _ := cutSuffixFold(pathOf(r.Audience()), managementSuffix)
		if entity = strings.Trim(entity, "/"); entity != "" && c.Broker.Queue(entity) == nil && c.Broker.Destination(entity) == nil {
			return management.NotFound(notFound(entity))
		}
		c.grant(*claim)
	}
	return response
}

func (c *connection) attachManagement(l *transport.Link, receiving bool, entity string) {
	d := c.Broker.Destination(entity)
	if d == nil && c.Broker.Queue(entity) == nil {
		l.Refuse(notFound(entity))
		return
	}
	limit := maxRequestSize
	if d != nil {
		limit += d.MaxMessageSize()
	}
	c.attachRequests(l, receiving, limit, func(r *management.Request) management.Response {
		return c.manage(entity, r)
	})
}

func notFound(entity string) *amqp.Error {
	return amqp.Errorf(amqp.ErrNotFound, "the messaging entity '%s' could not be found", entity)
}

func (c *connection) attachSender(l *transport.Link, address string) {
	d := c.Broker.Destination(address)
	if d == nil {
		l.Refuse(notFound(address))
		return
	}
	l.AcceptSink(sender{l, d, c.Faults}, transport.Reply{MaxMessageSize: uint64(d.MaxMessageSize())})
	l.OnDetach(d.OnDelete(l.Detach))
}

// batchFormat marks a message whose data sections are messages.
const batchFormat = 0x80013700

// sender takes the messages of a link to a topic or queue.
type sender struct {
	link   *transport.Link
	to     *broker.Destination
	faults *faults.Faults
}

// Receive publishes.
func (s sender) Receive(format uint32, payload []byte) *amqp.Error {
	if err := s.faults.Strike(faults.Sending, s.to.Path()); err != nil {
		return err
	}
	publish := s.to.Publish
	if format == batchFormat {
		publish = s.to.PublishBatch
	}
	if err := publish(payload); err != nil {
		return err
	}
	if s.faults.Strike(faults.Stored, s.to.Path()) != nil {
		s.link.Drop() // before the answer can be written
	}
	return nil
}

func (c *connection) attachReceiver(l *transport.Link, address string) {
	q := c.Broker.Queue(address)
	if q == nil {
		l.Refuse(notFound(address))
		return
	}
	filter, sessionful := sessionFilter(l.Request())
	switch {
	case q.RequiresSession() && !sessionful:
		l.Refuse(amqp.Errorf(amqp.ErrNotAllowed,
			"It is not possible for an entity that requires sessions to create a non-sessionful message receiver. '%s' requires them",
			address))
	case !q.RequiresSession() && sessionful:
		l.Refuse(amqp.Errorf(amqp.ErrNotAllowed,
			"'%s' does not use sessions; a receiver with one cannot be created on it", address))
	case q.Forwards():
		l.Refuse(amqp.Errorf(amqp.ErrNotAllowed, "'%s' forwards its messages; a receiver cannot be created on it", address))
	case !sessionful:
		r := c.newReceiver(l, q)
		r.consumer = q.Consume(r.options())
		l.OnDetach(r.consumer.Close)
		l.AcceptSource(r, transport.Reply{})
		r.detachIfLost()
	case filter.next:
		c.acceptNext(l, q, filter)
	default:
		r := c.newReceiver(l, q)
		consumer, err := q.AcceptSession(filter.id, r.options())
		if err != nil {
			l.Refuse(err)
			return
		}
		filter.accept(l, r, consumer)
	}
}

const (
	sessionFilterName = "com.microsoft:session-filter"
	// defaultAcceptTimeout is how long a client that does not say waits for a free session.
	defaultAcceptTimeout = 60 * time.Second
	// maxAnswerLead is how much earlier than the client asked it is told that there is no free session, at most.
	maxAnswerLead = 50 * time.Millisecond
)

// session is which session a client asks for.
type session struct {
	id         string
	next       bool // any that is free
	descriptor any  // nil: the filter was not described
}

func sessionFilter(a *amqp.Attach) (session, bool) {
	value, ok := a.Source.Filter.Get(sessionFilterName)
	if !ok {
		return session{}, false
	}
	var s session
	if described, ok := value.(amqp.Described); ok {
		s.descriptor, value = described.Descriptor, described.Value
	}
	id, named := value.(string)
	s.id, s.next = id, !named
	return s, true
}

func (c *connection) acceptNext(l *transport.Link, q *broker.Queue, filter session) {
	timeout := defaultAcceptTimeout
	value, _ := l.Request().Properties.Get("com.microsoft:timeout")
	if ms, ok := value.(uint32); ok {
		timeout = time.Duration(ms) * time.Millisecond
		// The client stops listening at about that time, so the answer has to be on its way a little before.
		timeout -= min(timeout/20, maxAnswerLead)
	}
	r := c.newReceiver(l, q)
	cancel := q.AcceptNextSession(timeout, r.options(), func(consumer *broker.Consumer, err *amqp.Error) {
		if err != nil {
			l.Refuse(err)
			return
		}
		filter.accept(l, r, consumer)
	})
	l.OnDetach(cancel)
}

// accept attaches a receiver to the session it got.
func (s session) accept(l *transport.Link, r *receiver, consumer *broker.Consumer) {
	r.consumer = consumer
	var value any = consumer.SessionID()
	if s.descriptor != nil {
		value = amqp.Described{Descriptor: s.descriptor, Value: value}
	}
	l.AcceptSource(r, transport.Reply{
		Filter: amqp.Map{{Key: amqp.Symbol(sessionFilterName), Value: value}},
		Properties: amqp.Map{
			{Key: "com.microsoft:locked-until-utc", Value: management.Ticks(consumer.LockedUntil())},
		},
	})
	l.OnDetach(consumer.Close) // at once, if the client gave up meanwhile
	r.detachIfLost()
}
