package transport

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// Options of a connection. The zero value is not usable: see the fields.
type Options struct {
	// ContainerID names the server in its open frame.
	ContainerID string
	// MaxFrameSize is the largest frame taken, bytes, 512 or more.
	MaxFrameSize uint32
	// IdleTimeout is how long the peer may be silent, as told to it; it is disconnected after twice that. At
	// least a millisecond.
	IdleTimeout time.Duration
	// HandshakeTimeout bounds everything before the open frame.
	HandshakeTimeout time.Duration
	// WriteTimeout bounds one write to a peer that does not read.
	WriteTimeout time.Duration
	// Authenticate says whether SASL credentials are good. The response is empty for ANONYMOUS.
	Authenticate func(mechanism string, response []byte) bool
	// Hold keeps what is about to be written for as long as it does not return; it must return once the channel is
	// closed. Nil holds nothing.
	Hold   func(gone <-chan struct{})
	Logger *slog.Logger
}

// Conn is a connection from a client.
type Conn struct {
	net      net.Conn
	opts     Options
	acceptor Acceptor
	in       frameReader

	peerFrameSize uint32        // set before the writing goroutine starts
	peerIdle      time.Duration // zero: the peer does not mind silence

	// Accepted transfers not yet confirmed, of one session and with consecutive ids; belongs to the reading goroutine.
	acks struct {
		session     *session
		first, last uint32
	}
	decisions []decision // scratch of the reading goroutine

	mu       sync.Mutex
	sessions map[uint16]*session
	out      []byte // frames to write
	pumping  []*Link
	spare    []*Link
	closing  bool // write what is there, then stop
	wake     chan struct{}
	gone     chan struct{} // closed with closing
}

// errPeerClosed is the regular end of a connection.
var errPeerClosed = errors.New("peer closed the connection")

// New makes a connection that Serve runs. The acceptor gets its links.
func New(nc net.Conn, opts Options) *Conn {
	return &Conn{
		net: nc, opts: opts,
		in:       frameReader{conn: nc, limit: opts.MaxFrameSize},
		sessions: map[uint16]*session{},
		wake:     make(chan struct{}, 1),
		gone:     make(chan struct{}),
	}
}

// RemoteAddr is the client's address.
func (c *Conn) RemoteAddr() net.Addr { return c.net.RemoteAddr() }

// Drop closes the TCP connection without a word to the peer.
func (c *Conn) Drop() { _ = c.net.Close() }

// DetachLinks ends the links whose attach is picked, and refuses those that still wait for ours. It answers how many.
func (c *Conn) DetachLinks(picked func(*amqp.Attach) bool, reason *amqp.Error) int {
	var links []*Link
	c.mu.Lock()
	for _, s := range c.sessions {
		for _, l := range s.links {
			if (l.state == linkAttaching || l.state == linkAttached) && picked(&l.attach) {
				links = append(links, l)
			}
		}
	}
	c.mu.Unlock()
	for _, l := range links {
		l.Refuse(reason) // does nothing to one that is attached
		l.Detach(reason)
	}
	return len(links)
}

// Serve runs the connection until it ends, and answers why, or nil if the peer closed it. All its goroutines have
// ended and all OnDetach functions have run when it returns.
func (c *Conn) Serve(acceptor Acceptor) error {
	defer c.net.Close()
	c.acceptor = acceptor
	_ = c.net.SetDeadline(time.Now().Add(c.opts.HandshakeTimeout))
	if err := c.handshake(); err != nil {
		return fmt.Errorf("handshake with %s: %w", c.net.RemoteAddr(), err)
	}
	_ = c.net.SetDeadline(time.Time{})

	written := make(chan error, 1)
	go func() { written <- c.write() }()
	err := c.read()
	c.finish(err)
	_ = c.net.SetWriteDeadline(time.Now().Add(time.Second))
	if werr := <-written; errors.Is(err, net.ErrClosed) {
		err = errors.Join(werr, err)
	}
	if errors.Is(err, errPeerClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// finish ends every link, tells the peer why, and has the writing goroutine stop.
func (c *Conn) finish(reason error) {
	var functions []func()
	c.mu.Lock()
	for channel, s := range c.sessions {
		for _, l := range s.links {
			functions = append(functions, l.end(linkGone)...)
		}
		delete(c.sessions, channel)
	}
	closeFrame := amqp.Close{}
	if amqpErr := (*amqp.Error)(nil); errors.As(reason, &amqpErr) {
		closeFrame.Error = amqpErr
	}
	c.appendFrame(0, closeFrame)
	c.closing = true
	close(c.gone)
	c.signal()
	c.mu.Unlock()
	run(functions)
}

// read acts on frames until the connection ends.
func (c *Conn) read() error {
	for {
		if !c.in.ready() {
			c.flushAcks()
			if c.queued() > maxUnread {
				return amqp.Errorf(amqp.ErrResourceLimitExceeded, "the peer does not read what it is sent")
			}
			_ = c.net.SetReadDeadline(time.Now().Add(2 * c.opts.IdleTimeout))
		}
		header, body, err := c.in.next()
		if err != nil {
			return err
		}
		if len(body) == 0 {
			continue // the peer is alive
		}
		if header.Type != amqp.FrameAMQP {
			return amqp.Errorf(amqp.ErrFraming, "frame of type %d after the handshake", header.Type)
		}
		if err := c.onFrame(header.Channel, body); err != nil {
			return err
		}
	}
}

// queued is how much waits to be written, bytes.
func (c *Conn) queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.out)
}

