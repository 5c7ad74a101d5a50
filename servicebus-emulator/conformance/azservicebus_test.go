package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

// The tests of this file hold the emulator to the documentation of azservicebus v1.11.0. A comment in quotation marks is a
// sentence of it.

// bus is an emulator with a client and the context of one test.
type bus struct {
	*testing.T
	emulator *emu.Emulator
	client   *azservicebus.Client
	ctx      context.Context
}

func newBus(t *testing.T) *bus {
	t.Helper()
	e := start(t, namespace(), emu.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &bus{t, e, connect(t, e.ConnectionString()), ctx}
}

func (b *bus) sender(entity string) *azservicebus.Sender {
	b.Helper()
	s, err := b.client.NewSender(entity, nil)
	check(b, err)
	return s
}

func (b *bus) receiver(queue string, o *azservicebus.ReceiverOptions) *azservicebus.Receiver {
	b.Helper()
	r, err := b.client.NewReceiverForQueue(queue, o)
	check(b, err)
	return r
}

func (b *bus) send(queue string, bodies ...string) {
	b.Helper()
	s := b.sender(queue)
	for _, body := range bodies {
		check(b, s.SendMessage(b.ctx, &azservicebus.Message{Body: []byte(body)}, nil))
	}
}

type receiving interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
}

// receive gets exactly n messages.
func (b *bus) receive(r receiving, n int) []*azservicebus.ReceivedMessage {
	b.Helper()
	var all []*azservicebus.ReceivedMessage
	for len(all) < n {
		got, err := r.ReceiveMessages(b.ctx, n-len(all), nil)
		if err != nil {
			b.Fatalf("after %d of %d messages: %v", len(all), n, err)
		}
		all = append(all, got...)
	}
	return all
}

// none asserts that nothing comes.
func (b *bus) none(r receiving) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 200*time.Millisecond)
	defer cancel()
	if got, err := r.ReceiveMessages(ctx, 1, nil); len(got) > 0 || !errors.Is(err, context.DeadlineExceeded) {
		b.Fatalf("%d messages came, %v", len(got), err)
	}
}

func (b *bus) code(err error, want azservicebus.Code) {
	b.Helper()
	var sbErr *azservicebus.Error
	if !errors.As(err, &sbErr) || sbErr.Code != want {
		b.Fatalf("%v, want an azservicebus.Error with the code %s", err, want)
	}
}

func (b *bus) bodies(got []*azservicebus.ReceivedMessage, want ...string) {
	b.Helper()
	var have []string
	for _, m := range got {
		have = append(have, string(m.Body))
	}
	if strings.Join(have, ",") != strings.Join(want, ",") {
		b.Fatalf("got %q, want %q", have, want)
	}
}

func ptr[T any](v T) *T { return &v }

var deadLetters = &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}

// "SendMessage sends a Message to a queue or topic. If the operation fails it can return ErrMessageTooLarge if the message is
// larger than the maximum allowed link size."
func TestSendMessageTooLarge(t *testing.T) {
	b := newBus(t)
	s := b.sender("large")
	err := s.SendMessage(b.ctx, &azservicebus.Message{Body: make([]byte, 300<<10)}, nil)
	if !errors.Is(err, azservicebus.ErrMessageTooLarge) {
		t.Fatal(err)
	}
	check(t, s.SendMessage(b.ctx, &azservicebus.Message{Body: []byte("small")}, nil))
	b.bodies(b.receive(b.receiver("large", nil), 1), "small")
}

// "By default NewMessageBatch will use the max message size provided by the service." "The batch can still be used after this
// error if you have smaller messages you'd still like to add in."
func TestMessageBatch(t *testing.T) {
	b := newBus(t)
	s := b.sender("batch")
	batch, err := s.NewMessageBatch(b.ctx, nil)
	check(t, err)
	big := &azservicebus.Message{Body: make([]byte, 100<<10)}
	check(t, batch.AddMessage(big, nil))
	check(t, batch.AddMessage(big, nil))
	if err := batch.AddMessage(big, nil); !errors.Is(err, azservicebus.ErrMessageTooLarge) {
		t.Fatal(err)
	}
	check(t, batch.AddMessage(&azservicebus.Message{Body: []byte("small")}, nil))
	if batch.NumMessages() != 3 || batch.NumBytes() < 200<<10 || batch.NumBytes() > 256<<10 {
		t.Fatalf("%d messages, %d bytes", batch.NumMessages(), batch.NumBytes())
	}
	check(t, s.SendMessageBatch(b.ctx, batch, nil))
	got := b.receive(b.receiver("batch", nil), 3)
	b.bodies(got[2:], "small")

	limited, err := s.NewMessageBatch(b.ctx, &azservicebus.MessageBatchOptions{MaxBytes: 1000})
	check(t, err)
	if err := limited.AddMessage(big, nil); !errors.Is(err, azservicebus.ErrMessageTooLarge) || limited.NumMessages() != 0 {
		t.Fatal(err)
	}
}

