package servicebus

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// quietSession is a session nothing comes in on. It counts its renewals, and fails while renew says so.
type quietSession struct {
	renewals int
	renew    func(n int) error
}

func (q *quietSession) ReceiveMessages(ctx context.Context, _ int, _ *azservicebus.ReceiveMessagesOptions) ([]*ReceivedMessage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (q *quietSession) RenewSessionLock(context.Context, *azservicebus.RenewSessionLockOptions) error {
	q.renewals++
	return q.renew(q.renewals)
}

func (q *quietSession) Close(context.Context) error { return nil }

// A renewal that fails is no reason to give a session up which is held yet.
func TestSessionOutlivesARenewalThatFails(t *testing.T) {
	busy := errors.New("server busy")
	for name, row := range map[string]struct {
		renew      func(n int) error
		heldAtMost time.Duration // 0: for good
	}{
		"one in two":    {func(n int) error { return []error{nil, busy}[n%2] }, 0},
		"nine of ten":   {func(n int) error { return map[bool]error{false: busy}[n%10 == 0] }, 0},
		"all":           {func(int) error { return busy }, renewGrace + renewRetry},
		"the lock lost": {func(int) error { return &azservicebus.Error{Code: azservicebus.CodeLockLost} }, renewInterval},
		"lost at the 9th": {func(n int) error {
			if n == 9 {
				return &azservicebus.Error{Code: azservicebus.CodeLockLost}
			}
			return nil
		}, 9 * renewInterval},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				session := &Session{ID: "s", Logger: slog.New(slog.DiscardHandler), Deliver: func(*ReceivedMessage) {}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				err := session.receive(ctx, &quietSession{renew: row.renew})
				took := time.Since(began)
				if row.heldAtMost == 0 && took != time.Hour || row.heldAtMost != 0 && took > row.heldAtMost {
					t.Errorf("held for %s: %v", took, err)
				}
			})
		})
	}
}
