package transport

import (
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

const (
	maxTake = 256 // messages pulled from one source before other links get their turn
	// keptBuffer is the largest buffer kept for later, bytes; a larger one was needed for a burst.
	keptBuffer = 1 << 20
	// maxQueued is what may wait to be written before no more messages are pulled, bytes.
	maxQueued = 1 << 20
	// maxUnread is what may wait to be written to a peer that goes on sending, bytes. Answers to what it sends cannot be held
	// back, so a peer that never reads them is disconnected.
	maxUnread = 16 << 20
)

// write is the writing goroutine.
func (c *Conn) write() error {
	var silence <-chan time.Time
	if c.peerIdle > 0 {
		// The peer gives up after its idle timeout; a third of it leaves room for a late tick.
		ticker := time.NewTicker(max(c.peerIdle/3, time.Millisecond))
		defer ticker.Stop()
		silence = ticker.C
	}
	var buf []byte
	wrote := false // since the last tick
	for {
		more := c.pump()
		c.mu.Lock()
		buf, c.out = c.out, buf[:0]
		closing := c.closing
		c.mu.Unlock()
		if len(buf) > 0 {
			if c.opts.Hold != nil {
				c.opts.Hold(c.gone)
			}
			if err := c.writeOut(buf); err != nil {
				return err
			}
			wrote = true
			if cap(buf) > keptBuffer {
				buf = nil
			}
			continue
		}
		if closing {
			return nil
		}
		if more {
			continue
		}
		select {
		case <-c.wake:
		case <-silence:
			if !wrote {
				if err := c.writeOut(amqp.AppendEmptyFrame(nil)); err != nil {
					return err
				}
			}
			wrote = false
		}
	}
}

// writeOut writes, and closes the connection if it cannot, so that the reading goroutine ends too.
func (c *Conn) writeOut(b []byte) error {
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	if !closing { // then finish has set a deadline, to be kept
		_ = c.net.SetWriteDeadline(time.Now().Add(c.opts.WriteTimeout))
	}
	if _, err := c.net.Write(b); err != nil {
		_ = c.net.Close()
		return err
	}
	return nil
}

// pump gives every link that asked for it one turn, and says whether any wants another.
func (c *Conn) pump() bool {
	c.mu.Lock()
	links := c.pumping
	c.pumping, c.spare = c.spare[:0], nil
	for _, l := range links {
		l.queued = false
	}
	c.mu.Unlock()
	if len(links) == 0 {
		c.spare = links
		return false
	}
	for i, l := range links {
		c.pumpLink(l)
		links[i] = nil
	}
	c.mu.Lock()
	c.spare = links[:0]
	more := len(c.pumping) > 0
	c.mu.Unlock()
	return more
}

// pumpLink pulls messages from a link's source and queues them for writing.
func (c *Conn) pumpLink(l *Link) {
	c.mu.Lock()
	if l.state != linkAttached {
		c.mu.Unlock()
		return
	}
	if len(c.out) > maxQueued {
		l.enqueue() // after the write
		c.mu.Unlock()
		return
	}
	limit := min(int(l.credit), l.session.room(), maxTake)
	c.mu.Unlock()

	batch, more := l.source.Take(limit)

	c.mu.Lock()
	if l.state != linkAttached {
		c.mu.Unlock()
		l.source.Undelivered(0)
		return
	}
	for _, d := range batch {
		l.session.appendDelivery(l, d)
	}
	if l.drain && !more && l.credit > 0 {
		l.deliveryCount += l.credit // used up, as drain means (part 2, section 2.6.7)
		l.credit = 0
	}
	if l.drain && l.credit == 0 {
		l.session.appendFlow(l)
		l.drain = false
	}
	if more && l.credit > 0 && l.session.room() > 0 {
		l.enqueue()
	}
	c.mu.Unlock()
}

// room is how many messages of any size fit the peer's window. With a window too small to tell, it is one at a time.
func (s *session) room() int {
	const framesPerMessage = 5 // of the usual 64 KiB, for the usual largest message of 256 KiB
	if s.remoteWindow == 0 {
		return 0
	}
	return max(1, int(s.remoteWindow)/framesPerMessage)
}