// "This function will block until at least one message is received or until the ctx is cancelled." The number "is merely an
// upper bound".
func TestReceiveMessagesWaits(t *testing.T) {
	b := newBus(t)
	r := b.receiver("empty", nil)
	b.none(r)
	ctx, cancel := context.WithCancel(b.ctx)
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := r.ReceiveMessages(ctx, 1, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s := b.sender("empty")
	sent := make(chan error, 1)
	time.AfterFunc(100*time.Millisecond, func() { sent <- s.SendMessage(b.ctx, &azservicebus.Message{Body: []byte("1")}, nil) })
	got, err := r.ReceiveMessages(b.ctx, 10, nil)
	check(t, errors.Join(err, <-sent))
	b.bodies(got, "1")
}

// "TimeAfterFirstMessage controls how long, after a message has been received, before we return the accumulated batch."
func TestTimeAfterFirstMessage(t *testing.T) {
	b := newBus(t)
	r := b.receiver("empty", nil)
	s := b.sender("empty")
	check(t, s.SendMessage(b.ctx, &azservicebus.Message{Body: []byte("1")}, nil))
	sent := make(chan error, 1)
	time.AfterFunc(200*time.Millisecond, func() { sent <- s.SendMessage(b.ctx, &azservicebus.Message{Body: []byte("2")}, nil) })
	got, err := r.ReceiveMessages(b.ctx, 2, &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: patience})
	check(t, errors.Join(err, <-sent))
	b.bodies(got, "1", "2")
}

