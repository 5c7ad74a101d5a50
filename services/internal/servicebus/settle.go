package servicebus

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const (
	// settleTimeout bounds one settlement: on a lost connection the SDK's own would hang for most of a minute.
	settleTimeout = 3 * time.Second
	// settlers settle at once; each settlement is a round trip of its own.
	settlers = 64
)

// Settlement is what becomes of one message.
type Settlement struct {
	Delivery
	// DeadLetterReason moves it to the dead-letter queue, with the description; empty completes it.
	DeadLetterReason, Description string
	// Release gives it back, to be delivered again; that counts as a failed delivery.
	Release bool
}

// Settled counts settlements that came to nothing. The messages are delivered again, since every handler is idempotent.
type Settled struct {
	// Lapsed had lost their locks before.
	Lapsed int
	// Failed could not be settled by any way.
	Failed int
}

// Settle settles many at once: on the link that delivered, and what a lost link delivered, by lock token on another. Before
// anything is released the link that delivers is closed, until the next receive: it would get the same messages at once, and
// nobody would settle them before their locks lapse.
func (c *Consumer) Settle(ctx context.Context, settlements []Settlement) Settled {
	if slices.ContainsFunc(settlements, func(one Settlement) bool { return one.Release }) {
		late, _ := c.closeDelivering(context.WithoutCancel(ctx))
		settlements = slices.Concat(settlements, late)
	}
	return c.settle(ctx, settlements)
}

func (c *Consumer) settle(ctx context.Context, settlements []Settlement) Settled {
	var result Settled
	var failure error
	rest := settleAll(settlements, &result, nil, func(one Settlement) error { return c.onLink(ctx, one) })
	if len(rest) > 0 {
		rest = settleAll(rest, &result, &failure, func(one Settlement) error { return c.byToken(ctx, one) })
	}
	result.Failed = len(rest)
	if result.Failed+result.Lapsed > 0 {
		c.logger.Warn("some messages could not be settled and will be delivered again", "topic", c.topic, "subscription", c.subscription,
			"of", len(settlements), "lapsed", result.Lapsed, "failed", result.Failed, "error", failure)
	}
	return result
}

// settleAll settles concurrently, and returns what neither succeeded nor had lost its lock.
func settleAll(settlements []Settlement, result *Settled, failure *error, settle func(Settlement) error) []Settlement {
	var next atomic.Int64
	var mu sync.Mutex
	var rest []Settlement
	var group sync.WaitGroup
	for range min(settlers, len(settlements)) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(settlements)); i = next.Add(1) - 1 {
				err := settle(settlements[i])
				if err == nil {
					continue
				}
				mu.Lock()
				if lockLost(err) {
					result.Lapsed++
				} else {
					rest = append(rest, settlements[i])
					if failure != nil {
						*failure = err
					}
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return rest
}

// onLink settles on the link that delivered. It ends as soon as that link does.
func (c *Consumer) onLink(ctx context.Context, one Settlement) error {
	if one.from == nil || one.from.alive.Err() != nil {
		return context.Canceled
	}
	bounded, cancel := context.WithTimeout(one.from.alive, settleTimeout)
	defer cancel()
	err := settleOn(once{bounded, one.from.end}, one.from.receiver, one.ReceivedMessage, one)
	if err != nil && ctx.Err() == nil && linkLost(err) {
		c.renew(one.from, "a settlement failed", err)
	}
	return err
}

// byToken settles through management, which needs nothing but the token.
func (c *Consumer) byToken(ctx context.Context, one Settlement) error {
	receiver, err := c.managing(ctx)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	err = settleOn(bounded, receiver, &ReceivedMessage{LockToken: one.LockToken}, one)
	if err != nil && !lockLost(err) {
		c.forget(receiver)
	}
	return err
}

func settleOn(ctx context.Context, receiver *azservicebus.Receiver, message *ReceivedMessage, how Settlement) error {
	switch {
	case how.Release:
		return receiver.AbandonMessage(ctx, message, nil)
	case how.DeadLetterReason != "":
		return receiver.DeadLetterMessage(ctx, message, &azservicebus.DeadLetterOptions{
			Reason: &how.DeadLetterReason, ErrorDescription: &how.Description,
		})
	}
	return receiver.CompleteMessage(ctx, message, nil)
}

// Renew keeps the locks of messages that take longer, and returns those that it could not; a lock that lapsed shows when its message
// is settled.
func (c *Consumer) Renew(ctx context.Context, deliveries []Delivery) (failed []Delivery) {
	receiver, err := c.managing(ctx)
	if err != nil {
		return deliveries
	}
	var next atomic.Int64
	var mu sync.Mutex
	var group sync.WaitGroup
	stop, cancelAll := context.WithCancel(ctx)
	defer cancelAll()
	for range min(settlers, len(deliveries)) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(deliveries)); i = next.Add(1) - 1 {
				bounded, cancel := context.WithTimeout(stop, settleTimeout)
				// A copy: the SDK writes the new end into the message, which others read.
				err := receiver.RenewMessageLock(bounded, &ReceivedMessage{LockToken: deliveries[i].LockToken}, nil)
				cancel()
				if err != nil && !lockLost(err) {
					cancelAll() // what fails for one fails for the rest
					mu.Lock()
					failed = append(failed, deliveries[i])
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	if len(failed) > 0 && ctx.Err() == nil {
		c.forget(receiver)
	}
	return failed
}
