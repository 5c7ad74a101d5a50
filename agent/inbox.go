package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// inbox is where an agent's commands come in. The SDK's session receivers are not safe for a receive beside a renewal, so one
// goroutine makes all calls.
type inbox interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
	CompleteMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.CompleteMessageOptions) error
	AbandonMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.AbandonMessageOptions) error
	DeadLetterMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.DeadLetterOptions) error
	Close(context.Context) error

	// keep renews what the agent holds while it waits for commands.
	keep(context.Context) error
	// renew renews the lock under which the agent holds the message.
	renew(context.Context, *azservicebus.ReceivedMessage) error
	// lockedUntil is when that lock ends, by the broker's clock. It is zero where the broker did not say.
	lockedUntil(*azservicebus.ReceivedMessage) time.Time
}

// sessionInbox is the session named as the agent. Its lock covers all of its messages, whose own locks never end.
type sessionInbox struct{ *azservicebus.SessionReceiver }

func (s sessionInbox) keep(ctx context.Context) error {
	if err := s.RenewSessionLock(ctx, nil); err != nil {
		return fmt.Errorf("bus: the lock of the session was lost: %w", err)
	}
	return nil
}

func (s sessionInbox) renew(ctx context.Context, _ *azservicebus.ReceivedMessage) error {
	return s.keep(ctx)
}

func (s sessionInbox) lockedUntil(*azservicebus.ReceivedMessage) time.Time { return s.LockedUntil() }

// ownInbox is a subscription of the agent's own. Each message has a lock of its own.
type ownInbox struct{ *azservicebus.Receiver }

func (ownInbox) keep(context.Context) error { return nil }

func (o ownInbox) renew(ctx context.Context, m *azservicebus.ReceivedMessage) error {
	if err := o.RenewMessageLock(ctx, m, nil); err != nil {
		return fmt.Errorf("bus: the lock of a command's message was lost: %w", err)
	}
	return nil
}

func (ownInbox) lockedUntil(m *azservicebus.ReceivedMessage) time.Time {
	if m == nil || m.LockedUntil == nil {
		return time.Time{}
	}
	return *m.LockedUntil
}

// witness holds what the broker's clock and ours showed at one time. The broker renews a lock for a fixed time from its own
// "now", so that the ends of two locks are as far apart as the two renewals were, by the broker's clock.
type witness struct {
	lockedUntil time.Time // zero: the broker did not say
	asked       moment    // before the broker set lockedUntil
}

// clockSlack is what two clocks may run apart between two renewals without either having stood still.
const clockSlack = 250 * time.Millisecond

// missed is how much time our clocks did not count since the witness, given when the lock ends that was renewed before answered.
// It is 0 where our clocks counted all of it, give or take clockSlack.
func (w witness) missed(lockedUntil time.Time, answered moment) time.Duration {
	if w.lockedUntil.IsZero() || lockedUntil.IsZero() {
		return 0
	}
	if missed := lockedUntil.Sub(w.lockedUntil) - w.asked.until(answered); missed > clockSlack {
		return missed
	}
	return 0
}
