package servicebus

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const (
	// receiveTimeout bounds one receive, so that a receiver which has gone silent is looked at.
	receiveTimeout = 10 * time.Second
	// minLinger and maxLinger bound how long a batch is gathered after its first message. A lone message should not wait; in a
	// steady flow, one batch in place of thirty costs a thirtieth of the work.
	minLinger, maxLinger = 3 * time.Millisecond, 100 * time.Millisecond
	// maxLock is the longest lock that Service Bus knows.
	maxLock = 5 * time.Minute
	// unsureLock is what a lock is taken for at most while messages may have waited, and by how long is not known.
	unsureLock = 30 * time.Second
	// openTimeout bounds the opening of a link. It is long, because links given up half open leave the SDK's $cbs link in its way.
	openTimeout = 20 * time.Second
	// Backoff of receives that fail, or come back empty at once.
	minBackoff, maxBackoff = 50 * time.Millisecond, 5 * time.Second
)

// Delivery is a message received in peek-lock, with the link that delivered it.
type Delivery struct {
	*ReceivedMessage
	from *link
}

// Consumer receives from one subscription in peek-lock, through lost links and connections.
//
// It has two links: one delivers; the other, which never asks for messages, peeks, renews locks, and settles by lock token what
// a lost link delivered.
type Consumer struct {
	// Credit is how many messages the broker may send ahead at most; 0 is as many as one receive is to return. What was sent ahead to a
	// consumer that stands still waits until its locks lapse, though others are free.
	Credit int

	client              *Client
	topic, subscription string
	logger              *slog.Logger
	recreated           atomic.Int64
	lockDuration        atomic.Int64 // nanoseconds; 0 until known
	lockSure            atomic.Bool  // the lock's length was held against the broker's clock
	clock               Clock

	mu       sync.Mutex // guards the two links
	delivers *link
	manages  *azservicebus.Receiver
	closing  sync.WaitGroup

	// The receiving goroutine's own.
	failures int
	linger   time.Duration
	waiting  time.Time // when the message was enqueued that waited through the last, silent receive
}

// NewConsumer prepares a consumer; its links are opened by first use. Receive is for one goroutine at a time, all else for any.
func (c *Client) NewConsumer(topic, subscription string, logger *slog.Logger) *Consumer {
	return &Consumer{client: c, topic: topic, subscription: subscription, logger: logger}
}

// Recreated counts the receivers that were made anew.
func (c *Consumer) Recreated() int64 { return c.recreated.Load() }

// LockDuration is how long the subscription locks a message, as far as received messages show; 0 while nothing was received.
func (c *Consumer) LockDuration() time.Duration { return time.Duration(c.lockDuration.Load()) }

// SureLock is LockDuration where it was held against the broker's clock, so that it is no longer than it seems; 0 before.
func (c *Consumer) SureLock() time.Duration {
	if !c.lockSure.Load() {
		return 0
	}
	return c.LockDuration()
}

// Clock is the clock of the broker that the consumer receives from.
func (c *Consumer) Clock() *Clock { return &c.clock }

// Receive waits for messages, at most so many. It returns none when the context ended or nothing came for a while; failures
// are waited out here, with backoff.
func (c *Consumer) Receive(ctx context.Context, most int) []Delivery {
	from, err := c.delivering(ctx)
	if err != nil {
		c.pause(ctx, err)
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, receiveTimeout)
	defer cancel()
	if c.Credit > 0 {
		most = min(most, c.Credit)
	}
	messages, err := from.receive(bounded, most, max(c.linger, minLinger))
	c.linger = nextLinger(c.linger, len(messages))
	switch {
	case len(messages) > 0:
		c.failures, c.waiting = 0, time.Time{}
		return c.deliveries(messages, from)
	case ctx.Err() != nil:
	case from.alive.Err() != nil:
		c.renew(from, "it was lost", err)
	case bounded.Err() != nil:
		c.failures = 0
		c.silence(ctx, from)
	default:
		// After a lost link the SDK can also come back at once with neither messages nor an error.
		c.renew(from, "a receive failed", err)
		c.pause(ctx, err)
	}
	return nil
}

// nextLinger grows while there is something to gather, and falls back when a message came alone.
func nextLinger(linger time.Duration, received int) time.Duration {
	if received < 2 {
		return minLinger
	}
	return min(2*max(linger, minLinger), maxLinger)
}

func (c *Consumer) deliveries(messages []*ReceivedMessage, from *link) []Delivery {
	deliveries, now := make([]Delivery, len(messages)), time.Now()
	for i, message := range messages {
		deliveries[i] = Delivery{message, from}
		if message.EnqueuedTime != nil {
			c.clock.Seen(*message.EnqueuedTime, now)
		}
	}
	c.learnLock(messages[0])
	return deliveries
}

// learnLock takes the lock's length from a message. A message that waited before it was locked shows too much, so the lock's end is
// also held against the broker's clock; while that is not known, no more than unsureLock is believed. The shortest seen is the truth,
// or less than it, which costs a renewal more.
func (c *Consumer) learnLock(message *ReceivedMessage) {
	if message.LockedUntil == nil || message.EnqueuedTime == nil {
		return
	}
	seen, limit := message.LockedUntil.Sub(*message.EnqueuedTime), unsureLock
	at, _, sure := c.clock.Now(time.Now())
	if sure {
		seen, limit = min(seen, message.LockedUntil.Sub(at)), maxLock
	} else if seen > 0 {
		seen = min(seen, limit)
	}
	if known := c.LockDuration(); seen > 0 && seen <= limit && (known == 0 || seen < known || sure && !c.lockSure.Load()) {
		c.lockDuration.Store(int64(seen))
		c.lockSure.Store(sure)
	}
}

