package servicebus

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/google/uuid"

	"github.com/commandcenter/fleet/services/internal/lifecycle"
)

// checkLimit is how long the check at the start may take.
const checkLimit = 15 * time.Second

// CheckAtStart runs check once, while the service already works, and then waits for ctx. It returns an error only for a missing right or
// entity, which the error names and which ends the service. A bus that cannot be reached is logged, with what is served meanwhile.
//
// A stop leaves the check running: the SDK may end a connection whose session it is told to cancel while it begins, and with it the links
// that still send and settle. The check ends when its client is closed.
func CheckAtStart(ctx context.Context, logger *slog.Logger, meanwhile string, check func(context.Context) error) error {
	err := lifecycle.Leave(ctx, func() error {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkLimit)
		defer cancel()
		return check(bounded)
	})
	var access *AccessError
	if errors.As(err, &access) && ctx.Err() == nil {
		return err
	}
	if err != nil && ctx.Err() == nil {
		logger.Warn("the bus cannot be reached yet; "+meanwhile, "error", err)
	}
	<-ctx.Done()
	return nil
}

// CheckSend opens a sender's link, so that a missing right or topic is known before anything is sent.
func (c *Client) CheckSend(ctx context.Context, topic string) error {
	ctx, cancel := c.untilClosed(ctx)
	defer cancel()
	sender, err := c.sdk.NewSender(topic, nil)
	if err != nil {
		return err
	}
	defer closeSender(sender)
	_, err = sender.NewMessageBatch(ctx, nil) // asks the link for its size limit, and so opens it
	return Access(err, "Send", "topic "+topic)
}

// CheckListen opens a receiver's management link on a subscription.
func (c *Client) CheckListen(ctx context.Context, topic, subscription string) error {
	ctx, cancel := c.untilClosed(ctx)
	defer cancel()
	receiver, err := c.sdk.NewReceiverForSubscription(topic, subscription, nil)
	if err != nil {
		return err
	}
	defer closeReceiver(receiver)
	_, err = receiver.PeekMessages(ctx, 1, nil)
	return Access(err, "Listen", "subscription "+topic+"/"+subscription)
}

// CheckSession takes a session of its own of a subscription, for a moment.
func (c *Client) CheckSession(ctx context.Context, topic, subscription string) error {
	ctx, cancel := c.untilClosed(ctx)
	defer cancel()
	receiver, err := c.sdk.AcceptSessionForSubscription(ctx, topic, subscription, "check-"+uuid.NewString(), nil)
	if err != nil {
		return Access(err, "Listen", "subscription "+topic+"/"+subscription)
	}
	closing, cancelClosing := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancelClosing()
	_ = receiver.Close(closing)
	return nil
}

func closeReceiver(receiver *azservicebus.Receiver) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	_ = receiver.Close(ctx)
}
