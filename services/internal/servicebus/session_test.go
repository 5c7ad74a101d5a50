package servicebus

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	emulator "github.com/commandcenter/fleet/servicebus-emulator"
)

// held is a session that is held in the background.
type held struct {
	delivered chan string
	lost      chan struct{}
}

func hold(t testing.TB, e *emulator.Emulator, id string, silence time.Duration) *held {
	t.Helper()
	h := &held{delivered: make(chan string, 10_000), lost: make(chan struct{}, 100)}
	session := &Session{
		Client: dial(t, e), Topic: "t", Subscription: "s", ID: id, Silence: silence, Logger: slog.New(slog.NewTextHandler(&quietly{t: t}, nil)),
		Deliver: func(m *ReceivedMessage) { h.delivered <- string(m.Body) },
		Lost:    func() { h.lost <- struct{}{} },
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := session.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return h
}

// quietly shows a log only where a test failed or is verbose.
type quietly struct{ t testing.TB }

func (q *quietly) Write(line []byte) (int, error) {
	q.t.Log(string(bytes.TrimSpace(line)))
	return len(line), nil
}

func (h *held) next(t testing.TB) string {
	t.Helper()
	select {
	case body := <-h.delivered:
		return body
	case <-time.After(patience):
		t.Fatal("nothing was delivered")
		return ""
	}
}

func (h *held) waitLost(t testing.TB) {
	t.Helper()
	select {
	case <-h.lost:
	case <-time.After(patience):
		t.Fatal("the session was not lost")
	}
}

func toSession(t testing.TB, sender *Sender, id, body string) {
	t.Helper()
	check(t, sender.Send(within(t), &Message{SessionID: &id, Body: []byte(body)}))
}

func sessions() emulator.Config {
	return heartbeats(emulator.SubscriptionProperties{RequiresSession: true})
}

func TestSessionDeliversOnlyItsOwn(t *testing.T) {
	bus := start(t, sessions())
	sender, err := dial(t, bus).NewSender("t")
	check(t, err)
	mine, others := hold(t, bus, "mine", 0), hold(t, bus, "others", 0)
	for i := range 100 {
		toSession(t, sender, "others", fmt.Sprint("other ", i))
		toSession(t, sender, "mine", fmt.Sprint("mine ", i))
	}
	for i := range 100 {
		if got, want := mine.next(t), fmt.Sprint("mine ", i); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		if got, want := others.next(t), fmt.Sprint("other ", i); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	// Deleted at once: nothing is left to settle.
	if left := counts(t, bus); left.Active != 0 {
		t.Fatalf("%+v are left", left)
	}
}

func TestSessionIsTakenAgainWhenTheConnectionIsLost(t *testing.T) {
	bus := start(t, sessions())
	sender, err := dial(t, bus).NewSender("t")
	check(t, err)
	h := hold(t, bus, "mine", 0)
	toSession(t, sender, "mine", "before")
	h.next(t)
	bus.DropConnections()
	h.waitLost(t)
	again, err := dial(t, bus).NewSender("t")
	check(t, err)
	toSession(t, again, "mine", "after")
	if got := h.next(t); got != "after" {
		t.Fatalf("got %q", got)
	}
}

func TestSessionIsTakenAgainWhenItsLockIsLost(t *testing.T) {
	bus := start(t, sessions())
	sender, err := dial(t, bus).NewSender("t")
	check(t, err)
	h := hold(t, bus, "mine", 0)
	toSession(t, sender, "mine", "before")
	h.next(t)
	check(t, bus.ExpireLocks("t", "s"))
	h.waitLost(t)
	toSession(t, sender, "mine", "after")
	if got := h.next(t); got != "after" {
		t.Fatalf("got %q", got)
	}
}

func TestSessionIsTakenAgainWhenNothingIsHeard(t *testing.T) {
	bus := start(t, sessions())
	sender, err := dial(t, bus).NewSender("t")
	check(t, err)
	h := hold(t, bus, "mine", 50*time.Millisecond)
	h.waitLost(t)
	toSession(t, sender, "mine", "after")
	if got := h.next(t); got != "after" {
		t.Fatalf("got %q", got)
	}
}

func TestSessionWaitsForItsTurnWhileAnotherHoldsIt(t *testing.T) {
	bus := start(t, sessions())
	sender, err := dial(t, bus).NewSender("t")
	check(t, err)
	holder, err := dial(t, bus).sdk.AcceptSessionForSubscription(within(t), "t", "s", "mine", nil)
	check(t, err)
	h := hold(t, bus, "mine", 0)
	toSession(t, sender, "mine", "for the second")
	check(t, holder.Close(within(t)))
	if got := h.next(t); got != "for the second" {
		t.Fatalf("got %q", got)
	}
}