// "ReceiveModeReceiveAndDelete causes Service Bus to remove the message as soon as it's received." "When you've completely read
// all cached messages, ReceiveMessages returns an *Error with .Code == azservicebus.CodeClosed."
func TestReceiveAndDelete(t *testing.T) {
	b := newBus(t)
	b.send("delete", "1", "2", "3")
	r := b.receiver("delete", &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	got := b.receive(r, 1)
	if err := r.CompleteMessage(b.ctx, got[0], nil); err == nil {
		t.Fatal("a message of this mode was completed")
	}
	check(t, r.Close(b.ctx))
	for {
		more, err := r.ReceiveMessages(b.ctx, 10, nil)
		if err != nil {
			b.code(err, azservicebus.CodeClosed)
			break
		}
		got = append(got, more...)
	}
	left := b.receiver("delete", nil)
	for len(got) < 3 { // what the closed one had not asked for
		got = append(got, b.receive(left, 1)...)
	}
	b.none(left)
	b.bodies(got, "1", "2", "3")
}

// "CompleteMessage completes a message, deleting it from the queue or subscription." "AbandonMessage will cause a message to be
// available again. This will increment its delivery count, and potentially cause it to be dead-lettered."
func TestCompleteAndAbandon(t *testing.T) {
	b := newBus(t)
	b.send("exhausted", "complete", "abandon") // max delivery count 2
	r := b.receiver("exhausted", nil)
	got := b.receive(r, 2)
	check(t, r.CompleteMessage(b.ctx, got[0], nil))
	check(t, r.AbandonMessage(b.ctx, got[1], &azservicebus.AbandonMessageOptions{PropertiesToModify: map[string]any{"tried": int64(1)}}))
	again := b.receive(r, 1)[0]
	if string(again.Body) != "abandon" || again.DeliveryCount != got[1].DeliveryCount+1 || again.ApplicationProperties["tried"] != int64(1) {
		t.Fatalf("%s, delivery %d, %v", again.Body, again.DeliveryCount, again.ApplicationProperties)
	}
	check(t, r.AbandonMessage(b.ctx, again, nil))
	dead := b.receive(b.receiver("exhausted", deadLetters), 1)[0]
	if string(dead.Body) != "abandon" || *dead.DeadLetterReason != "MaxDeliveryCountExceeded" {
		t.Fatalf("%s: %s", dead.Body, *dead.DeadLetterReason)
	}
	b.none(r)
}

// ExampleReceiver_DeadLetterMessage, and the receiver that reads what it did.
func TestDeadLetterMessage(t *testing.T) {
	b := newBus(t)
	b.send("deadletter", "poison")
	r := b.receiver("deadletter", nil)
	check(t, r.DeadLetterMessage(b.ctx, b.receive(r, 1)[0], &azservicebus.DeadLetterOptions{
		ErrorDescription: ptr("exampleErrorDescription"), Reason: ptr("exampleReason"), PropertiesToModify: map[string]any{"by": "me"},
	}))
	dead := b.receiver("deadletter", deadLetters)
	m := b.receive(dead, 1)[0]
	if *m.DeadLetterReason != "exampleReason" || *m.DeadLetterErrorDescription != "exampleErrorDescription" || m.ApplicationProperties["by"] != "me" {
		t.Fatalf("%s, %s, %v", *m.DeadLetterReason, *m.DeadLetterErrorDescription, m.ApplicationProperties)
	}
	check(t, dead.CompleteMessage(b.ctx, m, nil))
	b.none(dead)
	b.none(r)
}

// Example_settleWithLockToken: "This allows you to settle on a separate Receiver instance, or even a Receiver instance in a
// completely separate process."
func TestSettleWithLockToken(t *testing.T) {
	b := newBus(t)
	b.send("complete", "1", "2", "3")
	got := b.receive(b.receiver("complete", nil), 3)
	elsewhere, err := connect(t, b.emulator.ConnectionString()).NewReceiverForQueue("complete", nil)
	check(t, err)
	only := func(i int) *azservicebus.ReceivedMessage {
		return &azservicebus.ReceivedMessage{LockToken: got[i].LockToken}
	}
	check(t, elsewhere.RenewMessageLock(b.ctx, only(0), nil))
	check(t, elsewhere.CompleteMessage(b.ctx, only(0), nil))
	check(t, elsewhere.DeadLetterMessage(b.ctx, only(1), nil))
	check(t, elsewhere.AbandonMessage(b.ctx, only(2), nil))
	b.bodies(b.receive(elsewhere, 1), "3")
	b.code(elsewhere.CompleteMessage(b.ctx, only(0), nil), azservicebus.CodeLockLost)
}

// Example_autoRenewLocks: "RenewMessageLock renews the lock on a message, updating the LockedUntil field on msg." "You get this
// error if your lock has expired or if you've settled the message."
func TestRenewMessageLock(t *testing.T) {
	b := newBus(t)
	b.send("renew", "slow") // lock duration 5 s, which is renewed often, so that a machine under load keeps it
	r := b.receiver("renew", nil)
	m := b.receive(r, 1)[0]
	first := *m.LockedUntil
	for time.Now().Before(first.Add(time.Second)) { // beyond the end of the first lock
		<-time.After(500 * time.Millisecond)
		check(t, r.RenewMessageLock(b.ctx, m, nil))
		if !m.LockedUntil.After(first) {
			t.Fatalf("locked until %s, before %s", m.LockedUntil, first)
		}
	}
	check(t, r.CompleteMessage(b.ctx, m, nil))
	b.code(r.RenewMessageLock(b.ctx, m, nil), azservicebus.CodeLockLost)
}

// "CodeLockLost means that the lock token you have for a message has expired. This message will be available again after the
// lock period expires."
func TestLockLost(t *testing.T) {
	b := newBus(t)
	b.send("lose", "late") // lock duration 1 s
	r := b.receiver("lose", nil)
	m := b.receive(r, 1)[0]
	<-time.After(time.Until(*m.LockedUntil) + 100*time.Millisecond)
	b.code(r.CompleteMessage(b.ctx, m, nil), azservicebus.CodeLockLost)
	again := b.receive(r, 1)[0]
	if again.DeliveryCount != m.DeliveryCount+1 {
		t.Fatalf("delivery %d after %d", again.DeliveryCount, m.DeliveryCount)
	}
	check(t, r.CompleteMessage(b.ctx, again, nil))
}

// "The Receiver stores the last peeked sequence number internally, and will use it as the start location for the next
// PeekMessages() call. You can override this behavior." "Messages that are peeked are not locked."
func TestPeekMessages(t *testing.T) {
	b := newBus(t)
	b.send("peek", "1", "2", "3")
	r := b.receiver("peek", nil)
	peek := func(n int, o *azservicebus.PeekMessagesOptions) []*azservicebus.ReceivedMessage {
		t.Helper()
		got, err := r.PeekMessages(b.ctx, n, o)
		check(t, err)
		return got
	}
	first := peek(2, nil)
	b.bodies(first, "1", "2")
	b.bodies(peek(2, nil), "3")
	b.bodies(peek(2, nil))
	b.bodies(peek(1, &azservicebus.PeekMessagesOptions{FromSequenceNumber: first[1].SequenceNumber}), "2")
	if first[0].State != azservicebus.MessageStateActive || first[0].LockedUntil != nil {
		t.Fatalf("a peeked message: state %d, locked until %v", first[0].State, first[0].LockedUntil)
	}
	// Completing it is not tried: the SDK panics.
	b.bodies(b.receive(r, 3), "1", "2", "3")
}

// ExampleSender_SendAMQPAnnotatedMessage and ExampleReceiver_ReceiveMessages_amqpMessage: "Every received message carries a
// RawAMQPMessage", with "all the various body encodings".
func TestAMQPAnnotatedMessage(t *testing.T) {
	b := newBus(t)
	s := b.sender("bodies")
	for _, body := range []azservicebus.AMQPAnnotatedMessageBody{
		{Value: "hello"},
		{Sequence: [][]any{{"a", int64(1)}, {"b"}}},
		{Data: [][]byte{[]byte("one"), []byte("two")}},
	} {
		check(t, s.SendAMQPAnnotatedMessage(b.ctx, &azservicebus.AMQPAnnotatedMessage{
			Body:                body,
			MessageAnnotations:  map[any]any{"x-opt-message-test": "test-annotation-value"},
			DeliveryAnnotations: map[any]any{"x-opt-delivery-test": "test-annotation-value"},
			Footer:              map[any]any{"footer": "f"},
			Properties:          &azservicebus.AMQPAnnotatedMessageProperties{MessageID: "m"},
		}, nil))
		m := b.receive(b.receiver("bodies", &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}), 1)[0]
		raw := m.RawAMQPMessage
		if fmt.Sprint(raw.Body) != fmt.Sprint(body) {
			t.Errorf("the body %v came as %v", body, raw.Body)
		}
		if raw.MessageAnnotations["x-opt-message-test"] != "test-annotation-value" || m.MessageID != "m" || raw.Footer["footer"] != "f" {
			t.Errorf("annotations %v, id %s, footer %v", raw.MessageAnnotations, m.MessageID, raw.Footer)
		}
	}
}

