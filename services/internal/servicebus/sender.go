package servicebus

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Sender sends to one topic, with the client's retries: for what may be sent twice.
type Sender struct{ sdk *azservicebus.Sender }

// NewSender prepares a sender.
func (c *Client) NewSender(topic string) (*Sender, error) {
	sdk, err := c.sdk.NewSender(topic, nil)
	return &Sender{sdk: sdk}, err
}

// Send sends one message.
func (s *Sender) Send(ctx context.Context, message *Message) error {
	return s.sdk.SendMessage(ctx, message, nil)
}

// Close closes the link.
func (s *Sender) Close(ctx context.Context) error { return s.sdk.Close(ctx) }
