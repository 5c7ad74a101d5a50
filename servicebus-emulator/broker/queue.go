package broker

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// Error conditions of Service Bus.
const (
	ErrMessageLockLost     amqp.Symbol = "com.microsoft:message-lock-lost"
	ErrSessionLockLost     amqp.Symbol = "com.microsoft:session-lock-lost"
	ErrSessionCannotBeHeld amqp.Symbol = "com.microsoft:session-cannot-be-locked"
	ErrTimeout             amqp.Symbol = "com.microsoft:timeout"
)

// quota bounds what the messages of a topic or a queue take, all subscriptions and dead-letter queues included.
type quota struct {
	limit, used atomic.Int64 // bytes
}

func newQuota(limit int64) *quota {
	q := &quota{}
	q.limit.Store(limit)
	return q
}

func (q *quota) reserve(n int64) bool {
	if n == 0 || q.used.Add(n) <= q.limit.Load() {
		return true
	}
	q.used.Add(-n)
	return false
}

func (q *quota) release(n int64) { q.used.Add(-n) }

// deadLetterSuffix makes the path of a queue that of its dead-letter queue.
const deadLetterSuffix = "/$DeadLetterQueue"

// Queue holds messages for consumers: a queue, a subscription or the dead-letter queue of either.
type Queue struct {
	path            string // as clients name it
	destination     *Destination
	clock           Clock
	quota           *quota // the destination's
	deadLetter      *Queue // nil: this is one
	requiresSession bool
	rules           atomic.Pointer[[]Rule] // of a subscription, replaced as a whole with mu held; nil: every message

	idle            *idleWatch // of a subscription
	createdAt       time.Time
	updatedAt, used instant

	mu        sync.Mutex
	settings  QueueSettings // without rules
	after     []func()      // to run when the mutex is free
	paused    bool
	sequence  int64 // of the newest message
	all       ledger
	locked    map[amqp.UUID]*message
	parked    map[int64]*message // scheduled or deferred, by sequence number
	scheduled int                // of the parked
	consumers map[*Consumer]struct{}
	lane      lane // of a queue without sessions
	waiting   waiters
	sessions  map[string]*session
	free      sessionList // unlocked, with messages
	accepting []*acceptance
	dues      heap[*deadline]
	timer     Timer
	timerAt   time.Time // zero: not set
	stopped   bool
	deleted   bool

	forwarding bool  // some goroutine does
	retry      Timer // of forwarding; nil: never set
}

func newQueue(d *Destination, path string, settings QueueSettings) *Queue {
	q := bareQueue(d, path, settings)
	q.deadLetter = bareQueue(d, path+deadLetterSuffix, settings.forDeadLetters())
	return q
}

func bareQueue(d *Destination, path string, settings QueueSettings) *Queue {
	settings.Rules = nil
	q := &Queue{
		path: path, destination: d, settings: settings, clock: d.broker.clock, quota: d.quota,
		requiresSession: settings.RequiresSession, createdAt: d.broker.clock.Now(),
		locked: map[amqp.UUID]*message{}, parked: map[int64]*message{}, consumers: map[*Consumer]struct{}{},
		lane: newLane(), sessions: map[string]*session{},
		dues: heap[*deadline]{
			less:  (*deadline).before,
			place: func(d *deadline, i int) { d.index = i },
		},
	}
	q.updatedAt.set(q.createdAt)
	q.used.set(q.createdAt)
	return q
}

// Path is the queue's name as clients write it.
func (q *Queue) Path() string { return q.path }

// RequiresSession says that messages are only given out by session.
func (q *Queue) RequiresSession() bool { return q.requiresSession }

// unlock sets the timer for what is due next, frees the mutex and runs what had to wait for that.
func (q *Queue) unlock() {
	for _, f := range q.release() {
		f()
	}
}

// release is unlock for callers that hold another mutex: they run later what it answers.
func (q *Queue) release() []func() {
	q.schedule()
	after := q.after
	q.after = nil
	q.mu.Unlock()
	return after
}

// enqueue adds new messages, in order, and answers what is to be done without locks.
func (q *Queue) enqueue(parcels []*parcel, ttl time.Duration, now time.Time) []func() {
	q.mu.Lock()
	for _, p := range parcels {
		if q.deleted {
			q.quota.release(p.content.size)
			continue
		}
		q.sequence++
		m := newMessage(p, q.sequence, now)
		if m.ttl = shortest(ttl, q.settings.DefaultTTL, p.content.ttl()); m.ttl > 0 {
			m.expiresAt = now.Add(m.ttl)
		}
		q.all.add(m)
		l := &q.lane
		if q.requiresSession {
			p := p.content.Properties()
			if !p.HasGroupID {
				q.moveToDeadLetter(m, "Session id is null.",
					"The subscription requires sessions and the message has no session id.", nil)
				continue
			}
			m.session = q.session(p.GroupID)
			l = &m.session.lane
		}
		l.push(m)
		q.await(&m.due, m.expiresAt)
		q.announce(m)
	}
	return q.release()
}

func (c *content) ttl() time.Duration {
	if c.header.HasTTL {
		return max(c.header.TTL, time.Millisecond) // zero would mean no expiry
	}
	return 0
}