// silence makes a receiver anew which hears nothing although the same message waits through two whole receives.
func (c *Consumer) silence(ctx context.Context, from *link) {
	oldest, found, err := c.Oldest(ctx)
	switch {
	case err != nil:
		c.renew(from, "nothing is received, and the subscription cannot be peeked", err)
		c.waiting = time.Time{}
	case !found:
		c.waiting = time.Time{}
	case oldest.Equal(c.waiting):
		c.renew(from, "nothing is received although messages wait", nil)
		c.waiting = time.Time{}
	default:
		c.waiting = oldest
	}
}

func (c *Consumer) pause(ctx context.Context, err error) {
	c.failures++
	pause := backoff(c.failures, rand.Float64())
	c.logger.Warn("receiving failed", "topic", c.topic, "subscription", c.subscription, "failures", c.failures, "again_in", pause, "error", err)
	wait(ctx, pause)
}

// backoff is the pause after so many failures in a row; jitter is 0 to 1, so that replicas don't come back in step.
func backoff(failures int, jitter float64) time.Duration {
	limit := min(maxBackoff, minBackoff<<min(failures, 10))
	return limit/2 + time.Duration(jitter*float64(limit/2))
}

// Oldest tells when the oldest message was enqueued, locked ones included; false when there is none.
func (c *Consumer) Oldest(ctx context.Context) (time.Time, bool, error) {
	receiver, err := c.managing(ctx)
	if err != nil {
		return time.Time{}, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	peeked, err := receiver.PeekMessages(ctx, 1, &azservicebus.PeekMessagesOptions{FromSequenceNumber: to.Ptr(int64(0))})
	if err != nil {
		c.forget(receiver)
		return time.Time{}, false, err
	}
	for _, message := range peeked {
		if message.EnqueuedTime != nil {
			return *message.EnqueuedTime, true, nil
		}
	}
	return time.Time{}, false, nil
}

// delivering is the link that delivers, opened if need be.
func (c *Consumer) delivering(ctx context.Context) (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.delivers != nil {
		return c.delivers, nil
	}
	receiver, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	c.delivers = newLink(receiver)
	return c.delivers, nil
}

// managing is the link that never asks for messages, opened if need be.
func (c *Consumer) managing(ctx context.Context) (*azservicebus.Receiver, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.manages != nil {
		return c.manages, nil
	}
	receiver, err := c.open(ctx)
	if err == nil {
		c.manages = receiver
	}
	return receiver, err
}

// open makes a receiver and opens its links, whatever is left of the caller's own short time.
func (c *Consumer) open(ctx context.Context) (*azservicebus.Receiver, error) {
	receiver, err := c.client.sdk.NewReceiverForSubscription(c.topic, c.subscription, nil)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	opening, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTimeout)
	defer cancel()
	if _, err := receiver.PeekMessages(opening, 1, nil); err != nil {
		c.discard(receiver)
		return nil, Access(err, "Listen", "subscription "+c.topic+"/"+c.subscription)
	}
	return receiver, nil
}

// renew throws a link away, and with it the managing one, which shares its connection; the next use opens them anew.
func (c *Consumer) renew(old *link, why string, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.delivers != old {
		return
	}
	c.recreated.Add(1)
	c.logger.Warn("the receiver is made anew", "topic", c.topic, "subscription", c.subscription, "why", why, "error", cause)
	old.end()
	c.closing.Go(old.discard)
	c.delivers = nil
	if c.manages != nil {
		c.discard(c.manages)
		c.manages = nil
	}
}

// closeDelivering closes the link that delivers, and waits for that. The next receive opens another. What nobody received on it is
// to be released.
func (c *Consumer) closeDelivering(ctx context.Context) ([]Settlement, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.delivers == nil {
		return nil, nil
	}
	late, err := c.delivers.close(ctx)
	c.delivers = nil
	releases := make([]Settlement, len(late))
	for i, message := range late {
		releases[i] = Settlement{Delivery: Delivery{ReceivedMessage: message}, Release: true}
	}
	return releases, err
}

// forget throws the managing link away, unless that was done already.
func (c *Consumer) forget(old *azservicebus.Receiver) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.manages == old {
		c.discard(old)
		c.manages = nil
	}
}

// discard closes a receiver aside: on a lost connection that takes its time.
func (c *Consumer) discard(receiver *azservicebus.Receiver) {
	c.closing.Go(func() { closeReceiver(receiver) })
}

// Close closes the links and waits for those thrown away before. Messages that were received and not settled come again when their
// locks lapse; those that came after the last receive are released.
func (c *Consumer) Close(ctx context.Context) error {
	late, err := c.closeDelivering(ctx)
	c.settle(ctx, late)
	errs := []error{err}
	c.mu.Lock()
	if c.manages != nil {
		errs = append(errs, c.manages.Close(ctx))
		c.manages = nil
	}
	c.mu.Unlock()
	c.closing.Wait()
	return errors.Join(errs...)
}
