package broker

import (
	"testing"
	"time"
)

// A subscription that forwards has no receivers, and is in use all the same.
func TestForwardingIsUse(t *testing.T) {
	const idle = 10 * time.Minute
	b := setUp(t, QueueSettings{ForwardTo: "q", AutoDeleteOnIdle: idle})
	noError(t, b.broker.PutQueue("q", QueueSettings{}))
	for range 3 {
		b.clock.advance(idle / 2)
		b.send(draft{body: "x"})
	}
	b.expect(b.broker.Queue("q").Consume(ConsumerOptions{}), "x", "x", "x")
	noError(t, b.broker.PutSubscription("t", "s", SubscriptionSettings{AutoDeleteOnIdle: idle}))
	b.clock.advance(idle)
	if b.broker.Subscription("t", "s") != nil {
		t.Error("it does not forward any more, and stays")
	}
}

// deadLetter sends messages that were forwarded so often, and dead-letters them.
func (b *bench) deadLetter(hops int, bodies ...string) {
	b.Helper()
	c := b.queue.Consume(ConsumerOptions{})
	defer c.Close()
	for _, body := range bodies {
		content, err := parse(draft{body: body}.encode())
		b.ok(err)
		b.ok(b.topic.publish([]*parcel{{content: content, hops: hops}}))
		b.ok(b.queue.DeadLetter(b.expect(c, body)[0].Token, "", "", nil))
	}
}

func TestDeadLetterThatCannotBeForwardedBlocksNoOther(t *testing.T) {
	b := onQueue(t, QueueSettings{ForwardDeadLettersTo: "dead"})
	noError(t, b.broker.PutQueue("dead", QueueSettings{}))
	wakes := 0
	waiting := b.queue.deadLetter.Consume(ConsumerOptions{Notify: func() { wakes++ }})
	b.expect(waiting)
	b.deadLetter(maxHops, "stays")
	if wakes != 1 {
		t.Errorf("who waits for it was woken %d times", wakes)
	}
	b.deadLetter(0, "1", "2")
	b.expect(b.broker.Queue("dead").Consume(ConsumerOptions{}), "1", "2")
	d := b.expect(waiting, "stays")
	b.expect(waiting)
	b.ok(b.queue.deadLetter.Release(d[0].Token))
	if wakes != 2 {
		t.Errorf("who waits for it was woken %d times", wakes)
	}
	b.expect(waiting, "stays")
}

func TestDeadLettersAreForwardedOnceTheirTargetIsThere(t *testing.T) {
	b := onQueue(t, QueueSettings{ForwardDeadLettersTo: "dead"})
	b.deadLetter(0, "1", "2")
	noError(t, b.broker.PutQueue("dead", QueueSettings{MaxSize: 1}))
	b.counts(Counts{DeadLetter: 2})
	noError(t, b.broker.PutQueue("q", QueueSettings{ForwardDeadLettersTo: "dead"})) // now it is full
	b.counts(Counts{DeadLetter: 2})
	b.clock.advance(forwardPause) // twice
	noError(t, b.broker.PutQueue("dead", QueueSettings{}))
	b.clock.advance(forwardPause)
	b.expect(b.broker.Queue("dead").Consume(ConsumerOptions{}), "1", "2")
	b.counts(Counts{})
}

func TestWhatIsNotForwardedAnyMoreIsAnnounced(t *testing.T) {
	b := onQueue(t, QueueSettings{ForwardDeadLettersTo: "dead"})
	wakes := 0
	waiting := b.queue.deadLetter.Consume(ConsumerOptions{Notify: func() { wakes++ }})
	b.expect(waiting)
	b.queue.deadLetter.forwarding = true // as if another message were on its way
	b.deadLetter(0, "x")
	noError(t, b.broker.PutQueue("q", QueueSettings{}))
	if wakes != 1 {
		t.Errorf("woken %d times", wakes)
	}
	b.expect(waiting, "x")
}
