package ingest

import (
	"context"
	"sync"
	"time"

	"github.com/commandcenter/fleet/services/internal/servicebus"
)

// defaultRenewAge is used until the lock's duration is known; the shortest lock of Service Bus is 5 s.
const defaultRenewAge, minRenewAge = 2 * time.Second, 100 * time.Millisecond

// keeper renews the locks of all that was received and is not settled yet: what waits for a worker too.
type keeper struct {
	source Source

	mu      sync.Mutex
	renewed map[*servicebus.ReceivedMessage]renewal
}

type renewal struct {
	delivery servicebus.Delivery
	at       time.Time // when it was received, or last renewed
}

func newKeeper(source Source) *keeper {
	return &keeper{source: source, renewed: map[*servicebus.ReceivedMessage]renewal{}}
}

func (k *keeper) add(received []servicebus.Delivery) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, one := range received {
		k.renewed[one.ReceivedMessage] = renewal{one, now}
	}
}

func (k *keeper) drop(settlements []servicebus.Settlement) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, one := range settlements {
		delete(k.renewed, one.ReceivedMessage)
	}
}

// due takes what was locked before the given time, as renewed now.
func (k *keeper) due(before, now time.Time) []servicebus.Delivery {
	k.mu.Lock()
	defer k.mu.Unlock()
	var due []servicebus.Delivery
	for message, one := range k.renewed {
		if !one.at.After(before) {
			due = append(due, one.delivery)
			k.renewed[message] = renewal{one.delivery, now}
		}
	}
	return due
}

// again makes what could not be renewed due at the next look, unless it was settled meanwhile.
func (k *keeper) again(failed []servicebus.Delivery, lockedAt time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, one := range failed {
		if _, held := k.renewed[one.ReceivedMessage]; held {
			k.renewed[one.ReceivedMessage] = renewal{one, lockedAt}
		}
	}
}

// run renews until the context ends. A lock is renewed when it is half over, give or take a quarter of that.
func (k *keeper) run(ctx context.Context) {
	for {
		age := k.renewAge()
		select {
		case <-ctx.Done():
			return
		case now := <-time.After(age / 4):
			if due := k.due(now.Add(-age), now); len(due) > 0 {
				k.again(k.source.Renew(ctx, due), now.Add(-age))
			}
		}
	}
}

func (k *keeper) renewAge() time.Duration {
	if lock := k.source.LockDuration(); lock > 0 {
		return max(lock/2, minRenewAge)
	}
	return defaultRenewAge
}
