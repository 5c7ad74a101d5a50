package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

func sessions(t *testing.T) *bench { return setUp(t, QueueSettings{RequiresSession: true}) }

func (b *bench) accept(id string) *Consumer {
	b.Helper()
	c, err := b.queue.AcceptSession(id, ConsumerOptions{Name: "link", Notify: func() { b.wakes++ }})
	b.ok(err)
	return c
}

func TestSessionIsExclusive(t *testing.T) {
	b := sessions(t)
	c := b.accept("x")
	b.send(draft{body: "1", session: "x"}, draft{body: "2", session: "y"}, draft{body: "3", session: "x"})
	b.expect(c, "1", "3")
	_, err := b.queue.AcceptSession("x", ConsumerOptions{})
	b.fails(err, ErrSessionCannotBeHeld)
	c.Close()
	b.counts(Counts{Active: 3})
	again := b.expect(b.accept("x"), "1", "3")
	if again[0].DeliveryCount() != 0 {
		t.Error("closing a session counts as a delivery")
	}
}

func TestSessionLockExpires(t *testing.T) {
	b := sessions(t)
	var lost *amqp.Error
	c, err := b.queue.AcceptSession("x", ConsumerOptions{Lost: func(reason *amqp.Error) { lost = reason }})
	b.ok(err)
	b.send(draft{body: "1", session: "x"})
	d := b.expect(c, "1")[0]
	b.clock.advance(50 * time.Second)
	until, err := b.queue.RenewSession("x", "")
	b.ok(err)
	if !until.Equal(b.clock.Now().Add(time.Minute)) {
		t.Errorf("renewed until %s", until)
	}
	b.clock.advance(59 * time.Second)
	if lost != nil {
		t.Fatal("lost although renewed")
	}
	b.clock.advance(time.Second)
	b.fails(lost, ErrSessionLockLost)
	b.fails(b.queue.Complete(d.Token), ErrMessageLockLost)
	_, err = b.queue.RenewSession("x", "")
	b.fails(err, ErrSessionLockLost)
	b.expect(c) // takes nothing any more
	if again := b.expect(b.accept("x"), "1")[0]; again.DeliveryCount() != 1 {
		t.Errorf("delivery count %d after the session's lock expired", again.DeliveryCount())
	}
}

func TestOnlyTheHolderRenewsASession(t *testing.T) {
	b := sessions(t)
	b.accept("x")
	_, err := b.queue.RenewSession("x", "another link")
	b.fails(err, ErrSessionLockLost)
	_, err = b.queue.RenewSession("x", "link")
	b.ok(err)
	_, err = b.queue.RenewSession("unknown", "link")
	b.fails(err, ErrSessionLockLost)
}

func TestAcceptNextSession(t *testing.T) {
	b := sessions(t)
	var got []string
	next := func() func() {
		return b.queue.AcceptNextSession(time.Minute, ConsumerOptions{}, func(c *Consumer, err *amqp.Error) {
			if err != nil {
				got = append(got, string(err.Condition))
				return
			}
			got = append(got, c.SessionID())
		})
	}
	b.send(draft{body: "1", session: "x"}, draft{body: "2", session: "y"})
	next()
	next()
	cancel := next()
	next()
	cancel()
	if fmt.Sprint(got) != "[x y]" {
		t.Fatalf("got %v", got)
	}
	b.send(draft{body: "3", session: "z"}) // for who still waits
	next()
	b.clock.advance(59 * time.Second)
	if fmt.Sprint(got) != "[x y z]" {
		t.Fatalf("got %v", got)
	}
	b.clock.advance(time.Second)
	// The locks of x and y end at the same time: the wait gets x or a timeout, never both nor none.
	if len(got) != 4 {
		t.Fatalf("got %v", got)
	}
	b.clock.advance(time.Hour)
	if len(got) != 4 {
		t.Fatalf("got %v", got)
	}
}

func TestSessionWithoutMessagesIsForgotten(t *testing.T) {
	b := sessions(t)
	for i := range 10 {
		id := fmt.Sprint(i)
		c := b.accept(id)
		b.send(draft{body: "1", session: id, ttl: time.Second})
		b.ok(b.queue.Complete(b.expect(c, "1")[0].Token))
		c.Close()
		b.send(draft{body: "2", session: id, ttl: time.Second})
	}
	if len(b.queue.sessions) != 10 {
		t.Fatalf("%d sessions", len(b.queue.sessions))
	}
	b.clock.advance(time.Second)
	if len(b.queue.sessions) != 0 || b.queue.free.head != nil || len(b.queue.dues.items) != 0 {
		t.Errorf("%d sessions, %d deadlines are left", len(b.queue.sessions), len(b.queue.dues.items))
	}
}

func TestMessageWithoutSession(t *testing.T) {
	b := sessions(t)
	b.send(draft{body: "1"})
	if got := b.deadLetters(); len(got) != 1 || got[0][0] != "Session id is null." {
		t.Errorf("dead letters %q", got)
	}
	broker := New(b.clock)
	if err := broker.AddQueue(QueueSettings{
		Name: "q", LockDuration: time.Minute, MaxDeliveryCount: 1, RequiresSession: true, MaxSize: 1 << 20,
	}); err != nil {
		t.Fatal(err)
	}
	b.fails(broker.Destination("q").Publish(draft{body: "1"}.encode()), amqp.ErrNotAllowed)
}

func TestOwnerIsWoken(t *testing.T) {
	b := sessions(t)
	c := b.accept("x")
	b.expect(c)
	b.send(draft{body: "1", session: "y"})
	if b.wakes != 0 {
		t.Error("woken for another session")
	}
	b.send(draft{body: "1", session: "x"}, draft{body: "2", session: "x"})
	if b.wakes != 1 {
		t.Errorf("woken %d times", b.wakes)
	}
	b.expect(c, "1", "2")
}
