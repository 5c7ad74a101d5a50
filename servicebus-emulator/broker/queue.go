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
	limit int64 // bytes
	used  atomic.Int64
}

func (q *quota) reserve(n int64) bool {
	if q.used.Add(n) <= q.limit {
		return true
	}
	q.used.Add(-n)
	return false
}

func (q *quota) release(n int64) { q.used.Add(-n) }

// Queue holds messages for consumers: a queue, a subscription or the dead-letter queue of either.
type Queue struct {
	path       string // as clients name it
	settings   QueueSettings
	clock      Clock
	quota      *quota
	deadLetter *Queue // nil: this is one

	mu        sync.Mutex
	after     []func() // to run when the mutex is free
	paused    bool
	sequence  int64 // of the newest message
	all       ledger
	locked    map[amqp.UUID]*message
	lane      lane // of a queue without sessions
	waiting   waiters
	sessions  map[string]*session
	free      sessionList // unlocked, with messages
	accepting []*acceptance
	dues      heap[*deadline]
	timer     Timer
	timerAt   time.Time // zero: not set
	stopped   bool
}

func newQueue(path string, settings QueueSettings, clock Clock, quota *quota) *Queue {
	q := bareQueue(path, settings, clock, quota)
	dead := settings
	dead.RequiresSession, dead.DefaultTTL, dead.Filter = false, 0, nil
	q.deadLetter = bareQueue(path+"/$DeadLetterQueue", dead, clock, quota)
	return q
}

func bareQueue(path string, settings QueueSettings, clock Clock, quota *quota) *Queue {
	return &Queue{
		path: path, settings: settings, clock: clock, quota: quota,
		locked: map[amqp.UUID]*message{}, lane: newLane(), sessions: map[string]*session{},
		dues: heap[*deadline]{
			less:  func(a, b *deadline) bool { return a.at.Before(b.at) },
			place: func(d *deadline, i int) { d.index = i },
		},
	}
}

// Path is the queue's name as clients write it.
func (q *Queue) Path() string { return q.path }

// RequiresSession says that messages are only given out by session.
func (q *Queue) RequiresSession() bool { return q.settings.RequiresSession }

// unlock sets the timer for what is due next, frees the mutex and runs what had to wait for that.
func (q *Queue) unlock() {
	q.schedule()
	after := q.after
	q.after = nil
	q.mu.Unlock()
	for _, f := range after {
		f()
	}
}

// enqueue adds new messages, in order.
func (q *Queue) enqueue(contents []*content, sequences []int64, ttl time.Duration, now time.Time) {
	q.mu.Lock()
	defer q.unlock()
	for i, c := range contents {
		q.sequence++
		m := &message{
			sequence: q.sequence, enqueuedSequence: sequences[i], enqueuedAt: now, content: c,
			ttl: shortest(ttl, q.settings.DefaultTTL, c.ttl()), returnedIndex: -1,
		}
		m.due = deadline{index: -1, message: m}
		if m.ttl > 0 {
			m.expiresAt = now.Add(m.ttl)
		}
		q.all.add(m)
		l := &q.lane
		if q.settings.RequiresSession {
			p := c.Properties()
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

// announce tells a consumer, if one can take it, that the message is there.
func (q *Queue) announce(m *message) {
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
	q.all.remove(m)
	q.quota.release(m.content.size)
}

// giveBack makes a message that was handed out available again, with its number of deliveries counted up if that one
// failed. The caller has unlocked it.
func (q *Queue) giveBack(m *message, failed bool, now time.Time) {
	if failed {
		m.deliveryCount++
		if m.deliveryCount >= q.settings.MaxDeliveryCount && q.deadLetter != nil {
			q.moveToDeadLetter(m, "MaxDeliveryCountExceeded", maxDeliveryDescription(m.deliveryCount), nil)
			return
		}
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
		ttl: m.ttl, deliveryCount: m.deliveryCount, deadLetterSource: q.path,
		content: m.content.with(set), returnedIndex: -1,
	}
	moved.due = deadline{index: -1, message: moved}
	q.remove(m)
	// What is dead-lettered is kept even if that takes the entity over its quota.
	q.quota.used.Add(moved.content.size)
	q.deadLetter.arrive(moved)
}

// arrive adds a message moved from another queue.
func (q *Queue) arrive(m *message) {
	q.mu.Lock()
	defer q.unlock()
	q.all.add(m)
	q.lane.putBack(m)
	q.announce(m)
}

// Pause holds back everything, or ends that.
func (q *Queue) Pause(paused bool) {
	q.mu.Lock()
	defer q.unlock()
	q.paused = paused
	if paused {
		return
	}
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
	Locked     int // of the active ones
	DeadLetter int // in its dead-letter queue
}

// Counts counts.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	c := Counts{Active: q.all.length, Locked: len(q.locked)}
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
