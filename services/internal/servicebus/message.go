package servicebus

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Message is what is sent, and ReceivedMessage what is received, as the SDK has them.
type (
	Message         = azservicebus.Message
	ReceivedMessage = azservicebus.ReceivedMessage
)

// Access says exactly which right or entity is missing, when that is what an error is about; other errors come back as they are.
func Access(err error, right, entity string) error {
	var known *azservicebus.Error
	if !errors.As(err, &known) {
		return err
	}
	switch known.Code {
	case azservicebus.CodeUnauthorizedAccess:
		return &AccessError{fmt.Errorf("the bus identity lacks the right %s on %s: %w", right, entity, err)}
	case azservicebus.CodeNotFound:
		return &AccessError{fmt.Errorf("%s does not exist in the bus namespace; create it, or mend its name in the settings: %w", entity, err)}
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

// CheckSend opens a sender's link, so that a missing right or topic is known before anything is sent.
func (c *Client) CheckSend(ctx context.Context, topic string) error {
	sender, err := c.sdk.NewSender(topic, nil)
	if err != nil {
		return err
	}
	defer sender.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it was only opened
	_, err = sender.NewMessageBatch(ctx, nil)      // asks the link for its size limit, and so opens it
	return Access(err, "Send", "topic "+topic)
}

// CheckListen opens a receiver's management link on a subscription.
func (c *Client) CheckListen(ctx context.Context, topic, subscription string) error {
	receiver, err := c.sdk.NewReceiverForSubscription(topic, subscription, nil)
	if err != nil {
		return err
	}
	defer receiver.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it was only opened
	_, err = receiver.PeekMessages(ctx, 1, nil)
	return Access(err, "Listen", "subscription "+topic+"/"+subscription)
}