// shortest answers the least duration that is set.
func shortest(durations ...time.Duration) time.Duration {
	var least time.Duration
	for _, d := range durations {
		if d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}

// announce tells a consumer, if one can take it, that the message is there, or has it forwarded.
func (q *Queue) announce(m *message) {
	if q.settings.ForwardTo != "" && !m.aside {
		q.startForwarding()
		return
	}
	if m.session == nil {
		q.wakeOne()
		return
	}
	m.session.announce(q)
}

func (q *Queue) wakeOne() {
	if q.paused {
		return
	}
	if c := q.waiting.pop(); c != nil {
		c.notify()
	}
}

// laneOf answers where the message waits.
func (q *Queue) laneOf(m *message) *lane {
	if m.session != nil {
		return &m.session.lane
	}
	return &q.lane
}

// remove forgets a message that is neither in a lane nor locked.
func (q *Queue) remove(m *message) {
	m.removed = true
	q.cancel(&m.due)
	q.unpark(m)
	q.all.remove(m)
	q.quota.release(m.content.size)
}

// giveBack makes a message that was handed out available again, or leaves it deferred, with its number of deliveries counted up if that one
// failed, but not in a dead-letter queue. The caller has unlocked it.
func (q *Queue) giveBack(m *message, failed bool, now time.Time) {
	if failed && q.deadLetter != nil {
		m.deliveryCount++
		if m.deliveryCount >= q.settings.MaxDeliveryCount {
			q.moveToDeadLetter(m, "MaxDeliveryCountExceeded", maxDeliveryDescription(m.deliveryCount), nil)
			return
		}
	}
	if m.state == deferred {
		return
	}
	if m.expired(now) {
		q.expire(m)
		return
	}
	q.laneOf(m).putBack(m)
	q.await(&m.due, m.expiresAt)
	q.announce(m)
}

func (m *message) expired(now time.Time) bool {
	return !m.expiresAt.IsZero() && !now.Before(m.expiresAt)
}

// expire ends the life of a message that is in no lane and not locked.
func (q *Queue) expire(m *message) {
	if q.settings.DeadLetterOnExpiration && q.deadLetter != nil {
		q.moveToDeadLetter(m, "TTLExpiredException", "The message expired and was dead lettered.", nil)
		return
	}
	q.remove(m)
}

// moveToDeadLetter moves a message that is in no lane and not locked, with properties set on it.
func (q *Queue) moveToDeadLetter(m *message, reason, description string, set amqp.Map) {
	// The reason comes last, over anything of that name: clients rely on its being text.
	set = append(append(amqp.Map{}, set...), amqp.Map{
		{Key: "DeadLetterReason", Value: reason},
		{Key: "DeadLetterErrorDescription", Value: description},
	}...)
	moved := &message{
		sequence: m.sequence, enqueuedSequence: m.enqueuedSequence, enqueuedAt: m.enqueuedAt,
		ttl: m.ttl, deliveryCount: m.deliveryCount, deadLetterSource: m.deadLetterSource, hops: m.hops,
		content: m.content.with(set), returnedIndex: -1,
	}
	moved.due = deadline{index: -1, message: moved}
	q.remove(m)
	// What is dead-lettered is kept even if that takes the entity over its quota.
	q.quota.used.Add(moved.content.size)
	q.after = append(q.after, q.deadLetter.arrive(moved)...)
}

// arrive adds a message moved from another queue, and answers what is to be done without locks.
func (q *Queue) arrive(m *message) []func() {
	q.mu.Lock()
	q.all.add(m)
	q.lane.putBack(m)
	q.announce(m)
	return q.release()
}

// Pause holds back everything, or ends that.
func (q *Queue) Pause(paused bool) {
	q.mu.Lock()
	defer q.unlock()
	q.paused = paused
	q.announceAll()
}

// announceAll announces everything that waits, unless the queue is paused.
func (q *Queue) announceAll() {
	if q.paused {
		return
	}
	q.startForwarding()
	for c := q.waiting.pop(); c != nil; c = q.waiting.pop() {
		c.notify()
	}
	for _, s := range q.sessions {
		s.announce(q)
	}
}

// Counts of the messages in a queue.
type Counts struct {
	Active     int // waiting or locked, as Service Bus counts them
	Locked     int // of the active and the deferred ones
	Scheduled  int // of a queue; those of a topic wait in the topic
	Deferred   int
	DeadLetter int // in its dead-letter queue
}

// Counts counts.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	c := Counts{
		Active: q.all.length - len(q.parked), Locked: len(q.locked),
		Scheduled: q.scheduled, Deferred: len(q.parked) - q.scheduled,
	}
	q.mu.Unlock()
	if q.deadLetter != nil {
		q.deadLetter.mu.Lock()
		c.DeadLetter = q.deadLetter.all.length
		q.deadLetter.mu.Unlock()
	}
	return c
}

// newToken makes a version 4 UUID. Lock tokens need to be unique, not secret.
func newToken() amqp.UUID {
	var u amqp.UUID
	a, b := rand.Uint64(), rand.Uint64()
	for i := range 8 {
		u[i], u[i+8] = byte(a>>(8*i)), byte(b>>(8*i))
	}
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}
