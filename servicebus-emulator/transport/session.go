package transport

import (
	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

const (
	window      = 5000 // transfer frames that each side may have under way in a session, as Service Bus grants
	maxHandle   = 255  // links per session less one, as Service Bus allows
	maxChannels = 4999 // sessions per connection less one, as Service Bus allows
)

// unsettled is a delivery that the peer has yet to decide on.
type unsettled struct {
	link *Link
	tag  amqp.UUID
}

// session is guarded by the connection's mutex.
type session struct {
	conn    *Conn
	channel uint16 // the peer's and ours: both sides use the same number
	links   map[uint32]*Link

	nextIncomingID uint32
	sinceFlow      uint32 // transfer frames received since we last told our window

	nextOutgoingID uint32
	remoteWindow   uint32
	nextDeliveryID uint32
	unsettled      map[uint32]unsettled
}

// appendFlow writes a flow frame: the session's windows and, unless nil, a link's credit.
func (s *session) appendFlow(l *Link) {
	f := amqp.Flow{
		NextIncomingID: s.nextIncomingID, HasNextIncomingID: true,
		IncomingWindow: window,
		NextOutgoingID: s.nextOutgoingID,
		OutgoingWindow: window,
	}
	s.sinceFlow = 0
	if l != nil {
		f.HasHandle, f.Handle = true, l.attach.Handle
		if l.sink != nil {
			f.DeliveryCount, f.LinkCredit = l.receivedCount, l.remoteCredit
		} else {
			f.DeliveryCount, f.LinkCredit, f.Drain = l.deliveryCount, l.credit, l.drain
		}
	}
	s.conn.appendFrame(s.channel, f)
}

// onFlow takes the peer's windows and credit.
func (s *session) onFlow(f amqp.Flow) {
	var next uint32
	if f.HasNextIncomingID {
		next = f.NextIncomingID
	}
	wasBlocked := s.remoteWindow == 0
	s.remoteWindow = next + f.IncomingWindow - s.nextOutgoingID
	if !f.HasHandle {
		if f.Echo {
			s.appendFlow(nil)
		}
	} else if l := s.links[f.Handle]; l != nil && l.state == linkAttached {
		l.onFlow(f)
	}
	if wasBlocked && s.remoteWindow > 0 {
		for _, l := range s.links {
			if l.credit > 0 {
				l.enqueue()
			}
		}
	}
}

func (l *Link) onFlow(f amqp.Flow) {
	if l.source == nil {
		if f.Echo {
			l.session.appendFlow(l)
		}
		return
	}
	if f.HasLinkCredit {
		// The peer counts from its own view of how much we sent (part 2, section 2.6.7).
		seen := l.deliveryCount
		if f.HasDeliveryCount {
			seen = f.DeliveryCount
		}
		credit := seen + f.LinkCredit - l.deliveryCount
		if int32(credit) < 0 { // it took credit back that is used already
			credit = 0
		}
		l.credit = credit
	}
	l.drain = f.Drain
	if l.credit > 0 || l.drain {
		l.enqueue()
	}
	if f.Echo && !f.Drain {
		l.session.appendFlow(l)
	}
}

// appendDelivery writes one message in as many frames as the peer's frame size asks for.
func (s *session) appendDelivery(l *Link, d Delivery) {
	const transferOverhead = 64 // bytes; frame header, performative and a 16-byte tag take at most this
	chunk := int(s.conn.peerFrameSize) - transferOverhead
	id := s.nextDeliveryID
	s.nextDeliveryID++
	t := amqp.Transfer{
		Handle: l.attach.Handle, DeliveryID: id, HasDeliveryID: true, Tag: d.Tag[:], Settled: d.Settled,
	}
	for rest := d.Payload; ; {
		t.Payload, t.More = rest, false
		if len(rest) > chunk {
			t.Payload, t.More = rest[:chunk], true
		}
		rest = rest[len(t.Payload):]
		out, mark := amqp.BeginFrame(s.conn.out, amqp.FrameAMQP, s.channel)
		s.conn.out = amqp.EndFrame(t.Append(out), mark)
		s.nextOutgoingID++
		if s.remoteWindow > 0 {
			s.remoteWindow--
		}
		if !t.More {
			break
		}
		t.HasDeliveryID = false
	}
	l.deliveryCount++
	l.credit--
	if !d.Settled {
		s.unsettled[id] = unsettled{l, d.Tag}
	}
}

// decided removes and answers the unsettled deliveries from first to last.
func (s *session) decided(first, last uint32, into []decision) []decision {
	span := last - first
	if span >= uint32(len(s.unsettled)) && span > 0 {
		// More ids than deliveries: look through the deliveries, whatever the peer claims.
		for id, u := range s.unsettled {
			if id-first <= span {
				into = append(into, decision{id, u})
			}
		}
	} else {
		for id := first; ; id++ {
			if u, ok := s.unsettled[id]; ok {
				into = append(into, decision{id, u})
			}
			if id == last {
				break
			}
		}
	}
	for _, d := range into {
		delete(s.unsettled, d.id)
	}
	return into
}

type decision struct {
	id uint32
	unsettled
}
