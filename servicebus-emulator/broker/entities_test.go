package broker

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/filter"
)

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEntitiesComeAndGo(t *testing.T) {
	b := New(newFakeClock())
	noError(t, b.PutTopic("T1", TopicSettings{}))
	noError(t, b.PutSubscription("t1", "S1", SubscriptionSettings{}))
	noError(t, b.PutQueue("Q1", QueueSettings{RequiresSession: true}))
	for what, err := range map[string]error{
		"topic over queue":         b.PutTopic("q1", TopicSettings{}),
		"queue over topic":         b.PutQueue("t1", QueueSettings{}),
		"queue over subscription":  b.PutQueue("T1/Subscriptions/s1", QueueSettings{}),
		"added twice":              b.AddTopic(TopicSettings{Name: "t1"}),
		"sessions changed":         b.PutQueue("q1", QueueSettings{}),
		"duplicates changed":       b.PutTopic("t1", TopicSettings{DuplicateWindow: time.Minute}),
		"subscription of a queue":  b.PutSubscription("q1", "s", SubscriptionSettings{}),
		"rule of no subscription":  b.PutRule("t1", "none", "r", everything),
		"forwarding to its topic":  b.PutSubscription("t1", "s1", SubscriptionSettings{ForwardTo: "T1"}),
		"dead letters to it":       b.PutSubscription("t1", "s1", SubscriptionSettings{ForwardDeadLettersTo: "T1"}),
		"the same from the start":  b.PutSubscription("t1", "s2", SubscriptionSettings{ForwardDeadLettersTo: "T1"}),
		"forwarding with sessions": b.PutSubscription("t1", "s2", SubscriptionSettings{RequiresSession: true, ForwardTo: "q1"}),
	} {
		if err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	noError(t, b.PutTopic("t1", TopicSettings{DefaultTTL: time.Hour}))
	noError(t, b.PutSubscription("t1", "s1", SubscriptionSettings{MaxDeliveryCount: 3}))
	topic, _ := b.Topic("T1")
	subscriptions, _ := b.Subscriptions("T1")
	if len(b.Topics()) != 1 || topic.Name != "T1" || topic.DefaultTTL != time.Hour || len(b.Queues()) != 1 ||
		len(subscriptions) != 1 || subscriptions[0].Name != "S1" || subscriptions[0].MaxDeliveryCount != 3 ||
		subscriptions[0].Rules[0].Name != DefaultRuleName {
		t.Errorf("%+v %+v %+v", topic, b.Queues(), subscriptions)
	}
	if i, ok := b.Info("t1"); !ok || i.Subscriptions != 1 || !i.CreatedAt.Equal(b.clock.Now()) {
		t.Errorf("info %+v", i)
	}
	if b.DeleteEntity("q1/$DeadLetterQueue") || b.DeleteEntity("none") || !b.DeleteEntity("q1") || b.DeleteEntity("q1") ||
		!b.DeleteEntity("t1/subscriptions/s1") || !b.DeleteEntity("T1") {
		t.Error("deleting answers wrongly")
	}
	if len(b.destinations) != 0 || len(b.queues) != 0 {
		t.Errorf("left over: %v, %v", b.destinations, b.queues)
	}
	noError(t, b.PutTopic("Q1", TopicSettings{})) // the name is free
	if err := b.PutSubscription("none", "s", SubscriptionSettings{}); !errors.Is(err, ErrNoEntity) {
		t.Errorf("a subscription without topic: %v", err)
	}
}

func TestRulesChange(t *testing.T) {
	b := setUp(t, QueueSettings{})
	c := b.consume()
	b.send(draft{body: "1", id: "a"})
	noError(t, b.broker.PutRule("t", "s", "ids", Rule{Filter: &filter.Correlation{MessageID: "b"}}))
	if !b.broker.DeleteRule("t", "s", "$default") || b.broker.DeleteRule("t", "s", "none") {
		t.Fatal("deleting rules answers wrongly")
	}
	b.send(draft{body: "2", id: "a"}, draft{body: "3", id: "b"})
	noError(t, b.broker.PutRule("t", "s", "IDs", Rule{Filter: &filter.Correlation{MessageID: "a"}}))
	b.send(draft{body: "4", id: "a"}, draft{body: "5", id: "b"})
	b.broker.DeleteRule("t", "s", "ids")
	b.send(draft{body: "6", id: "a"})
	b.expect(c, "1", "3", "4")
	if rules, ok := b.broker.Rules("t", "s"); !ok || len(rules) != 0 {
		t.Errorf("rules %v", rules)
	}
}

func TestDeletionLetsGo(t *testing.T) {
	b := setUp(t, QueueSettings{RequiresSession: true})
	var lost []*amqp.Error
	gone := func(reason *amqp.Error) { lost = append(lost, reason) }
	c, err := b.queue.AcceptSession("x", ConsumerOptions{Lost: gone})
	b.ok(err)
	b.queue.AcceptNextSession(time.Hour, ConsumerOptions{}, func(_ *Consumer, reason *amqp.Error) { gone(reason) })
	b.queue.deadLetter.Consume(ConsumerOptions{Lost: gone})
	b.topic.OnDelete(gone)
	b.topic.OnDelete(gone)()
	b.send(draft{body: "1", session: "x"}, draft{body: "2", session: "x", at: b.clock.Now().Add(time.Minute)})
	d := b.expect(c, "1")
	if !b.broker.DeleteEntity("t") || len(lost) != 4 {
		t.Fatalf("%d were told", len(lost))
	}
	for _, reason := range lost {
		b.fails(reason, amqp.ErrNotFound)
	}
	b.fails(b.topic.Publish(draft{body: "3"}.encode()), amqp.ErrNotFound)
	b.fails(b.queue.Complete(d[0].Token), ErrMessageLockLost)
	c.Undelivered(d)
	b.clock.advance(time.Hour)
	b.counts(Counts{})
	b.queue.Consume(ConsumerOptions{Lost: gone})
	b.topic.OnDelete(gone)
	if len(lost) != 6 || b.queue.Deleted() == nil {
		t.Errorf("%d were told", len(lost))
	}
}

func TestDeletedSubscriptionFreesItsSize(t *testing.T) {
	b := setUp(t, QueueSettings{})
	b.send(draft{body: "1"}, draft{body: "2"})
	d := b.expect(b.consume(), "1", "2")
	b.ok(b.queue.DeadLetter(d[0].Token, "", "", nil))
	b.broker.DeleteEntity(b.queue.Path())
	b.send(draft{body: "3"})
	if used := b.topic.quota.used.Load(); used != 0 {
		t.Errorf("%d bytes used", used)
	}
}

func TestDuplicates(t *testing.T) {
	b := onQueue(t, QueueSettings{DuplicateWindow: time.Minute})
	c := b.queue.Consume(ConsumerOptions{Deletes: true})
	b.send(draft{body: "1", id: "a"}, draft{body: "2", id: "a"}, draft{body: "3", id: "b"}, draft{body: "4"}, draft{body: "5"})
	b.expect(c, "1", "3", "4", "5")
	b.clock.advance(59 * time.Second)
	b.send(draft{body: "6", id: "a"})
	b.expect(c)
	b.clock.advance(time.Second)
	b.send(draft{body: "7", id: "a"})
	b.expect(c, "7")
	// What is scheduled counts from when it was sent, and is no duplicate of itself.
	b.send(draft{body: "8", id: "c", at: b.clock.Now().Add(30 * time.Second)}, draft{body: "9", id: "c"})
	b.clock.advance(30 * time.Second)
	b.expect(c, "8")
	if used := b.topic.quota.used.Load(); used != 0 {
		t.Errorf("%d bytes used", used)
	}
	// A message that was refused may come again.
	full := onQueue(t, QueueSettings{DuplicateWindow: time.Minute, MaxSize: 1})
	full.fails(full.topic.Publish(draft{body: "1", id: "a"}.encode()), amqp.ErrResourceLimitExceeded)
	noError(t, full.broker.PutQueue("q", QueueSettings{DuplicateWindow: time.Hour, MaxSize: 1 << 20}))
	full.send(draft{body: "2", id: "a"})
	full.expect(full.consume(), "2")
}

func TestHistoryIsBounded(t *testing.T) {
	h := newHistory(time.Hour)
	h.limit = 10
	now := time.Unix(0, 0)
	for i := range 100 {
		c, err := parse(draft{body: "x", id: fmt.Sprint(i)}.encode())
		if err != nil {
			t.Fatal(err)
		}
		h.remember([]*parcel{{content: c}}, now)
	}
	if len(h.known) != 10 || len(h.past) != 10 {
		t.Errorf("%d, %d remembered", len(h.known), len(h.past))
	}
}

func TestForwarding(t *testing.T) {
	b := setUp(t, QueueSettings{ForwardTo: "q"})
	noError(t, b.broker.PutQueue("q", QueueSettings{ForwardDeadLettersTo: "dead", MaxDeliveryCount: 1}))
	noError(t, b.broker.PutQueue("dead", QueueSettings{}))
	q, dead := b.broker.Queue("q"), b.broker.Queue("dead")
	b.send(draft{body: "1"}, draft{body: "2"})
	b.counts(Counts{})
	d := b.expect(q.Consume(ConsumerOptions{}), "1", "2")
	if d[1].message.enqueuedSequence != 2 {
		t.Errorf("first sequence number %d", d[1].message.enqueuedSequence)
	}
	b.ok(q.Abandon(d[0].Token, nil))
	d = b.expect(dead.Consume(ConsumerOptions{}), "1")
	if d[0].message.deadLetterSource != "q" || d[0].DeliveryCount() != 0 || q.Counts().DeadLetter != 0 {
		t.Errorf("forwarded as %+v", d[0].message)
	}
	if !b.queue.Forwards() || q.Forwards() {
		t.Error("who forwards is answered wrongly")
	}
}

func TestForwardingStartsWithWhatIsThere(t *testing.T) {
	b := onQueue(t, QueueSettings{})
	b.send(draft{body: "1"}, draft{body: "2"})
	held := b.expect(b.consume(), "1", "2")
	b.send(draft{body: "3"})
	noError(t, b.broker.PutQueue("to", QueueSettings{}))
	noError(t, b.broker.PutQueue("q", QueueSettings{ForwardTo: "to"}))
	b.ok(b.queue.Release(held[0].Token))
	b.queue.Pause(true)
	b.ok(b.queue.Release(held[1].Token))
	b.counts(Counts{Active: 1})
	b.queue.Pause(false)
	b.expect(b.broker.Queue("to").Consume(ConsumerOptions{}), "3", "1", "2")
}

func TestForwardingEnds(t *testing.T) {
	b := New(newFakeClock())
	for i := range 7 {
		noError(t, b.PutQueue(fmt.Sprint("q", i), QueueSettings{ForwardTo: fmt.Sprint("q", i+1)}))
	}
	noError(t, b.PutQueue("x", QueueSettings{ForwardTo: "y"}))
	noError(t, b.PutQueue("y", QueueSettings{ForwardTo: "x"}))
	for _, c := range []struct{ sendTo, endsIn, reason string }{
		{"q0", "q4", string(errTooManyHops)},
		{"q4", "q6", string(amqp.ErrNotFound)},
		{"x", "x", string(errTooManyHops)}, // after x, y, x, y
	} {
		on := &bench{T: t, topic: b.Destination(c.sendTo), queue: b.Queue(c.endsIn)}
		on.send(draft{body: "1"})
		if got := on.deadLetters(); len(got) != 1 || got[0][0] != c.reason {
			t.Errorf("sent to %s, in the dead-letter queue of %s: %q", c.sendTo, c.endsIn, got)
		}
	}
}

func TestForwardingInACircleAndConcurrently(t *testing.T) {
	b := New(newFakeClock())
	noError(t, b.PutQueue("to", QueueSettings{}))
	noError(t, b.PutQueue("q", QueueSettings{ForwardTo: "to"}))
	noError(t, b.PutQueue("x", QueueSettings{ForwardTo: "y", ForwardDeadLettersTo: "y"}))
	noError(t, b.PutQueue("y", QueueSettings{ForwardTo: "x", ForwardDeadLettersTo: "x"}))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				for _, name := range []string{"q", "x", "y"} {
					if err := b.Destination(name).Publish(draft{body: "1"}.encode()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	if c := b.Queue("to").Counts(); c.Active != 400 {
		t.Errorf("forwarded %+v", c)
	}
	x, y := b.Queue("x").Counts(), b.Queue("y").Counts()
	if x.Active+y.Active != 0 || x.DeadLetter+y.DeadLetter != 800 {
		t.Errorf("in the circle %+v, %+v", x, y)
	}
}

func TestIdleEntitiesAreDeleted(t *testing.T) {
	clock := newFakeClock()
	b := New(clock)
	const idle = 10 * time.Minute
	noError(t, b.PutTopic("t", TopicSettings{AutoDeleteOnIdle: 3 * idle}))
	noError(t, b.PutSubscription("t", "idle", SubscriptionSettings{AutoDeleteOnIdle: idle}))
	noError(t, b.PutSubscription("t", "busy", SubscriptionSettings{AutoDeleteOnIdle: idle}))
	noError(t, b.PutQueue("q", QueueSettings{AutoDeleteOnIdle: idle}))
	c := b.Subscription("t", "busy").Consume(ConsumerOptions{})
	exist := func(want string) {
		t.Helper()
		got := ""
		for name, path := range map[string]string{"t": "t", "i": "t/subscriptions/idle", "b": "t/subscriptions/busy", "q": "q"} {
			if b.Queue(path) == nil && b.Destination(path) == nil {
				continue
			}
			got += name
		}
		if len(got) != len(want) {
			t.Fatalf("%s exist, want %s", got, want)
		}
	}
	clock.advance(idle / 2)
	if err := b.Destination("t").Publish(draft{body: "1"}.encode()); err != nil { // no use of the subscription
		t.Fatal(err)
	}
	if err := b.Destination("q").Publish(draft{body: "1", at: clock.Now().Add(idle)}.encode()); err != nil {
		t.Fatal(err)
	}
	clock.advance(idle / 2)
	exist("tbq")
	clock.advance(idle) // the scheduled message came meanwhile
	exist("tbq")
	clock.advance(idle)
	exist("tb")
	c.Close()
	clock.advance(idle)
	exist("t")
	clock.advance(3 * idle)
	exist("")
	// A limit can be lifted.
	noError(t, b.PutQueue("q", QueueSettings{AutoDeleteOnIdle: idle}))
	noError(t, b.PutQueue("q", QueueSettings{}))
	clock.advance(idle)
	exist("q")
	b.Stop()
}
