package broker

import (
	"testing"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

func TestOperatorSeesMessagesWithoutUsingTheQueue(t *testing.T) {
	b := setUp(t, QueueSettings{})
	c := b.consume()
	b.send(draft{body: "a"}, draft{body: "b"}, draft{body: "c"})
	taken := b.expect(c, "a", "b", "c")
	b.ok(b.queue.Defer(taken[0].Token, nil))
	b.ok(b.queue.Release(taken[2].Token))
	used := b.queue.used.time()
	b.clock.advance(10 * time.Second)
	seen := b.queue.Look(0, 10)
	if len(seen) != 3 || !seen[0].Deferred || seen[1].LockedUntil.IsZero() || !seen[2].LockedUntil.IsZero() || seen[2].Deferred {
		t.Errorf("%+v", seen)
	}
	if page := b.queue.Look(2, 1); len(page) != 1 || page[0].Sequence != 2 {
		t.Errorf("%+v", page)
	}
	if got := b.queue.used.time(); !got.Equal(used) {
		t.Errorf("looking used the queue at %s", got)
	}
}

// An operator deletes what waits or is deferred, and leaves to a receiver what it has locked.
func TestOperatorDeletesOneMessage(t *testing.T) {
	b := setUp(t, QueueSettings{})
	c := b.consume()
	b.send(draft{body: "a"}, draft{body: "b"}, draft{body: "c"})
	taken, _ := c.Take(nil, 2, 1<<20)
	b.ok(b.queue.Defer(taken[0].Token, nil))
	b.fails(b.queue.DeleteMessage(2), amqp.ErrNotAllowed)
	b.ok(b.queue.DeleteMessage(1))
	b.ok(b.queue.DeleteMessage(3))
	b.fails(b.queue.DeleteMessage(3), ErrMessageNotFound)
	b.counts(Counts{Active: 1, Locked: 1})
	b.ok(b.queue.Complete(taken[1].Token))
	b.counts(Counts{})
	b.expect(c)
	if used := b.queue.quota.used.Load(); used != 0 {
		t.Errorf("%d bytes are counted", used)
	}
}

// What is moved out of the dead-letter queue is a new message with the old content.
func TestOperatorMovesADeadLetterBack(t *testing.T) {
	b := setUp(t, QueueSettings{MaxDeliveryCount: 1})
	c := b.consume()
	b.send(draft{body: "a"}, draft{body: "b"})
	taken := b.expect(c, "a", "b")
	b.ok(b.queue.DeadLetter(taken[0].Token, "why", "because", amqp.Map{{Key: "kept", Value: "yes"}}))
	b.ok(b.queue.Complete(taken[1].Token))
	b.ok(b.queue.Resubmit(1))
	b.fails(b.queue.Resubmit(1), ErrMessageNotFound)
	b.fails(b.queue.deadLetter.Resubmit(1), amqp.ErrNotAllowed)
	b.counts(Counts{Active: 1})
	seen := b.queue.Look(0, 10)
	if len(seen) != 1 || seen[0].Sequence != 3 || seen[0].DeliveryCount != 0 {
		t.Fatalf("%+v", seen)
	}
	if kept, _ := seen[0].Application.Get("kept"); kept != "yes" || len(seen[0].Application) != 1 {
		t.Errorf("%v", seen[0].Application)
	}
	b.ok(b.queue.Complete(b.expect(c, "a")[0].Token))
	if used := b.queue.quota.used.Load(); used != 0 {
		t.Errorf("%d bytes are counted", used)
	}
}

// A session that has nothing left is forgotten, and is offered to no receiver.
func TestOperatorDeletesTheLastMessageOfASession(t *testing.T) {
	b := sessions(t)
	b.send(draft{body: "1", session: "x"}, draft{body: "2", session: "y"})
	b.ok(b.queue.DeleteMessage(1))
	if ids := b.queue.Sessions(time.Time{}); len(ids) != 1 || ids[0] != "y" {
		t.Errorf("sessions %q", ids)
	}
	accepted := ""
	b.queue.AcceptNextSession(time.Minute, ConsumerOptions{}, func(c *Consumer, err *amqp.Error) {
		b.ok(err)
		accepted = c.SessionID()
	})
	if accepted != "y" {
		t.Errorf("session %q was accepted", accepted)
	}
}
