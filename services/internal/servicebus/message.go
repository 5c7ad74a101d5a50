package servicebus

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
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
