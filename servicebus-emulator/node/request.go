package node

import (
	"encoding/binary"
	"sync"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/management"
	"github.com/commandcenter/fleet/servicebus-emulator/transport"
)

// maxReplies bounds what waits for a client that gives no credit for its replies.
const maxReplies = 1000

// maxRequestSize bounds a request, bytes: tokens and settlements are far smaller. One that holds messages may be larger by
// what its entity takes at once.
const maxRequestSize = 256 << 10

// attachRequests connects one half of a request-response node: requests from the client, or replies to it.
func (c *connection) attachRequests(
	l *transport.Link, receiving bool, limit int, answer func(*management.Request) management.Response,
) {
	if !receiving {
		l.AcceptSink(requests{c, answer}, transport.Reply{MaxMessageSize: uint64(limit)})
		return
	}
	r := &replies{link: l}
	// Clients name as reply-to the address of their end of the link or, if they gave it none, the link.
	address := l.Request().Name
	if t := l.Request().Target; t != nil && t.Address != "" {
		address = t.Address
	}
	c.mu.Lock()
	c.replies[address] = r
	c.mu.Unlock()
	l.OnDetach(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.replies[address] == r {
			delete(c.replies, address)
		}
	})
	l.AcceptSource(r, transport.Reply{})
}

// requests takes a client's requests.
type requests struct {
	connection *connection
	answer     func(*management.Request) management.Response // without a status: it is not sent
}

// Receive answers a request on the link that it names.
func (r requests) Receive(_ uint32, payload []byte) *amqp.Error {
	request, err := management.ParseRequest(payload)
	if err != nil {
		return amqp.Errorf(amqp.ErrDecode, "the request cannot be read: %v", err)
	}
	c := r.connection
	c.mu.Lock()
	to := c.replies[request.ReplyTo]
	c.mu.Unlock()
	if to == nil {
		return amqp.Errorf(amqp.ErrNotFound,
			"no link on this connection receives at the request's reply-to '%s'", request.ReplyTo)
	}
	response := r.answer(&request)
	if response.Status == 0 {
		return nil
	}
	return to.add(response.Append(nil, &request))
}

// replies waits with responses until their link has credit.
type replies struct {
	link *transport.Link

	mu      sync.Mutex
	waiting [][]byte
	batch   []transport.Delivery
	sent    uint64
}

func (r *replies) add(message []byte) *amqp.Error {
	r.mu.Lock()
	if len(r.waiting) >= maxReplies {
		r.mu.Unlock()
		return amqp.Errorf(amqp.ErrResourceLimitExceeded,
			"%d replies wait already because their link gives no credit", maxReplies)
	}
	r.waiting = append(r.waiting, message)
	r.mu.Unlock()
	r.link.Notify()
	return nil
}

// Take answers the replies that wait.
func (r *replies) Take(limit int) ([]transport.Delivery, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(limit, len(r.waiting))
	r.batch = r.batch[:0]
	for _, message := range r.waiting[:n] {
		r.sent++
		d := transport.Delivery{Settled: true, Payload: message}
		binary.BigEndian.PutUint64(d.Tag[8:], r.sent)
		r.batch = append(r.batch, d)
	}
	r.waiting = r.waiting[n:]
	return r.batch, len(r.waiting) > 0
}

// Undelivered does nothing: without its link a reply has nowhere to go.
func (r *replies) Undelivered(int) {}

// Settle does nothing: replies are settled when sent.
func (r *replies) Settle(amqp.UUID, amqp.State) amqp.State { return amqp.State{Outcome: amqp.Accepted} }
