package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

func TestLockExpiryRedelivers(t *testing.T) {
	b := setUp(t, QueueSettings{})
	c := b.consume()
	b.send(draft{body: "a"}, draft{body: "b"})
	first := b.expect(c, "a", "b")
	b.ok(b.queue.Complete(first[1].Token))
	b.clock.advance(59 * time.Second)
	b.expect(c)
	b.counts(Counts{Active: 1, Locked: 1})
	b.clock.advance(time.Second)
	b.counts(Counts{Active: 1})
	b.fails(b.queue.Complete(first[0].Token), ErrMessageLockLost)
	again := b.expect(c, "a")
	if again[0].DeliveryCount() != 1 || again[0].SequenceNumber() != 1 || again[0].Token == first[0].Token {
		t.Errorf("again: delivery %d of message %d", again[0].DeliveryCount(), again[0].SequenceNumber())
	}
}

func TestRenewExtendsALock(t *testing.T) {
	b := setUp(t, QueueSettings{})
	c := b.consume()
	b.send(draft{body: "a"})
	d := b.expect(c, "a")[0]
	for range 5 {
		b.clock.advance(50 * time.Second)
		until, err := b.queue.Renew(d.Token)
		b.ok(err)
		if want := b.clock.Now().Add(time.Minute); !until.Equal(want) {
			t.Fatalf("renewed until %s, want %s", until, want)
		}
	}
	b.ok(b.queue.Complete(d.Token))
	_, err := b.queue.Renew(d.Token)
	b.fails(err, ErrMessageLockLost)
	b.counts(Counts{})
}

// A lock that is over is over, even if the timer has not said so yet.
func TestExpiredLockIsLostBeforeItsTimer(t *testing.T) {
	b := setUp(t, QueueSettings{})
	c := b.consume()
	b.send(draft{body: "a"})
	d := b.expect(c, "a")[0]
	b.clock.now = b.clock.now.Add(time.Minute) // no timer runs
	b.fails(b.queue.Complete(d.Token), ErrMessageLockLost)
	b.expect(c, "a")
}

func TestMaxDeliveryCountDeadLetters(t *testing.T) {
	b := setUp(t, QueueSettings{MaxDeliveryCount: 3})
	c := b.consume()
	b.send(draft{body: "a"}, draft{body: "b"})
	for n := range 3 {
		taken := b.expect(c, "a", "b")
		if taken[0].DeliveryCount() != uint32(n) {
			t.Fatalf("delivery count %d, want %d", taken[0].DeliveryCount(), n)
		}
		b.ok(b.queue.Abandon(taken[0].Token, nil))
		b.clock.advance(time.Minute) // the lock of the other expires
	}
	b.expect(c)
	b.counts(Counts{DeadLetter: 2})
	for _, d := range b.deadLetters() {
		if d[0] != "MaxDeliveryCountExceeded" || d[1] == "" {
			t.Errorf("dead-lettered as %q", d)
		}
	}
	// In the dead-letter queue nothing is dead-lettered again.
	dead := b.queue.deadLetter.Consume(ConsumerOptions{})
	for range 5 {
		taken, _ := dead.Take(nil, 10, 1<<20)
		if len(taken) != 2 {
			t.Fatalf("%d messages in the dead-letter queue", len(taken))
		}
		if n := taken[0].DeliveryCount(); n != 3 {
			t.Errorf("delivery count %d in the dead-letter queue, want that of the message when it came", n)
		}
		b.ok(b.queue.deadLetter.Abandon(taken[0].Token, nil))
		b.fails(b.queue.deadLetter.DeadLetter(taken[1].Token, "", "", nil), amqp.ErrNotAllowed)
		b.ok(b.queue.deadLetter.Release(taken[1].Token))
	}
}

func TestDeadLetterKeepsReasonAndProperties(t *testing.T) {
	b := setUp(t, QueueSettings{})
	c := b.consume()
	b.send(draft{body: "a"})
	d := b.expect(c, "a")[0]
	b.ok(b.queue.DeadLetter(d.Token, "why", "because", amqp.Map{
		{Key: amqp.Symbol("k"), Value: int32(1)}, {Key: amqp.Symbol("DeadLetterReason"), Value: int32(1)},
	}))
	if got := b.deadLetters(); len(got) != 1 || got[0] != [2]string{"why", "because"} {
		t.Errorf("dead letters %q", got)
	}
	b.fails(b.queue.DeadLetter(d.Token, "", "", nil), ErrMessageLockLost)
}

