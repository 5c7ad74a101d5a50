package transport

import "github.com/commandcenter/fleet/servicebus-emulator/amqp"

// message is one that is arriving; it belongs to the reading goroutine.
type message struct {
	open    bool // some frames are here and more are to come
	id      uint32
	format  uint32
	settled bool
	size    int    // bytes that came so far
	partial []byte // what is here, unless the message is a single frame, or too large
}

// add takes a frame. Once the message is whole it answers its payload, which for a single frame is not copied. Of a
// message larger than the limit, if there is one, nothing more is kept.
func (m *message) add(t amqp.Transfer, limit int) (payload []byte, whole bool) {
	if !m.open {
		m.id, m.format, m.settled, m.size, m.partial = t.DeliveryID, t.Format, false, 0, m.partial[:0]
	}
	m.settled = m.settled || t.Settled
	m.open = t.More && !t.Aborted
	m.size += len(t.Payload)
	if limit > 0 && m.size > limit {
		m.partial = m.partial[:0]
		return nil, !m.open
	}
	if !m.open && len(m.partial) == 0 {
		return t.Payload, true
	}
	m.partial = append(m.partial, t.Payload...)
	return m.partial, !m.open
}

// onTransfer takes a frame of a message and, with the last one, hands the message to the link's sink.
func (c *Conn) onTransfer(channel uint16, t amqp.Transfer) error {
	c.mu.Lock()
	s := c.sessions[channel]
	if s == nil {
		c.mu.Unlock()
		return amqp.Errorf(amqp.ErrNotAllowed, "transfer on channel %d, which has no session", channel)
	}
	s.nextIncomingID++
	s.sinceFlow++
	if s.sinceFlow >= window/2 {
		s.appendFlow(nil)
		c.signal()
	}
	l := s.links[t.Handle]
	attached := l != nil && l.state == linkAttached && l.sink != nil
	c.mu.Unlock()
	if !attached {
		return nil // it was under way while we detached
	}
	payload, whole := l.incoming.add(t, l.maxMessageSize)
	if !whole {
		return nil
	}
	var reason *amqp.Error
	switch {
	case t.Aborted:
	case l.maxMessageSize > 0 && l.incoming.size > l.maxMessageSize: // refused, and the link goes on, as at the service
		reason = amqp.Errorf(amqp.ErrMessageSizeExceeded,
			"the received message (delivery-id:%d, size:%d bytes) exceeds the limit (%d bytes) currently allowed on the link",
			l.incoming.id, l.incoming.size, l.maxMessageSize)
	default:
		reason = l.sink.Receive(l.incoming.format, payload)
	}
	if cap(l.incoming.partial) > keptBuffer {
		l.incoming.partial = nil
	}
	c.settleReceived(l, l.incoming.settled || t.Aborted, reason)
	return nil
}

// settleReceived confirms or refuses the message that arrived last on a link, and tops up the peer's credit.
func (c *Conn) settleReceived(l *Link, settled bool, reason *amqp.Error) {
	s, id := l.session, l.incoming.id
	if !settled && reason == nil {
		c.ack(s, id)
	}
	if !settled && reason != nil {
		c.flushAcks()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !settled && reason != nil {
		c.appendFrame(s.channel, amqp.Disposition{
			Role: amqp.RoleReceiver, First: id, Last: id, Settled: true,
			State: amqp.State{Outcome: amqp.Rejected, Error: reason},
		})
		c.signal()
	}
	l.receivedCount++
	if l.remoteCredit > 0 {
		l.remoteCredit--
	}
	if l.remoteCredit < initialCredit/2 && l.state == linkAttached {
		l.remoteCredit = initialCredit
		s.appendFlow(l)
		c.signal()
	}
}

// ack notes an accepted transfer. Consecutive ones are confirmed by one disposition.
func (c *Conn) ack(s *session, id uint32) {
	if c.acks.session == s && id == c.acks.last+1 {
		c.acks.last = id
		return
	}
	c.flushAcks()
	c.acks.session, c.acks.first, c.acks.last = s, id, id
}

// flushAcks confirms the accepted transfers. It runs before the reading goroutine waits for the peer.
func (c *Conn) flushAcks() {
	if c.acks.session == nil {
		return
	}
	c.mu.Lock()
	if c.sessions[c.acks.session.channel] == c.acks.session {
		c.appendFrame(c.acks.session.channel, amqp.Disposition{
			Role: amqp.RoleReceiver, First: c.acks.first, Last: c.acks.last, Settled: true,
			State: amqp.State{Outcome: amqp.Accepted},
		})
		c.signal()
	}
	c.mu.Unlock()
	c.acks.session = nil
}
