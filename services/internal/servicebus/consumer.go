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
	receiveTimeout = 30 * time.Second
	// linger is how long a batch is gathered after its first message; the SDK's 20 ms would be most of an idle heartbeat's way.
	linger = 5 * time.Millisecond
	// settleTimeout bounds one settlement: on a lost connection the SDK's own would hang for most of a minute.
	settleTimeout = 5 * time.Second
	// settlers settle at once; each settlement is a round trip of its own.
	settlers = 64
	// Backoff of receives that fail, or come back empty at once.
	minBackoff, maxBackoff = 50 * time.Millisecond, 5 * time.Second
	// silentReceives is after how many empty receives the receiver is made anew if the subscription is not empty.
	silentReceives = 1
)

// Consumer receives from one subscription in peek-lock, through lost links and connections.
type Consumer struct {
	client              *Client
	topic, subscription string
	logger              *slog.Logger
	// Recreated counts the receivers made anew.
	Recreated atomic.Int64

	mu       sync.Mutex
	receiver *azservicebus.Receiver
	failures int
	empty    int
}

// NewConsumer prepares a consumer; it opens its link with the first receive. It is for one goroutine's receives at a time.
func (c *Client) NewConsumer(topic, subscription string, logger *slog.Logger) *Consumer {
	return &Consumer{client: c, topic: topic, subscription: subscription, logger: logger}
}

func (c *Consumer) current() (*azservicebus.Receiver, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.receiver != nil {
		return c.receiver, nil
	}
	receiver, err := c.client.sdk.NewReceiverForSubscription(c.topic, c.subscription, nil)
	c.receiver = receiver
	return receiver, err
}

// renew throws a receiver away; the next use makes another.
func (c *Consumer) renew(old *azservicebus.Receiver, why string, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.receiver != old || old == nil {
		return
	}
	c.receiver = nil
	c.Recreated.Add(1)
	c.logger.Warn("the receiver is made anew", "topic", c.topic, "subscription", c.subscription, "why", why, "error", cause)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
		defer cancel()
		_ = old.Close(ctx)
	}()
}

// Receive waits for messages, at most so many. It returns none when the context ended or nothing came for a while; failures
// are waited out here, with backoff.
func (c *Consumer) Receive(ctx context.Context, most int) []*ReceivedMessage {
	receiver, err := c.current()
	if err != nil {
		c.pause(ctx, err)
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, receiveTimeout)
	defer cancel()
	began := time.Now()
	messages, err := receiver.ReceiveMessages(bounded, most, &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: linger})
	switch {
	case len(messages) > 0:
		c.failures, c.empty = 0, 0
		return messages
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded) || (err == nil && time.Since(began) >= receiveTimeout):
		c.failures = 0
		c.silence(ctx, receiver)
		return nil
	case err != nil:
		c.renew(receiver, "a receive failed", err)
	}
	// The SDK can also come back at once with neither messages nor an error, after a lost link.
	c.pause(ctx, err)
	return nil
}

// silence makes a receiver anew that hears nothing although messages wait.
func (c *Consumer) silence(ctx context.Context, receiver *azservicebus.Receiver) {
	c.empty++
	if c.empty < silentReceives {
		return
	}
	if _, found, err := c.Oldest(ctx); err != nil || found {
		c.empty = 0
		c.renew(receiver, "nothing is received although messages wait", err)
	}
}

func (c *Consumer) pause(ctx context.Context, err error) {
	c.failures++
	limit := min(maxBackoff, minBackoff<<min(c.failures, 10))
	timer := time.NewTimer(limit/2 + rand.N(limit/2))
	defer timer.Stop()
	if err != nil {
		c.logger.Warn("receiving failed", "topic", c.topic, "subscription", c.subscription, "failures", c.failures, "error", err)
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Oldest tells when the oldest message was enqueued, locked ones included; false when there is none.
func (c *Consumer) Oldest(ctx context.Context) (time.Time, bool, error) {
	receiver, err := c.current()
	if err != nil {
		return time.Time{}, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	peeked, err := receiver.PeekMessages(ctx, 1, &azservicebus.PeekMessagesOptions{FromSequenceNumber: to.Ptr(int64(0))})
	if err != nil || len(peeked) == 0 || peeked[0].EnqueuedTime == nil {
		return time.Time{}, false, err
	}
	return *peeked[0].EnqueuedTime, true, nil
}

// Settlement is what becomes of one message.
type Settlement struct {
	Message *ReceivedMessage
	// DeadLetterReason moves it to the dead-letter queue, with the description; empty completes it.
	DeadLetterReason, Description string
	// Release gives it back, to be delivered again.
	Release bool
}

// Settle settles many at once, and returns how many failed; those are delivered again, since every handler is idempotent.
func (c *Consumer) Settle(ctx context.Context, settlements []Settlement) int {
	var failed atomic.Int64
	work := make(chan Settlement, len(settlements))
	for _, settlement := range settlements {
		work <- settlement
	}
	close(work)
	var group sync.WaitGroup
	for range min(settlers, len(settlements)) {
		group.Go(func() {
			for settlement := range work {
				if err := c.settle(ctx, settlement); err != nil {
					failed.Add(1)
					c.logger.Warn("a message could not be settled and will be delivered again", "message_id", settlement.Message.MessageID, "error", err)
				}
			}
		})
	}
	group.Wait()
	return int(failed.Load())
}

// settle settles on the receiver that delivered, and after a lost connection by the lock token through a new one.
func (c *Consumer) settle(ctx context.Context, settlement Settlement) error {
	receiver, err := c.current()
	if err != nil {
		return err
	}
	err = settleOn(ctx, receiver, settlement)
	if err == nil || lockLost(err) || ctx.Err() != nil {
		return err
	}
	c.renew(receiver, "a settlement failed", err)
	if receiver, err = c.current(); err != nil {
		return err
	}
	return settleOn(ctx, receiver, settlement)
}

func settleOn(ctx context.Context, receiver *azservicebus.Receiver, settlement Settlement) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	switch {
	case settlement.Release:
		return receiver.AbandonMessage(ctx, settlement.Message, nil)
	case settlement.DeadLetterReason != "":
		return receiver.DeadLetterMessage(ctx, settlement.Message, &azservicebus.DeadLetterOptions{
			Reason: &settlement.DeadLetterReason, ErrorDescription: &settlement.Description,
		})
	}
	return receiver.CompleteMessage(ctx, settlement.Message, nil)
}

// RenewLocks keeps messages that take longer than their lock, and returns those that are still ours.
func (c *Consumer) RenewLocks(ctx context.Context, messages []*ReceivedMessage) []*ReceivedMessage {
	receiver, err := c.current()
	if err != nil {
		return messages
	}
	var kept []*ReceivedMessage
	for _, message := range messages {
		bounded, cancel := context.WithTimeout(ctx, settleTimeout)
		err := receiver.RenewMessageLock(bounded, message, nil)
		cancel()
		if lockLost(err) {
			continue
		}
		if err != nil && ctx.Err() == nil {
			// The connection may be gone: the locks may lapse, and then the messages come again.
			c.renew(receiver, "a lock could not be renewed", err)
			return messages
		}
		kept = append(kept, message)
	}
	return kept
}

// Close closes the link. Messages that were not settled come again when their locks lapse.
func (c *Consumer) Close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.receiver == nil {
		return nil
	}
	return c.receiver.Close(ctx)
}
