package servicebus

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
	"github.com/google/uuid"
)

// Message is what is sent, and ReceivedMessage what is received, as the SDK has them.
type (
	Message         = azservicebus.Message
	ReceivedMessage = azservicebus.ReceivedMessage
)

// entityDisabled is what the broker says of an entity that an operator switched off.
const entityDisabled = amqp.ErrCond("com.microsoft:entity-disabled")

// Access says exactly which right or entity is missing, when that is what an error is about; other errors come back as they are.
func Access(err error, right, entity string) error {
	var code azservicebus.Code
	if known := (*azservicebus.Error)(nil); errors.As(err, &known) {
		code = known.Code
	}
	// The SDK gives a code to some of these only.
	var condition amqp.ErrCond
	if refused := (*amqp.Error)(nil); errors.As(err, &refused) {
		condition = refused.Condition
	}
	switch {
	case code == azservicebus.CodeUnauthorizedAccess || condition == amqp.ErrCondUnauthorizedAccess:
		return &AccessError{fmt.Errorf("the bus identity lacks the right %s on %s: %w", right, entity, err)}
	case code == azservicebus.CodeNotFound || condition == amqp.ErrCondNotFound:
		return &AccessError{fmt.Errorf("%s does not exist in the bus namespace; create it, or mend its name in the settings: %w", entity, err)}
	case condition == entityDisabled:
		return &AccessError{fmt.Errorf("%s is disabled; enable it: %w", entity, err)}
	case condition == amqp.ErrCondNotAllowed:
		return &AccessError{fmt.Errorf("%s is not of the kind that is needed here, for example with sessions instead of without: %w", entity, err)}
	}
	return err
}

// AccessError is a missing right or entity: trying again does not help.
type AccessError struct{ error }

func (e *AccessError) Unwrap() error { return e.error }

// lockLost tells that the broker gave the message to somebody else, or will.
func lockLost(err error) bool {
	var known *azservicebus.Error
	return errors.As(err, &known) && known.Code == azservicebus.CodeLockLost
}

// linkLost tells that the link or its connection is gone; a settlement that hangs shows it too, and one that was ended because the
// link would have been opened anew for it.
func linkLost(err error) bool {
	var known *azservicebus.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || (errors.As(err, &known) && known.Code == azservicebus.CodeConnectionLost)
}

// CheckSend opens a sender's link, so that a missing right or topic is known before anything is sent.
func (c *Client) CheckSend(ctx context.Context, topic string) error {
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
	receiver, err := c.sdk.AcceptSessionForSubscription(ctx, topic, subscription, "check-"+uuid.NewString(), nil)
	if err != nil {
		return Access(err, "Listen", "subscription "+topic+"/"+subscription)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	_ = receiver.Close(closing)
	return nil
}

func closeReceiver(receiver *azservicebus.Receiver) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	_ = receiver.Close(ctx)
}
