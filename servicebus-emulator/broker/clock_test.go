package broker

import (
	"sync"
	"testing"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// fakeClock moves when told to, and runs what falls due on the way.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*fakeTimer
}

type fakeTimer struct {
	clock *fakeClock
	at    time.Time
	f     func()
	set   bool
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) AfterFunc(d time.Duration, f func()) Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &fakeTimer{clock: c, at: c.now.Add(d), f: f, set: true}
	c.timers = append(c.timers, t)
	return t
}

func (t *fakeTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := t.set
	t.set = false
	return was
}

func (t *fakeTimer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := t.set
	t.at, t.set = t.clock.now.Add(d), true
	return was
}

// advance moves the clock, stopping at every timer on the way.
func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	end := c.now.Add(d)
	for {
		var next *fakeTimer
		for _, t := range c.timers {
			if t.set && !t.at.After(end) && (next == nil || t.at.Before(next.at)) {
				next = t
			}
		}
		if next == nil {
			break
		}
		next.set = false
		c.now = maxTime(c.now, next.at)
		c.mu.Unlock()
		next.f()
		c.mu.Lock()
	}
	c.now = end
	c.mu.Unlock()
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// bench is a broker with a topic "t" and its subscription "s".
type bench struct {
	*testing.T
	broker *Broker
	clock  *fakeClock
	topic  *Destination
	queue  *Queue
	wakes  int
}

func setUp(t *testing.T, s QueueSettings) *bench {
	t.Helper()
	s.Name = "s"
	if s.LockDuration == 0 {
		s.LockDuration = time.Minute
	}
	if s.MaxDeliveryCount == 0 {
		s.MaxDeliveryCount = 10
	}
	clock := newFakeClock()
	b := New(clock)
	if err := b.AddTopic(TopicSettings{
		Name: "t", MaxSize: 1 << 20, MaxMessageSize: 1 << 18, Subscriptions: []QueueSettings{s},
	}); err != nil {
		t.Fatal(err)
	}
	return &bench{T: t, broker: b, clock: clock, topic: b.Destination("T"), queue: b.Subscription("T", "S")}
}

type draft struct {
	body    string
	session string
	ttl     time.Duration
	id      string
	at      time.Time // it is scheduled for
}

// encode makes a message as a client would.
func (d draft) encode() []byte {
	var m []byte
	if d.ttl > 0 {
		m = amqp.Header{Priority: 4, HasTTL: true, TTL: d.ttl}.Append(m)
	}
	if !d.at.IsZero() {
		var mark int
		m, mark = amqp.BeginAnnotations(m)
		m = amqp.EndAnnotations(amqp.AppendValue(amqp.AppendSymbolKey(m, scheduledAnnotation), d.at), mark, 2)
	}
	if d.session != "" || d.id != "" {
		// A properties list: message-id, nine nulls, then group-id.
		list := amqp.List{orNull(d.id), nil, nil, nil, nil, nil, nil, nil, nil, nil, orNull(d.session)}
		m = amqp.AppendProperties(m, amqp.AppendValue(nil, list))
	}
	return amqp.AppendValueSection(m, d.body)
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (b *bench) send(drafts ...draft) {
	b.Helper()
	for _, d := range drafts {
		if err := b.topic.Publish(d.encode()); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bench) consume() *Consumer {
	return b.queue.Consume(ConsumerOptions{Notify: func() { b.wakes++ }})
}

// take takes all it can and answers the bodies, and the deliveries.
func (b *bench) take(c *Consumer, limit int) ([]string, []Delivery) {
	b.Helper()
	deliveries, _ := c.Take(nil, limit, 1<<20)
	var bodies []string
	for i := range deliveries {
		bodies = append(bodies, b.body(&deliveries[i]))
	}
	return bodies, deliveries
}

func (b *bench) body(d *Delivery) string {
	b.Helper()
	s, err := amqp.ParseSections(d.Append(nil))
	if err != nil {
		b.Fatal(err)
	}
	v, err := amqp.ValueSection(s.Body)
	if err != nil {
		b.Fatal(err)
	}
	return v.(string)
}

func (b *bench) expect(c *Consumer, want ...string) []Delivery {
	b.Helper()
	got, deliveries := b.take(c, 100)
	if len(got) != len(want) {
		b.Fatalf("took %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			b.Fatalf("took %q, want %q", got, want)
		}
	}
	return deliveries
}

func (b *bench) counts(want Counts) {
	b.Helper()
	if got := b.queue.Counts(); got != want {
		b.Fatalf("counts %+v, want %+v", got, want)
	}
}

func (b *bench) ok(err *amqp.Error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) fails(err *amqp.Error, condition amqp.Symbol) {
	b.Helper()
	if err == nil || err.Condition != condition {
		b.Fatalf("error %v, want %s", err, condition)
	}
}

// deadLetters answers the reasons and descriptions in the dead-letter queue, in order.
func (b *bench) deadLetters() [][2]string {
	b.Helper()
	var found [][2]string
	for _, d := range b.queue.deadLetter.Peek(0, 100, 1<<20, nil) {
		s, err := amqp.ParseSections(d.Append(nil))
		if err != nil {
			b.Fatal(err)
		}
		m, err := amqp.ParseMap(s.ApplicationProperties)
		if err != nil {
			b.Fatal(err)
		}
		reason, _ := m.Get("DeadLetterReason")
		description, _ := m.Get("DeadLetterErrorDescription")
		found = append(found, [2]string{reason.(string), description.(string)})
	}
	return found
}