func TestReleaseCountsNoDelivery(t *testing.T) {
	b := setUp(t, QueueSettings{MaxDeliveryCount: 1})
	c := b.consume()
	b.send(draft{body: "a"}, draft{body: "b"})
	for range 5 {
		taken := b.expect(c, "a", "b") // in order, whatever order they come back in
		b.ok(b.queue.Release(taken[1].Token))
		b.ok(b.queue.Release(taken[0].Token))
	}
}

func TestExpiry(t *testing.T) {
	for _, deadLetter := range []bool{false, true} {
		t.Run(fmt.Sprint("dead-letter ", deadLetter), func(t *testing.T) {
			b := setUp(t, QueueSettings{DefaultTTL: time.Minute, LockDuration: 5 * time.Minute, DeadLetterOnExpiration: deadLetter})
			c := b.consume()
			b.send(draft{body: "short", ttl: time.Second}, draft{body: "long", ttl: time.Hour}, draft{body: "default"})
			b.clock.advance(time.Second)
			b.counts(Counts{Active: 2, DeadLetter: dead(deadLetter, 1)})
			taken := b.expect(c, "long", "default")
			b.clock.advance(2 * time.Minute) // what is locked does not expire ...
			b.counts(Counts{Active: 2, Locked: 2, DeadLetter: dead(deadLetter, 1)})
			b.ok(b.queue.Complete(taken[0].Token))
			b.ok(b.queue.Abandon(taken[1].Token, nil)) // ... until it is given back
			b.counts(Counts{DeadLetter: dead(deadLetter, 2)})
			for _, d := range b.deadLetters() {
				if d[0] != "TTLExpiredException" {
					t.Errorf("dead-lettered as %q", d)
				}
			}
			if used := b.queue.quota.used.Load(); (used == 0) == deadLetter {
				t.Errorf("%d bytes used", used)
			}
		})
	}
}

func dead(yes bool, n int) int {
	if yes {
		return n
	}
	return 0
}

func TestConsumersTakeTurns(t *testing.T) {
	b := setUp(t, QueueSettings{})
	var woken []string
	consumer := func(name string) *Consumer {
		return b.queue.Consume(ConsumerOptions{Name: name, Notify: func() { woken = append(woken, name) }})
	}
	x, y := consumer("x"), consumer("y")
	b.expect(x)
	b.expect(y)
	b.send(draft{body: "1"})
	b.expect(x, "1")
	b.send(draft{body: "2"})
	b.expect(y, "2")
	if fmt.Sprint(woken) != "[x y]" {
		t.Fatalf("woken %v", woken)
	}
	// One that cannot take what it was woken for passes it on.
	b.expect(x)
	b.expect(y)
	b.send(draft{body: "3"})
	x.Take(nil, 0, 0)
	if fmt.Sprint(woken) != "[x y x y]" {
		t.Fatalf("woken %v", woken)
	}
	b.expect(y, "3")
	// So does one that closes.
	b.expect(x)
	b.send(draft{body: "4"})
	y.Close()
	if fmt.Sprint(woken) != "[x y x y y x]" {
		t.Fatalf("woken %v", woken)
	}
	b.expect(y)
	b.expect(x, "4")
}

func TestTakeIsBoundedByNumberAndBytes(t *testing.T) {
	b := setUp(t, QueueSettings{})
	c := b.consume()
	for range 5 {
		b.send(draft{body: "x"})
	}
	taken, more := c.Take(nil, 2, 1<<20)
	if len(taken) != 2 || !more {
		t.Fatalf("took %d, more %v", len(taken), more)
	}
	taken, more = c.Take(nil, 100, 1) // at least one, or nothing would ever come
	if len(taken) != 1 || !more {
		t.Fatalf("took %d, more %v", len(taken), more)
	}
	taken, more = c.Take(nil, 100, 1<<20)
	if len(taken) != 2 || more {
		t.Fatalf("took %d, more %v", len(taken), more)
	}
}

