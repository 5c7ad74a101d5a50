package transport

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// raw is a client that sends what it likes.
type raw struct {
	*testing.T
	net net.Conn
}

// dial opens a connection and a session on channel 0.
func dial(t *testing.T, accept acceptFunc) *raw {
	t.Helper()
	r := &raw{t, serve(t, accept)}
	_ = r.net.SetDeadline(time.Now().Add(patience))
	r.write([]byte(amqp.ProtocolAMQP))
	r.frame(amqp.Open{ContainerID: "raw", MaxFrameSize: 4096})
	header := make([]byte, 8)
	if _, err := io.ReadFull(r.net, header); err != nil || string(header) != amqp.ProtocolAMQP {
		t.Fatalf("protocol %q, %v", header, err)
	}
	r.frame(amqp.Begin{IncomingWindow: 100, OutgoingWindow: 100})
	if _, ok := r.read().(amqp.Open); !ok {
		t.Fatal("no open")
	}
	if b, ok := r.read().(amqp.Begin); !ok || !b.IsReply {
		t.Fatal("no begin")
	}
	return r
}

func (r *raw) write(b []byte) {
	r.Helper()
	if _, err := r.net.Write(b); err != nil {
		r.Fatal(err)
	}
}

func (r *raw) frame(p interface{ Append([]byte) []byte }) {
	r.Helper()
	b, mark := amqp.BeginFrame(nil, amqp.FrameAMQP, 0)
	r.write(amqp.EndFrame(p.Append(b), mark))
}

func (r *raw) read() any {
	r.Helper()
	header := make([]byte, 8)
	if _, err := io.ReadFull(r.net, header); err != nil {
		r.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(header)-8)
	if _, err := io.ReadFull(r.net, body); err != nil {
		r.Fatal(err)
	}
	p, err := amqp.ParsePerformative(body)
	if err != nil {
		r.Fatal(err)
	}
	return p
}

func (r *raw) closed(condition amqp.Symbol) {
	r.Helper()
	c, ok := r.read().(amqp.Close)
	if !ok || c.Error == nil || c.Error.Condition != condition {
		r.Fatalf("close %+v, want %s", c.Error, condition)
	}
	if n, err := r.net.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		r.Fatalf("read %d, %v after the close", n, err)
	}
}

func nothing(l *Link) { l.Refuse(nil) }

func TestFrameTooLarge(t *testing.T) {
	r := dial(t, nothing)
	r.write([]byte{0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0})
	r.closed(amqp.ErrFraming)
}

func TestGarbage(t *testing.T) {
	r := dial(t, nothing)
	r.write([]byte{0, 0, 0, 12, 2, 0, 0, 0, 1, 2, 3, 4})
	r.closed(amqp.ErrDecode)
}

func TestFrameForNoSession(t *testing.T) {
	r := dial(t, nothing)
	b, mark := amqp.BeginFrame(nil, amqp.FrameAMQP, 9)
	r.write(amqp.EndFrame(amqp.Flow{}.Append(b), mark))
	r.closed(amqp.ErrNotAllowed)
}

func TestHandleInUse(t *testing.T) {
	r := dial(t, func(l *Link) { l.AcceptSource(&store{}, Reply{}) })
	r.frame(amqp.Attach{Name: "a", Role: amqp.RoleReceiver})
	r.read()
	r.frame(amqp.Attach{Name: "b", Role: amqp.RoleReceiver})
	if end, ok := r.read().(amqp.End); !ok || end.Error.Condition != amqp.ErrHandleInUse {
		t.Errorf("%+v", end)
	}
}

func TestMessageTooLarge(t *testing.T) {
	r := dial(t, func(l *Link) {
		l.AcceptSink(sinkFunc(func(uint32, []byte) *amqp.Error {
			t.Error("a message too large was taken")
			return nil
		}), Reply{MaxMessageSize: 5000})
	})
	r.frame(amqp.Attach{Name: "a", Role: amqp.RoleSender})
	r.read()                    // attach
	r.read()                    // flow
	for id := range uint32(2) { // refused, and the link goes on
		for _, more := range []bool{true, true, false} {
			r.frame(amqp.Transfer{HasDeliveryID: true, DeliveryID: id, Tag: []byte{1}, More: more, Payload: make([]byte, 3000)})
		}
		d, ok := r.read().(amqp.Disposition)
		if !ok || d.First != id || d.State.Outcome != amqp.Rejected || d.State.Error.Condition != amqp.ErrMessageSizeExceeded {
			t.Errorf("%+v", d)
		}
	}
}

// A disposition can name four billion deliveries; only those that exist matter.
func TestDispositionOfAllIDs(t *testing.T) {
	out := &store{}
	out.add(t, false, []byte("1"), []byte("2"))
	r := dial(t, out.accept)
	r.frame(amqp.Attach{Name: "a", Role: amqp.RoleReceiver})
	r.read()
	r.frame(amqp.Flow{IncomingWindow: 100, OutgoingWindow: 100, HasHandle: true, HasLinkCredit: true, LinkCredit: 5})
	for range 2 {
		if _, ok := r.read().(amqp.Transfer); !ok {
			t.Fatal("no transfer")
		}
	}
	r.frame(amqp.Disposition{Role: amqp.RoleReceiver, Last: 1<<32 - 1, State: amqp.State{Outcome: amqp.Accepted}})
	for range 2 {
		d, ok := r.read().(amqp.Disposition)
		if !ok || !d.Settled || d.State.Outcome != amqp.Accepted {
			t.Fatalf("%+v", d)
		}
	}
}