func (c *Conn) onFrame(channel uint16, body []byte) error {
	t, isTransfer, err := amqp.IsTransfer(body)
	if err != nil {
		return amqp.Errorf(amqp.ErrDecode, "%v", err)
	}
	if isTransfer {
		return c.onTransfer(channel, t)
	}
	c.flushAcks()
	p, err := amqp.ParsePerformative(body)
	if err != nil {
		return amqp.Errorf(amqp.ErrDecode, "%v", err)
	}
	switch p := p.(type) {
	case amqp.Begin:
		return c.onBegin(channel, p)
	case amqp.Close:
		return errPeerClosed
	case amqp.Open:
		return amqp.Errorf(amqp.ErrNotAllowed, "second open frame")
	}
	s := c.session(channel)
	if s == nil {
		return amqp.Errorf(amqp.ErrNotAllowed, "%T on channel %d, which has no session", p, channel)
	}
	switch p := p.(type) {
	case amqp.Disposition:
		c.onDisposition(s, p)
	case amqp.Flow:
		c.mu.Lock()
		s.onFlow(p)
		c.signal()
		c.mu.Unlock()
	case amqp.Attach:
		c.onAttach(s, p)
	case amqp.Detach:
		c.onDetach(s, p)
	case amqp.End:
		c.endSession(s, nil)
	}
	return nil
}

func (c *Conn) session(channel uint16) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[channel]
}

func (c *Conn) onBegin(channel uint16, b amqp.Begin) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions[channel] != nil {
		return amqp.Errorf(amqp.ErrNotAllowed, "channel %d already has a session", channel)
	}
	if channel > maxChannels {
		return amqp.Errorf(amqp.ErrNotAllowed, "channel %d is above the maximum of %d", channel, maxChannels)
	}
	c.sessions[channel] = &session{
		conn: c, channel: channel,
		links:          map[uint32]*Link{},
		nextIncomingID: b.NextOutgoingID,
		remoteWindow:   b.IncomingWindow,
		unsettled:      map[uint32]unsettled{},
	}
	c.appendFrame(channel, amqp.Begin{
		IsReply: true, RemoteChannel: channel,
		IncomingWindow: window, OutgoingWindow: window, HandleMax: maxHandle,
	})
	c.signal()
	return nil
}

// endSession ends a session because the peer did (no reason) or because the peer broke a rule.
func (c *Conn) endSession(s *session, reason *amqp.Error) {
	var functions []func()
	c.mu.Lock()
	for _, l := range s.links {
		functions = append(functions, l.end(linkGone)...)
	}
	s.links = map[uint32]*Link{}
	if reason == nil {
		delete(c.sessions, s.channel)
	} // else the peer's end is still to come; until then its frames find no links
	c.appendFrame(s.channel, amqp.End{Error: reason})
	c.signal()
	c.mu.Unlock()
	run(functions)
}

func (c *Conn) onAttach(s *session, a amqp.Attach) {
	c.mu.Lock()
	if s.links[a.Handle] != nil || a.Handle > maxHandle {
		c.mu.Unlock()
		c.endSession(s, amqp.Errorf(amqp.ErrHandleInUse, "handle %d is in use or above %d", a.Handle, maxHandle))
		return
	}
	l := &Link{conn: c, session: s, attach: a}
	s.links[a.Handle] = l
	c.mu.Unlock()
	c.acceptor.Attach(l)
}

func (c *Conn) onDetach(s *session, d amqp.Detach) {
	c.mu.Lock()
	l := s.links[d.Handle]
	if l == nil {
		c.mu.Unlock()
		return
	}
	delete(s.links, d.Handle)
	if l.state == linkAttaching {
		// The peer gave up waiting. It is owed an attach before the detach.
		a := l.echo()
		a.Source, a.Target = nil, nil
		c.appendFrame(s.channel, a)
	}
	if l.state != linkDetaching {
		c.appendFrame(s.channel, amqp.Detach{Handle: d.Handle, Closed: true})
	}
	functions := l.end(linkGone)
	c.signal()
	c.mu.Unlock()
	run(functions)
}

// onDisposition carries out the peer's decisions on what we sent. Dispositions on what the peer sent mean
// nothing to us: we settled those at once.
func (c *Conn) onDisposition(s *session, d amqp.Disposition) {
	if d.Role != amqp.RoleReceiver || (d.State.Outcome == amqp.NoOutcome && !d.Settled) ||
		d.State.Outcome == amqp.Received {
		return
	}
	c.mu.Lock()
	decisions := s.decided(d.First, d.Last, c.decisions[:0])
	c.mu.Unlock()
	for _, decided := range decisions {
		state := decided.link.source.Settle(decided.tag, d.State)
		if d.Settled || state.Outcome == amqp.NoOutcome {
			continue
		}
		c.mu.Lock()
		if decided.link.state == linkAttached {
			id := decided.id
			c.appendFrame(s.channel, amqp.Disposition{
				Role: amqp.RoleSender, First: id, Last: id, Settled: true, State: state,
			})
			c.signal()
		}
		c.mu.Unlock()
	}
	c.decisions = decisions[:0]
}

// appendFrame queues a frame; it needs the mutex, and a signal after it.
func (c *Conn) appendFrame(channel uint16, p interface{ Append([]byte) []byte }) {
	out, mark := amqp.BeginFrame(c.out, amqp.FrameAMQP, channel)
	c.out = amqp.EndFrame(p.Append(out), mark)
}

// signal wakes the writing goroutine.
func (c *Conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