// A message without an id has one when it is received: ReceivedMessage.MessageID is no pointer, and clients key on it.
func TestMessagesHaveIDs(t *testing.T) {
	b := newBus(t)
	s := b.sender("properties")
	for _, m := range []*azservicebus.Message{
		{Body: []byte("1")},
		{Body: []byte("2"), Subject: ptr("s"), ContentType: ptr("text/plain"), SessionID: ptr("session"), ReplyToSessionID: ptr("r")},
	} {
		check(t, s.SendMessage(b.ctx, m, nil))
	}
	got := b.receive(b.receiver("properties", nil), 2)
	if len(got[0].MessageID) != 32 || len(got[1].MessageID) != 32 || got[0].MessageID == got[1].MessageID {
		t.Fatalf("ids %q, %q", got[0].MessageID, got[1].MessageID)
	}
	if *got[1].Subject != "s" || *got[1].ContentType != "text/plain" || *got[1].SessionID != "session" || *got[1].ReplyToSessionID != "r" {
		t.Fatalf("%+v", got[1])
	}
}

// "CodeNotFound means the entity you're attempting to connect to doesn't exist."
func TestNotFound(t *testing.T) {
	b := newBus(t)
	b.code(b.sender("ghost").SendMessage(b.ctx, &azservicebus.Message{}, nil), azservicebus.CodeNotFound)
	_, err := b.receiver("ghost", nil).ReceiveMessages(b.ctx, 1, nil)
	b.code(err, azservicebus.CodeNotFound)
	_, err = b.client.AcceptSessionForSubscription(b.ctx, "orders", "ghost", "a", nil)
	b.code(err, azservicebus.CodeNotFound)
	_, err = b.client.AcceptNextSessionForQueue(b.ctx, "ghost", nil)
	b.code(err, azservicebus.CodeNotFound)
}

// "CodeUnauthorizedAccess means the credentials provided are not valid for use with a particular entity, or have expired."
func TestUnauthorizedAccess(t *testing.T) {
	e := start(t, namespace(), emu.Options{Keys: map[string]string{"name": "right"}})
	b := &bus{T: t, ctx: t.Context(), client: connect(t, strings.Replace(e.ConnectionString(), "right", "wrong", 1))}
	b.code(b.sender("empty").SendMessage(b.ctx, &azservicebus.Message{}, nil), azservicebus.CodeUnauthorizedAccess)
	check(t, (&bus{T: t, ctx: t.Context(), client: connect(t, e.ConnectionString())}).sender("empty").SendMessage(t.Context(), &azservicebus.Message{}, nil))
}