// Credit alone is not enough: the session's window counts too.
func TestWindowOfThePeer(t *testing.T) {
	out := &store{}
	out.add(t, true, []byte("1"), []byte("2"), []byte("3"))
	r := dial(t, out.accept)
	r.frame(amqp.Attach{Name: "a", Role: amqp.RoleReceiver})
	r.read()
	open := func(next, window uint32) {
		r.frame(amqp.Flow{HasNextIncomingID: true, NextIncomingID: next, IncomingWindow: window, OutgoingWindow: 100})
	}
	open(0, 0)
	r.frame(amqp.Flow{
		HasNextIncomingID: true, OutgoingWindow: 100, HasHandle: true, HasLinkCredit: true, LinkCredit: 5, Echo: true,
	})
	if f, ok := r.read().(amqp.Flow); !ok || f.LinkCredit != 5 {
		t.Fatalf("%+v", f)
	}
	for id := range uint32(3) {
		open(id, 1)
		if got, ok := r.read().(amqp.Transfer); !ok || got.DeliveryID != id {
			t.Fatalf("%+v", got)
		}
		r.frame(amqp.Flow{HasNextIncomingID: true, NextIncomingID: id + 1, OutgoingWindow: 100, Echo: true})
		if _, ok := r.read().(amqp.Flow); !ok {
			t.Fatal("more than the window was sent")
		}
	}
}

// Consecutive transfers that arrive together are confirmed together.
func TestAcksAreJoined(t *testing.T) {
	r := dial(t, func(l *Link) {
		l.AcceptSink(sinkFunc(func(uint32, []byte) *amqp.Error { return nil }), Reply{})
	})
	r.frame(amqp.Attach{Name: "a", Role: amqp.RoleSender})
	r.read()
	r.read()
	var all []byte
	for id := range uint32(10) {
		b, mark := amqp.BeginFrame(nil, amqp.FrameAMQP, 0)
		all = append(all, amqp.EndFrame(amqp.Transfer{HasDeliveryID: true, DeliveryID: id, Tag: []byte{1}}.Append(b), mark)...)
	}
	r.write(all)
	for next := uint32(0); next < 10; {
		d, ok := r.read().(amqp.Disposition)
		if !ok || d.First != next || !d.Settled || d.State.Outcome != amqp.Accepted {
			t.Fatalf("%+v", d)
		}
		next = d.Last + 1
	}
}

func TestSilentPeerIsDisconnected(t *testing.T) {
	client, server := net.Pipe()
	conn := New(server, Options{
		MaxFrameSize: 4096, IdleTimeout: 10 * time.Millisecond, HandshakeTimeout: patience, WriteTimeout: patience,
		Authenticate: func(string, []byte) bool { return true },
	})
	done := make(chan error, 1)
	go func() { done <- conn.Serve(acceptFunc(nothing)) }()
	go func() { _, _ = io.Copy(io.Discard, client) }()
	b, mark := amqp.BeginFrame([]byte(amqp.ProtocolAMQP), amqp.FrameAMQP, 0)
	if _, err := client.Write(amqp.EndFrame(amqp.Open{}.Append(b), mark)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if err := <-done; !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("ended with %v", err)
	}
	_ = client.Close()
}

func TestNotAMQP(t *testing.T) {
	client := serve(t, nothing)
	_ = client.SetDeadline(time.Now().Add(patience))
	if _, err := client.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(client) // the protocol that is spoken here, then the end
	if string(answer) != amqp.ProtocolAMQP {
		t.Errorf("%q", answer)
	}
}

func FuzzConnection(f *testing.F) {
	b, mark := amqp.BeginFrame(nil, amqp.FrameAMQP, 0)
	f.Add(amqp.EndFrame(amqp.Attach{Name: "a", Role: amqp.RoleReceiver}.Append(b), mark))
	b, mark = amqp.BeginFrame(nil, amqp.FrameAMQP, 0)
	f.Add(amqp.EndFrame(amqp.Flow{HasHandle: true, HasLinkCredit: true, LinkCredit: 9}.Append(b), mark))
	f.Fuzz(func(t *testing.T, input []byte) {
		client, server := net.Pipe()
		conn := New(server, Options{
			MaxFrameSize: 4096, IdleTimeout: time.Minute, HandshakeTimeout: patience, WriteTimeout: patience,
			Authenticate: func(string, []byte) bool { return true },
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = conn.Serve(acceptFunc(func(l *Link) {
				if l.Request().Role == amqp.RoleSender {
					l.AcceptSink(sinkFunc(func(uint32, []byte) *amqp.Error { return nil }), Reply{MaxMessageSize: 10_000})
					return
				}
				out := &store{}
				out.add(t, false, []byte("x"))
				out.accept(l)
			}))
		}()
		go func() { _, _ = io.Copy(io.Discard, client) }()
		stream := []byte(amqp.ProtocolAMQP)
		for _, p := range []interface{ Append([]byte) []byte }{amqp.Open{}, amqp.Begin{IncomingWindow: 5}} {
			b, mark := amqp.BeginFrame(nil, amqp.FrameAMQP, 0)
			stream = append(stream, amqp.EndFrame(p.Append(b), mark)...)
		}
		_, _ = client.Write(append(stream, input...))
		_ = client.Close()
		<-done
	})
}
