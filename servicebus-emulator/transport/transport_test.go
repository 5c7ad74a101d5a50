package transport

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	goamqp "github.com/Azure/go-amqp"
	"go.uber.org/goleak"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 2 * time.Minute

// acceptFunc is an Acceptor.
type acceptFunc func(*Link)

func (f acceptFunc) Attach(l *Link) { f(l) }

// serve runs a connection and answers the client's end of it.
func serve(t *testing.T, accept acceptFunc) net.Conn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	conn := New(server, Options{
		ContainerID: "test", MaxFrameSize: 4096, IdleTimeout: time.Minute, HandshakeTimeout: patience, WriteTimeout: patience,
		Authenticate: func(string, []byte) bool { return true }, Logger: slog.New(slog.DiscardHandler),
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = conn.Serve(accept)
	}()
	t.Cleanup(func() {
		_ = client.Close()
		<-done
	})
	return client
}

func newSession(t *testing.T, accept acceptFunc, opts *goamqp.ConnOptions) *goamqp.Session {
	t.Helper()
	client, err := goamqp.NewConn(within(t), serve(t, accept), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s, err := client.NewSession(within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// sinkFunc is a Sink.
type sinkFunc func(format uint32, payload []byte) *amqp.Error

func (f sinkFunc) Receive(format uint32, payload []byte) *amqp.Error { return f(format, payload) }

// store is a Source of prepared messages.
type store struct {
	mu          sync.Mutex
	link        *Link
	waiting     []Delivery
	settled     []amqp.State
	answer      amqp.State
	undelivered int
	taking      chan struct{} // unless nil: Take says so here, and waits for a word back
}

func (s *store) Take(limit int) ([]Delivery, bool) {
	if s.taking != nil && limit > 0 {
		s.taking <- struct{}{}
		<-s.taking
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(limit, len(s.waiting))
	batch := s.waiting[:n]
	s.waiting = s.waiting[n:]
	return batch, len(s.waiting) > 0
}

func (s *store) Undelivered(int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undelivered++
}

func (s *store) Settle(_ amqp.UUID, state amqp.State) amqp.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = append(s.settled, state)
	if s.answer.Outcome != amqp.NoOutcome {
		return s.answer
	}
	return amqp.State{Outcome: state.Outcome}
}

func (s *store) accept(l *Link) {
	s.link = l
	l.AcceptSource(s, Reply{})
}

// encoded is a message with one data section.
func encoded(t *testing.T, data []byte) []byte {
	t.Helper()
	b, err := goamqp.NewMessage(data).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (s *store) add(t *testing.T, settled bool, bodies ...[]byte) {
	for _, body := range bodies {
		s.waiting = append(s.waiting, Delivery{Settled: settled, Payload: encoded(t, body)})
	}
}

func condition(err error) goamqp.ErrCond {
	var e *goamqp.Error
	if errors.As(err, &e) {
		return e.Condition
	}
	return ""
}

func TestRefusedLink(t *testing.T) {
	s := newSession(t, func(l *Link) { l.Refuse(amqp.Errorf(amqp.ErrNotFound, "no")) }, nil)
	if _, err := s.NewSender(within(t), "x", nil); condition(err) != goamqp.ErrCondNotFound {
		t.Errorf("sender: %v", err)
	}
	if _, err := s.NewReceiver(within(t), "x", nil); condition(err) != goamqp.ErrCondNotFound {
		t.Errorf("receiver: %v", err)
	}
}

func TestMessagesOfManyFrames(t *testing.T) {
	out := &store{}
	received := make(chan []byte, 1)
	s := newSession(t, func(l *Link) {
		if l.Request().Role == amqp.RoleReceiver {
			out.accept(l)
			return
		}
		l.AcceptSink(sinkFunc(func(_ uint32, payload []byte) *amqp.Error {
			received <- bytes.Clone(payload)
			return nil
		}), Reply{})
	}, &goamqp.ConnOptions{MaxFrameSize: 512})
	body := bytes.Repeat([]byte("0123456789"), 5000)
	sender, err := s.NewSender(within(t), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(within(t), goamqp.NewMessage(body), nil); err != nil {
		t.Fatal(err)
	}
	if got := <-received; !bytes.Equal(got, encoded(t, body)) {
		t.Errorf("received %d bytes", len(got))
	}
	out.add(t, true, body, []byte("small"), body)
	receiver, err := s.NewReceiver(within(t), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]byte{body, []byte("small"), body} {
		m, err := receiver.Receive(within(t), nil)
		if err != nil || !bytes.Equal(m.GetData(), want) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

func TestRefusedMessage(t *testing.T) {
	s := newSession(t, func(l *Link) {
		l.AcceptSink(sinkFunc(func(uint32, []byte) *amqp.Error {
			return amqp.Errorf(amqp.ErrResourceLimitExceeded, "full")
		}), Reply{})
	}, nil)
	sender, err := s.NewSender(within(t), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	err = sender.Send(within(t), goamqp.NewMessage(nil), nil)
	if condition(err) != goamqp.ErrCondResourceLimitExceeded {
		t.Error(err)
	}
}

// More than the credit and the window that are granted at first.
func TestSendingGoesOnAsCreditIsToppedUp(t *testing.T) {
	n := 0
	s := newSession(t, func(l *Link) {
		l.AcceptSink(sinkFunc(func(uint32, []byte) *amqp.Error { n++; return nil }), Reply{})
	}, nil)
	sender, err := s.NewSender(within(t), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2*window + 1 {
		if err := sender.Send(within(t), goamqp.NewMessage(nil), nil); err != nil {
			t.Fatal(err)
		}
	}
	if n != 2*window+1 {
		t.Errorf("%d messages", n)
	}
}

func TestReceivingGoesOnAsTheWindowMoves(t *testing.T) {
	out := &store{}
	for range 3 * window {
		out.add(t, true, []byte("x"))
	}
	s := newSession(t, out.accept, nil)
	receiver, err := s.NewReceiver(within(t), "x", &goamqp.ReceiverOptions{Credit: 4 * window})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * window {
		if _, err := receiver.Receive(within(t), nil); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

func TestSettlementIsConfirmedOrRefused(t *testing.T) {
	out := &store{}
	out.add(t, false, []byte("1"), []byte("2"))
	s := newSession(t, out.accept, nil)
	receiver, err := s.NewReceiver(within(t), "x", &goamqp.ReceiverOptions{
		SettlementMode: goamqp.ReceiverSettleModeSecond.Ptr(), Credit: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []goamqp.ErrCond{"", "com.microsoft:message-lock-lost"} {
		if want != "" {
			out.mu.Lock()
			out.answer = amqp.State{Outcome: amqp.Rejected, Error: amqp.Errorf(amqp.Symbol(want), "lost")}
			out.mu.Unlock()
		}
		m, err := receiver.Receive(within(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := receiver.AcceptMessage(within(t), m); condition(err) != want {
			t.Errorf("accepting answers %v, want %q", err, want)
		}
	}
	if len(out.settled) != 2 || out.settled[0].Outcome != amqp.Accepted {
		t.Errorf("settled %+v", out.settled)
	}
}

func TestDrain(t *testing.T) {
	out := &store{}
	out.add(t, true, []byte("1"))
	s := newSession(t, out.accept, nil)
	receiver, err := s.NewReceiver(within(t), "x", &goamqp.ReceiverOptions{Credit: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.IssueCredit(10); err != nil {
		t.Fatal(err)
	}
	if _, err := receiver.Receive(within(t), nil); err != nil {
		t.Fatal(err)
	}
	if err := receiver.DrainCredit(within(t), nil); err != nil {
		t.Fatal(err)
	}
	out.mu.Lock()
	out.add(t, true, []byte("2"))
	out.mu.Unlock()
	out.link.Notify() // there is no credit
	if err := receiver.IssueCredit(1); err != nil {
		t.Fatal(err)
	}
	if m, err := receiver.Receive(within(t), nil); err != nil || string(m.GetData()) != "2" {
		t.Fatal(m, err)
	}
}

func TestServerDetaches(t *testing.T) {
	out := &store{}
	ended := 0
	s := newSession(t, func(l *Link) {
		l.OnDetach(func() { ended++ })
		out.accept(l)
	}, nil)
	receiver, err := s.NewReceiver(within(t), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	out.link.Detach(amqp.Errorf("com.microsoft:session-lock-lost", "over"))
	if _, err := receiver.Receive(within(t), nil); condition(err) != "com.microsoft:session-lock-lost" {
		t.Error(err)
	}
	out.link.Detach(nil)
	if ended != 1 {
		t.Errorf("OnDetach ran %d times", ended)
	}
	out.link.OnDetach(func() { ended++ })
	if ended != 2 {
		t.Error("OnDetach did not run at once on a link that has ended")
	}
	if _, err := s.NewReceiver(within(t), "x", nil); err != nil { // the session lives on
		t.Error(err)
	}
}

// A message taken for a link that ends before it is written goes back.
func TestUndelivered(t *testing.T) {
	out := &store{taking: make(chan struct{})}
	out.add(t, false, []byte("1"))
	s := newSession(t, out.accept, nil)
	if _, err := s.NewReceiver(within(t), "x", nil); err != nil {
		t.Fatal(err)
	}
	<-out.taking
	out.link.Detach(nil)
	out.taking <- struct{}{}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		out.mu.Lock()
		n := out.undelivered
		out.mu.Unlock()
		if n == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it was not given back")
		}
	}
}

// An attach that is never answered ends with the client's patience.
func TestClientGivesUpAttaching(t *testing.T) {
	ended := make(chan struct{})
	links := make(chan *Link, 1)
	s := newSession(t, func(l *Link) {
		l.OnDetach(func() { close(ended) })
		links <- l
	}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-links
		cancel()
	}()
	if _, err := s.NewReceiver(ctx, "x", nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	go func() { _ = s.Close(context.Background()) }()
	<-ended
}