func TestUndeliveredComesBackFirst(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		b := setUp(t, QueueSettings{MaxDeliveryCount: 1})
		c := b.queue.Consume(ConsumerOptions{Deletes: deletes})
		b.send(draft{body: "1"}, draft{body: "2"}, draft{body: "3"})
		taken := b.expect(c, "1", "2", "3")
		c.Undelivered(taken[1:])
		b.send(draft{body: "4"})
		b.expect(c, "2", "3", "4")
		if used := b.queue.quota.used.Load(); deletes && used != 0 {
			t.Errorf("%d bytes used", used)
		}
	}
}

func TestReceiveAndDelete(t *testing.T) {
	b := setUp(t, QueueSettings{})
	c := b.queue.Consume(ConsumerOptions{Deletes: true})
	b.send(draft{body: "1"})
	if d := b.expect(c, "1")[0]; d.Token != (amqp.UUID{}) || !d.LockedUntil.IsZero() {
		t.Errorf("a deleted message is locked: %+v", d)
	}
	b.counts(Counts{})
}

func TestPauseHoldsBack(t *testing.T) {
	b := setUp(t, QueueSettings{})
	c := b.consume()
	b.send(draft{body: "1"})
	b.queue.Pause(true)
	b.expect(c)
	b.send(draft{body: "2"})
	if b.wakes != 0 {
		t.Error("woken while paused")
	}
	b.queue.Pause(false)
	if b.wakes != 1 {
		t.Errorf("woken %d times after the pause", b.wakes)
	}
	b.expect(c, "1", "2")
}

func TestExpireLocks(t *testing.T) {
	b := setUp(t, QueueSettings{})
	c := b.consume()
	b.send(draft{body: "1"})
	d := b.expect(c, "1")[0]
	b.queue.ExpireLocks()
	b.fails(b.queue.Complete(d.Token), ErrMessageLockLost)
	if again := b.expect(c, "1")[0]; again.DeliveryCount() != 1 {
		t.Errorf("delivery count %d", again.DeliveryCount())
	}
}

func TestQuota(t *testing.T) {
	b := setUp(t, QueueSettings{})
	c := b.consume()
	big := draft{body: string(make([]byte, 100<<10))}
	n := 0
	var err *amqp.Error
	for ; err == nil; n++ {
		err = b.topic.Publish(big.encode())
	}
	b.fails(err, amqp.ErrResourceLimitExceeded)
	if n != 11 {
		t.Errorf("refused the %d. message of 100 KiB in 1 MiB", n)
	}
	d, _ := c.Take(nil, 1, 1<<20)
	b.fails(b.topic.Publish(big.encode()), amqp.ErrResourceLimitExceeded)
	b.ok(b.queue.Complete(d[0].Token))
	b.ok(b.topic.Publish(big.encode()))
}

func TestBatchIsAllOrNothing(t *testing.T) {
	b := setUp(t, QueueSettings{})
	data := func(m []byte) []byte { // a data section
		return append([]byte{0x00, 0x53, 0x75}, amqp.AppendValue(nil, m)...)
	}
	good := data(draft{body: "x"}.encode())
	b.fails(b.topic.PublishBatch(append(append([]byte{}, good...), data([]byte{0xff})...)), amqp.ErrDecode)
	b.counts(Counts{})
	b.ok(b.topic.PublishBatch(append(append([]byte{}, good...), good...)))
	b.counts(Counts{Active: 2})
}

func TestPeekSeesAllInOrder(t *testing.T) {
	b := setUp(t, QueueSettings{})
	c := b.consume()
	for i := range 5 {
		b.send(draft{body: fmt.Sprint(i + 1)})
	}
	taken, _ := c.Take(nil, 3, 1<<20)
	b.ok(b.queue.Complete(taken[1].Token))
	b.ok(b.queue.Abandon(taken[0].Token, nil))
	var got string
	for _, d := range b.queue.Peek(1, 3, 1<<20, nil) {
		got += b.body(&d)
	}
	if got != "134" {
		t.Errorf("peeked %q", got)
	}
	if d := b.queue.Peek(5, 100, 1, nil); len(d) != 1 || d[0].Token != (amqp.UUID{}) {
		t.Errorf("peeked %d from 5", len(d))
	}
}
