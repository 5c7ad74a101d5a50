package servicebus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const (
	// acceptTimeout bounds one try to take the session.
	acceptTimeout = 15 * time.Second
	// sessionBatch is how many messages are taken at once, at most.
	sessionBatch = 256
	// renewInterval keeps the session's lock, which lasts 60 s by default.
	renewInterval = 15 * time.Second
	// renewRetry is after what time a renewal that failed is tried again, and renewGrace for how long.
	renewRetry, renewGrace = 2 * time.Second, 45 * time.Second
)

// Session is one session of a subscription, held as long as possible.
//
// It receives and deletes at once: nobody but its holder ever wants these messages, and a settlement each would double the
// traffic. In peek-lock the SDK would also give back whatever arrives between two receives. Its wait after the first message,
// a second in this mode, is cut to nothing: a receive returns with the first message and all that came along with it, so
// that one alone waits for nobody and many at once do not queue one by one.
type Session struct {
	Client                  *Client
	Topic, Subscription, ID string
	Logger                  *slog.Logger
	// Silence is after what time without any message the session is taken anew, since a receiver can go deaf without an error;
	// zero: never.
	Silence time.Duration
	// Deliver takes each message; it must not block.
	Deliver func(*ReceivedMessage)
	// Lost is called whenever the session was held and is no more; it may be called again.
	Lost func()
}

// Run holds the session until the context ends, taking it again with backoff whenever it is lost.
func (s *Session) Run(ctx context.Context) error {
	backoff := minBackoff
	for ctx.Err() == nil {
		receiver, err := s.accept(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.Logger.Warn("the replies session cannot be taken; it is tried again", "session", s.ID, "again_in", backoff, "error", err)
			}
			wait(ctx, backoff)
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		took := time.Now()
		err = s.receive(ctx, receiver)
		s.Lost() // at once: leaving a dead connection takes its time
		s.leave(ctx, receiver)
		s.Lost() // what was delivered meanwhile proves nothing
		if ctx.Err() != nil {
			break
		}
		s.Logger.Warn("the replies session was lost; it is taken again", "session", s.ID, "error", err)
		if time.Since(took) > maxBackoff {
			backoff = minBackoff
		}
		wait(ctx, backoff)
		backoff = min(2*backoff, maxBackoff)
	}
	return nil
}

func (s *Session) accept(ctx context.Context) (*azservicebus.SessionReceiver, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	receiver, err := s.Client.sdk.AcceptSessionForSubscription(ctx, s.Topic, s.Subscription, s.ID,
		&azservicebus.SessionReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	return receiver, Access(err, "Listen", "subscription "+s.Topic+"/"+s.Subscription)
}

// sessionReceiver is what is used of an *azservicebus.SessionReceiver, by one goroutine at a time.
type sessionReceiver interface {
	ReceiveMessages(ctx context.Context, most int, options *azservicebus.ReceiveMessagesOptions) ([]*ReceivedMessage, error)
	RenewSessionLock(ctx context.Context, options *azservicebus.RenewSessionLockOptions) error
	Close(ctx context.Context) error
}

// receive delivers until the session is lost, and says why it was. Between receives it renews the lock.
func (s *Session) receive(ctx context.Context, receiver sessionReceiver) error {
	lock := sessionLock{renewedAt: time.Now(), renewAt: time.Now().Add(renewInterval)}
	heardAt := time.Now()
	for {
		messages, err := s.next(ctx, receiver, lock.renewAt, heardAt)
		for _, message := range messages {
			s.Deliver(message)
		}
		if len(messages) > 0 {
			heardAt = time.Now()
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case len(messages) > 0:
		case errors.Is(err, context.DeadlineExceeded):
			if s.Silence > 0 && time.Since(heardAt) >= s.Silence {
				return fmt.Errorf("nothing came within %s", s.Silence)
			}
		case err != nil:
			return err
		default: // The SDK comes back with nothing and no error after a lost link; the session may be another's by now.
			return errors.New("the link was lost")
		}
		if err := s.renew(ctx, receiver, &lock); err != nil {
			return err
		}
	}
}

// next waits for messages until the lock is to be renewed or the silence has lasted too long.
func (s *Session) next(ctx context.Context, receiver sessionReceiver, renewAt, heardAt time.Time) ([]*ReceivedMessage, error) {
	until := renewAt
	if silent := heardAt.Add(s.Silence); s.Silence > 0 && silent.Before(until) {
		until = silent
	}
	bounded, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return receiver.ReceiveMessages(bounded, sessionBatch, &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: time.Nanosecond})
}

// sessionLock is when the lock was renewed and when it is to be.
type sessionLock struct{ renewedAt, renewAt time.Time }

// renew keeps the lock when it is time to. A renewal that fails is tried again while the lock may yet be held: a busy broker is
// no reason to give the session up.
func (s *Session) renew(ctx context.Context, receiver sessionReceiver, lock *sessionLock) error {
	if time.Now().Before(lock.renewAt) {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	err := receiver.RenewSessionLock(bounded, nil)
	now := time.Now()
	if err == nil {
		lock.renewedAt, lock.renewAt = now, now.Add(renewInterval)
		return nil
	}
	if lockLost(err) || now.Sub(lock.renewedAt) >= renewGrace {
		return fmt.Errorf("its lock could not be renewed: %w", err)
	}
	s.Logger.Warn("the lock of the replies session could not be renewed; it is tried again", "session", s.ID, "again_in", renewRetry, "error", err)
	lock.renewAt = now.Add(renewRetry)
	return nil
}

// leave gives the session up, and delivers what had arrived by then: it is deleted at the broker already.
func (s *Session) leave(ctx context.Context, receiver sessionReceiver) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	_ = receiver.Close(closing)
	for {
		messages, err := receiver.ReceiveMessages(closing, sessionBatch, nil)
		for _, message := range messages {
			s.Deliver(message)
		}
		if err != nil || len(messages) == 0 {
			return
		}
	}
}

func wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
