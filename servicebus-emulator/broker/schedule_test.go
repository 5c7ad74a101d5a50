package broker

import (
	"testing"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// onQueue is a bench whose "topic" is a queue "q".
func onQueue(t *testing.T, s QueueSettings) *bench {
	t.Helper()
	clock := newFakeClock()
	b := New(clock)
	if err := b.PutQueue("q", s); err != nil {
		t.Fatal(err)
	}
	return &bench{T: t, broker: b, clock: clock, topic: b.Destination("q"), queue: b.Queue("q")}
}

func TestScheduledMessageIsDeliveredAtItsTime(t *testing.T) {
	b := onQueue(t, QueueSettings{})
	c := b.consume()
	b.expect(c)
	b.send(draft{body: "later", at: b.clock.Now().Add(30 * time.Second), ttl: time.Minute}, draft{body: "now"},
		draft{body: "past", at: b.clock.Now().Add(-time.Minute)})
	b.expect(c, "now", "past")
	b.counts(Counts{Active: 2, Locked: 2, Scheduled: 1})
	if d := b.queue.Peek(0, 10, 1<<20, nil); len(d) != 3 || b.body(&d[0]) != "later" || d[0].state != scheduled {
		t.Fatalf("peeked %+v", d)
	}
	b.clock.advance(29 * time.Second)
	b.expect(c)
	b.clock.advance(time.Second)
	d := b.expect(c, "later")[0]
	if !d.message.enqueuedAt.Equal(b.clock.Now()) || d.SequenceNumber() != 4 {
		t.Errorf("enqueued at %s as %d", d.message.enqueuedAt, d.SequenceNumber())
	}
	if want := b.clock.Now().Add(time.Minute); !d.message.expiresAt.Equal(want) {
		t.Errorf("it expires at %s, want %s", d.message.expiresAt, want)
	}
	b.ok(b.queue.Complete(d.Token))
	b.counts(Counts{Active: 2, Locked: 2})
}

func TestScheduleAndCancel(t *testing.T) {
	for name, b := range map[string]*bench{"queue": onQueue(t, QueueSettings{}), "topic": setUp(t, QueueSettings{})} {
		at := b.clock.Now().Add(time.Hour)
		sequences, err := b.topic.Schedule([][]byte{draft{body: "1", at: at}.encode(), draft{body: "2", at: at}.encode()})
		b.ok(err)
		if b.topic.hold.Counts().Scheduled != 2 {
			t.Fatalf("%s: %+v", name, b.topic.hold.Counts())
		}
		b.ok(b.topic.CancelScheduled(sequences[:1]))
		b.fails(b.topic.CancelScheduled(sequences), ErrMessageNotFound) // all or none
		b.clock.advance(time.Hour)
		b.fails(b.topic.CancelScheduled(sequences[1:]), ErrMessageNotFound)
		d := b.expect(b.consume(), "2")
		b.ok(b.queue.Complete(d[0].Token))
		if used := b.topic.quota.used.Load(); used != 0 {
			t.Errorf("%s: %d bytes used", name, used)
		}
	}
}

func TestScheduleRefuses(t *testing.T) {
	b := onQueue(t, QueueSettings{MaxMessageSize: 1000, RequiresSession: true})
	at := b.clock.Now().Add(time.Hour)
	_, err := b.topic.Schedule([][]byte{draft{body: "x"}.encode()})
	b.fails(err, amqp.ErrInvalidField)
	_, err = b.topic.Schedule([][]byte{draft{body: string(make([]byte, 1000)), at: at}.encode()})
	b.fails(err, amqp.ErrMessageSizeExceeded)
	_, err = b.topic.Schedule([][]byte{draft{body: "x", at: at}.encode()})
	b.fails(err, amqp.ErrNotAllowed)
	m, mark := amqp.BeginAnnotations(nil)
	m = amqp.EndAnnotations(amqp.AppendValue(amqp.AppendSymbolKey(m, scheduledAnnotation), "soon"), mark, 2)
	b.fails(b.topic.Publish(amqp.AppendValueSection(m, "x")), amqp.ErrInvalidField)
}

func TestDeferral(t *testing.T) {
	b := setUp(t, QueueSettings{MaxDeliveryCount: 3})
	c := b.consume()
	b.send(draft{body: "1", ttl: time.Hour}, draft{body: "2"})
	taken := b.expect(c, "1", "2")
	b.ok(b.queue.Defer(taken[0].Token, amqp.Map{{Key: "k", Value: "v"}}))
	b.ok(b.queue.Complete(taken[1].Token))
	b.expect(c)
	b.counts(Counts{Deferred: 1})
	_, err := b.queue.ReceiveDeferred([]int64{1, 2}, false, "")
	b.fails(err, ErrMessageNotFound)
	lock := func() Delivery {
		d, err := b.queue.ReceiveDeferred([]int64{1, 1}, false, "")
		b.ok(err)
		if len(d) != 1 || b.body(&d[0]) != "1" {
			t.Fatalf("received %+v", d)
		}
		return d[0]
	}
	d := lock()
	_, err = b.queue.ReceiveDeferred([]int64{1}, false, "")
	b.fails(err, ErrMessageNotFound)
	b.clock.advance(time.Minute) // its lock lapses, and it stays deferred
	b.counts(Counts{Deferred: 1})
	b.fails(b.queue.Complete(d.Token), ErrMessageLockLost)
	b.ok(b.queue.Abandon(lock().Token, nil))
	b.counts(Counts{Deferred: 1})
	b.expect(c)
	d = lock()
	if d.DeliveryCount() != 2 {
		t.Errorf("delivery count %d", d.DeliveryCount())
	}
	b.ok(b.queue.Defer(d.Token, nil))
	b.ok(b.queue.DeadLetter(lock().Token, "why", "", nil))
	b.counts(Counts{DeadLetter: 1})
}

func TestDeferredMessageExpiresWhenAskedFor(t *testing.T) {
	b := setUp(t, QueueSettings{DeadLetterOnExpiration: true})
	c := b.consume()
	b.send(draft{body: "1", ttl: time.Hour}, draft{body: "2"})
	for _, d := range b.expect(c, "1", "2") {
		b.ok(b.queue.Defer(d.Token, nil))
	}
	b.clock.advance(2 * time.Hour)
	b.counts(Counts{Deferred: 2})
	_, err := b.queue.ReceiveDeferred([]int64{1}, true, "")
	b.fails(err, ErrMessageNotFound)
	b.counts(Counts{Deferred: 1, DeadLetter: 1})
	d, err := b.queue.ReceiveDeferred([]int64{2}, true, "")
	b.ok(err)
	if len(d) != 1 || d[0].Token != (amqp.UUID{}) {
		t.Errorf("received %+v", d)
	}
	b.counts(Counts{DeadLetter: 1})
}

func TestDeferredMessageOfASessionNeedsItsLock(t *testing.T) {
	b := sessions(t)
	b.send(draft{body: "1", session: "x"})
	c := b.accept("x")
	b.ok(b.queue.Defer(b.expect(c, "1")[0].Token, nil))
	c.Close()
	b.counts(Counts{Deferred: 1})
	_, err := b.queue.ReceiveDeferred([]int64{1}, false, "")
	b.fails(err, ErrSessionLockLost)
	c = b.accept("x")
	_, err = b.queue.ReceiveDeferred([]int64{1}, false, "another link")
	b.fails(err, ErrSessionLockLost)
	d, err := b.queue.ReceiveDeferred([]int64{1}, false, "link")
	b.ok(err)
	c.Close() // takes the lock on the message along
	b.fails(b.queue.Complete(d[0].Token), ErrMessageLockLost)
	c = b.accept("x")
	d, err = b.queue.ReceiveDeferred([]int64{1}, false, "link")
	b.ok(err)
	b.ok(b.queue.Complete(d[0].Token))
	c.Close()
	b.counts(Counts{})
	if len(b.queue.sessions) != 0 {
		t.Error("the session is kept without need")
	}
}

func TestSessionState(t *testing.T) {
	b := sessions(t)
	b.fails(b.queue.SetSessionState("x", "", []byte("s")), ErrSessionLockLost)
	c := b.accept("x")
	b.fails(b.queue.SetSessionState("x", "another link", []byte("s")), ErrSessionLockLost)
	b.ok(b.queue.SetSessionState("x", "link", []byte("state")))
	c.Close()
	b.send(draft{body: "1", session: "y"})
	if got := b.queue.Sessions(time.Time{}); len(got) != 2 || got[0] != "x" || got[1] != "y" {
		t.Fatalf("sessions %q", got)
	}
	now := b.clock.Now()
	if got := b.queue.Sessions(now.Add(-time.Second)); len(got) != 1 || len(b.queue.Sessions(now)) != 0 {
		t.Fatalf("sessions whose state was set: %q", got)
	}
	c = b.accept("x")
	if got, err := b.queue.SessionState("x", "link"); err != nil || string(got) != "state" {
		t.Fatalf("state %q, %v", got, err)
	}
	b.fails(b.queue.SetSessionState("x", "", make([]byte, 2<<20)), amqp.ErrResourceLimitExceeded)
	b.ok(b.queue.SetSessionState("x", "", nil))
	c.Close()
	if got := b.queue.Sessions(time.Time{}); len(got) != 1 || len(b.queue.sessions) != 1 {
		t.Errorf("sessions %q after the state was cleared", got)
	}
	_, err := b.queue.SessionState("x", "")
	b.fails(err, ErrSessionLockLost)
}

func TestExpiredDeferredMessageLeavesNoSession(t *testing.T) {
	b := setUp(t, QueueSettings{RequiresSession: true})
	c, err := b.queue.AcceptSession("x", ConsumerOptions{})
	b.ok(err)
	b.send(draft{body: "1", session: "x", ttl: time.Minute})
	d := b.expect(c, "1")[0]
	b.ok(b.queue.Defer(d.Token, nil))
	c.Close()
	b.clock.advance(time.Minute)
	_, err = b.queue.ReceiveDeferred([]int64{d.SequenceNumber()}, false, "")
	b.fails(err, ErrMessageNotFound)
	if len(b.queue.sessions) != 0 {
		t.Errorf("sessions %v are left", b.queue.sessions)
	}
}