// "CodeClosed means the link or connection for this sender/receiver has been closed."
func TestClosed(t *testing.T) {
	b := newBus(t)
	r := b.receiver("empty", nil)
	b.none(r)
	check(t, r.Close(b.ctx))
	_, err := r.ReceiveMessages(b.ctx, 1, nil)
	b.code(err, azservicebus.CodeClosed)
	s := b.sender("empty")
	check(t, s.SendMessage(b.ctx, &azservicebus.Message{}, nil))
	check(t, s.Close(b.ctx))
	b.code(s.SendMessage(b.ctx, &azservicebus.Message{}, nil), azservicebus.CodeClosed)
}

// ExampleClient_AcceptSessionForQueue: "session receivers work just like non-session receivers with one difference - instead of
// a lock per message there is a lock for the session itself." "The new expiration time is available using LockedUntil."
func TestAcceptSession(t *testing.T) {
	b := newBus(t)
	s := b.sender("sessions")
	for _, m := range []struct{ session, body string }{{"a", "1"}, {"b", "other"}, {"a", "2"}} {
		check(t, s.SendMessage(b.ctx, &azservicebus.Message{SessionID: &m.session, Body: []byte(m.body)}, nil))
	}
	r, err := b.client.AcceptSessionForQueue(b.ctx, "sessions", "a", nil)
	check(t, err)
	first := r.LockedUntil()
	<-time.After(20 * time.Millisecond)
	check(t, r.RenewSessionLock(b.ctx, nil))
	if r.SessionID() != "a" || !r.LockedUntil().After(first) {
		t.Fatalf("session %s, locked until %s, before %s", r.SessionID(), r.LockedUntil(), first)
	}
	got := b.receive(r, 2)
	b.bodies(got, "1", "2")
	check(t, r.CompleteMessage(b.ctx, got[0], nil))
	check(t, r.DeadLetterMessage(b.ctx, got[1], nil))
	b.none(r)
	check(t, r.Close(b.ctx))
	dead := b.receive(b.receiver("sessions", deadLetters), 1)
	b.bodies(dead, "2")
	if *dead[0].SessionID != "a" {
		t.Fatal(*dead[0].SessionID)
	}
}

// ExampleClient_AcceptNextSessionForQueue_roundrobin: "You can have multiple active session receivers, provided they're each
// receiving from different sessions." Without one: "it will eventually time out and return an *azservicebus.Error with this code."
func TestAcceptNextSession(t *testing.T) {
	b := newBus(t)
	s := b.sender("next")
	want := map[string]bool{"a": true, "b": true, "c": true}
	for session := range want {
		check(t, s.SendMessage(b.ctx, &azservicebus.Message{SessionID: &session, Body: []byte(session)}, nil))
	}
	for len(want) > 0 {
		r, err := b.client.AcceptNextSessionForQueue(b.ctx, "next", nil)
		check(t, err)
		if !want[r.SessionID()] {
			t.Fatalf("session %s came twice", r.SessionID())
		}
		delete(want, r.SessionID())
		b.bodies(b.receive(r, 1), r.SessionID())
	}
	// The client tells the service a hundredth less than its own patience, so on a machine under load it may give up first.
	for wait := 500 * time.Millisecond; ; wait *= 2 {
		ctx, cancel := context.WithTimeout(b.ctx, wait)
		_, err := b.client.AcceptNextSessionForQueue(ctx, "next", nil)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && b.ctx.Err() == nil {
			continue
		}
		b.code(err, azservicebus.CodeTimeout)
		return
	}
}

// ExampleClient_NewReceiverForSubscription: every subscription gets its own copy of what its rules select.
func TestSubscriptions(t *testing.T) {
	b := newBus(t)
	s := b.sender("orders")
	for body, properties := range map[string]map[string]any{"red": {"colour": "red"}, "blue": {"colour": "blue"}} {
		check(t, s.SendMessage(b.ctx, &azservicebus.Message{Body: []byte(body), ApplicationProperties: properties}, nil))
	}
	all, err := b.client.NewReceiverForSubscription("orders", "all", nil)
	check(t, err)
	red, err := b.client.NewReceiverForSubscription("orders", "red", nil)
	check(t, err)
	b.receive(all, 2)
	b.bodies(b.receive(red, 1), "red")
	b.none(red)
}
