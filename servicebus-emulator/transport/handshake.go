package transport

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// handshake exchanges protocol headers, SASL and open frames.
func (c *Conn) handshake() error {
	protocol, err := c.in.protocol()
	if err != nil {
		return err
	}
	if protocol == amqp.ProtocolSASL {
		if err := c.authenticate(); err != nil {
			return err
		}
		if protocol, err = c.in.protocol(); err != nil {
			return err
		}
	} else if !c.opts.Authenticate("", nil) {
		_, _ = c.net.Write([]byte(amqp.ProtocolSASL))
		return fmt.Errorf("the client skipped SASL")
	}
	if protocol != amqp.ProtocolAMQP {
		_, _ = c.net.Write([]byte(amqp.ProtocolAMQP))
		return fmt.Errorf("protocol header %q is not AMQP 1.0 (is the client using TLS?)", protocol)
	}
	if _, err := c.net.Write([]byte(amqp.ProtocolAMQP)); err != nil {
		return err
	}
	_, body, err := c.in.next()
	if err != nil {
		return err
	}
	p, err := amqp.ParsePerformative(body)
	if err != nil {
		return err
	}
	open, ok := p.(amqp.Open)
	if !ok {
		return fmt.Errorf("expected an open frame, found %T", p)
	}
	c.peerFrameSize = min(max(open.MaxFrameSize, amqp.MinMaxFrameSize), c.opts.MaxFrameSize)
	c.peerIdle = open.IdleTimeout
	c.appendFrame(0, amqp.Open{
		ContainerID: c.opts.ContainerID, MaxFrameSize: c.opts.MaxFrameSize,
		ChannelMax: maxChannels, IdleTimeout: c.opts.IdleTimeout,
	})
	c.signal()
	return nil
}

// authenticate runs the SASL layer.
func (c *Conn) authenticate() error {
	greeting := amqp.AppendSASLMechanisms([]byte(amqp.ProtocolSASL), "MSSBCBS", "ANONYMOUS", "PLAIN")
	if _, err := c.net.Write(greeting); err != nil {
		return err
	}
	header, body, err := c.in.next()
	if err != nil {
		return err
	}
	if header.Type != amqp.FrameSASL {
		return fmt.Errorf("expected a SASL frame, found type %d", header.Type)
	}
	init, err := amqp.ParseSASLInit(body)
	if err != nil {
		return err
	}
	if !c.opts.Authenticate(string(init.Mechanism), init.InitialResponse) {
		_, _ = c.net.Write(amqp.AppendSASLOutcome(nil, amqp.SASLAuth))
		return fmt.Errorf("SASL %s: wrong credentials", init.Mechanism)
	}
	_, err = c.net.Write(amqp.AppendSASLOutcome(nil, amqp.SASLOK))
	return err
}

// frameReader cuts frames out of a stream. Its buffer grows to what the peer really sends.
type frameReader struct {
	conn  net.Conn
	limit uint32 // largest frame, bytes
	buf   []byte
	start int // of what is not consumed yet
	end   int
}

const firstBuffer = 4096 // bytes

// protocol reads a protocol header.
func (f *frameReader) protocol() (string, error) {
	if err := f.fill(amqp.FrameHeaderSize); err != nil {
		return "", err
	}
	s := string(f.buf[f.start : f.start+amqp.FrameHeaderSize])
	f.start += amqp.FrameHeaderSize
	return s, nil
}

// ready says whether a whole frame is here, so that next would not wait.
func (f *frameReader) ready() bool {
	have := f.buf[f.start:f.end]
	header, err := amqp.ParseFrameHeader(have)
	return err == nil && int64(len(have)) >= int64(header.Size)
}

// next reads a frame. Its body is valid until the next call.
func (f *frameReader) next() (amqp.FrameHeader, []byte, error) {
	if err := f.fill(amqp.FrameHeaderSize); err != nil {
		return amqp.FrameHeader{}, nil, err
	}
	header, err := amqp.ParseFrameHeader(f.buf[f.start:f.end])
	if err != nil {
		return header, nil, amqp.Errorf(amqp.ErrFraming, "%v", err)
	}
	if header.Size > f.limit {
		return header, nil, amqp.Errorf(amqp.ErrFraming, "frame of %d bytes; the maximum is %d", header.Size, f.limit)
	}
	if err := f.fill(int(header.Size)); err != nil {
		return header, nil, err
	}
	frame := f.buf[f.start : f.start+int(header.Size)]
	f.start += int(header.Size)
	return header, header.Body(frame), nil
}

// fill reads until at least n bytes are unconsumed.
func (f *frameReader) fill(n int) error {
	if f.end-f.start >= n {
		return nil
	}
	if f.start == f.end {
		f.start, f.end = 0, 0
	}
	if len(f.buf)-f.start < n {
		f.makeRoom(n)
	}
	for f.end-f.start < n {
		read, err := f.conn.Read(f.buf[f.end:])
		f.end += read
		if read == 0 && err != nil {
			if errors.Is(err, io.EOF) && f.end > f.start {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	if f.end == len(f.buf) && len(f.buf) < int(f.limit) {
		// The peer sends faster than the buffer takes: fewer, larger reads from now on.
		f.grow(2 * len(f.buf))
	}
	return nil
}

func (f *frameReader) makeRoom(n int) {
	if size := max(n, firstBuffer); size > len(f.buf) {
		f.grow(size)
		return
	}
	copy(f.buf, f.buf[f.start:f.end])
	f.start, f.end = 0, f.end-f.start
}

func (f *frameReader) grow(size int) {
	buf := make([]byte, size)
	f.end = copy(buf, f.buf[f.start:f.end])
	f.start, f.buf = 0, buf
}
