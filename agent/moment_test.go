package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func TestI24_ATimeIsAsLongAsTheClockThatCountedMostSays(t *testing.T) {
	start := now()
	wallOnly := func(d time.Duration) moment { // its monotonic clock stood still meanwhile
		return moment{start.at.Round(0).Add(d), start.suspended}
	}
	for name, c := range map[string]struct {
		later moment
		want  time.Duration
	}{
		"all clocks ran":                         {moment{start.at.Add(time.Second), start.suspended}, time.Second},
		"the machine slept, and its clocks say":  {moment{start.at.Add(time.Second), start.suspended + time.Minute}, time.Minute + time.Second},
		"only the wall clock counted":            {wallOnly(20 * time.Second), 20 * time.Second},
		"it slept, and the wall clock went back": {moment{start.at, start.suspended + 20*time.Second}, 20 * time.Second},
	} {
		if got := start.until(c.later); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if s := suspended(); s < 0 || s > 0 && suspended() < s {
		t.Errorf("the machine slept %s, and then %s", s, suspended())
	}
}

func TestI24_TheBrokersClockShowsWhatOursDidNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) // by a clock that has nothing to do with ours
		w := witness{lock, now()}
		time.Sleep(20 * time.Second) // fake
		for _, c := range []struct {
			broker, want time.Duration
		}{
			{20 * time.Second, 0},
			{20*time.Second + clockSlack, 0},
			{19 * time.Second, 0},
			{-time.Hour, 0},
			{42 * time.Second, 22 * time.Second},
			{time.Hour, time.Hour - 20*time.Second},
		} {
			if got := w.missed(lock.Add(c.broker), now()); got != c.want {
				t.Errorf("while we counted 20 s the broker counted %s: %s were missed, want %s", c.broker, got, c.want)
			}
		}
		if (witness{}).missed(lock, now()) != 0 || w.missed(time.Time{}, now()) != 0 {
			t.Error("a broker that says nothing proves something")
		}
	})
}

// broker is an inbox that says what it is told to, and notes what is done to messages.
type broker struct {
	inbox
	own                  bool          // each message has its own lock
	lock                 time.Time     // end of the session's lock
	paused               time.Duration // how long all clocks of this machine stood still before the next renewal
	lost                 error         // what renewals end with
	abandoned, completed int
}

func (b *broker) ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error) {
	return nil, errors.New("not used")
}

func (b *broker) CompleteMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.CompleteMessageOptions) error {
	b.completed++
	return nil
}

func (b *broker) AbandonMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.AbandonMessageOptions) error {
	b.abandoned++
	return nil
}

func (b *broker) keep(context.Context) error { return nil }

func (b *broker) renew(_ context.Context, m *azservicebus.ReceivedMessage) error {
	if b.own {
		until := m.LockedUntil.Add(b.paused)
		m.LockedUntil = &until
	}
	b.lock, b.paused = b.lock.Add(b.paused), 0
	return b.lost
}

func (b *broker) lockedUntil(m *azservicebus.ReceivedMessage) time.Time {
	if b.own {
		return ownInbox{}.lockedUntil(m)
	}
	return b.lock
}

// arriving is an agent that takes one message again and again, from a broker that the test plays.
type arriving struct {
	*taker
	g       *gateway
	m       *machine
	message *azservicebus.ReceivedMessage
	state   func() string
}

func newArriving(t *testing.T) *arriving {
	t.Helper()
	g, m := newGateway(t), quick()
	a := g.run(Config{Host: m})
	cmd := command(startService(stoppedService))
	body, err := jsonEncoding.marshal(cmd)
	if err != nil {
		t.Fatal(err)
	}
	session, locked := "gw-1", time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return &arriving{
		taker: &taker{agent: a, askedAt: now()}, g: g, m: m,
		message: &azservicebus.ReceivedMessage{
			Body: body, MessageID: cmd.GetCommandId(), ReplyToSessionID: &session, LockedUntil: &locked,
		},
		state: func() string { return stateOf(a, cmd).String() },
	}
}

// notBegun fails the test if the command was started, or is known as begun.
func (a *arriving) notBegun(t *testing.T) {
	t.Helper()
	a.answering.Wait()
	if a.m.starts.Load() != 0 || a.state() != neverReceived.String() {
		t.Fatalf("%d were started, and it is %s", a.m.starts.Load(), a.state())
	}
}

func TestI5_ACommandThatMayHaveWaitedOnItsWayIsAskedForAgain(t *testing.T) {
	a, b := newArriving(t), &broker{}
	a.askedAt = now().earlier(promptly) // the broker may have handed it out any time since
	if err := a.handle(t.Context(), b, a.message); err != nil || b.abandoned != 1 || b.completed != 0 {
		t.Fatalf("%v, %+v", err, b)
	}
	a.notBegun(t)
	a.askedAt = now()
	if err := a.handle(t.Context(), b, a.message); err != nil || b.abandoned != 1 || b.completed != 1 {
		t.Fatalf("%v, %+v", err, b)
	}
	expect(t, a.g.reply(), succeeded, noReason)
	if a.m.starts.Load() != 1 {
		t.Errorf("%d were started", a.m.starts.Load())
	}
}

// The broker drops what is given back too late, and the next command may come long after.
func TestI5_ACommandThatComesAfterOneThatWasGivenBackIsGivenBackToo(t *testing.T) {
	a, b := newArriving(t), &broker{}
	other := *a.message
	other.MessageID = "another one"
	a.askedAt = now().earlier(promptly)
	if err := a.handle(t.Context(), b, &other); err != nil || b.abandoned != 1 {
		t.Fatalf("%v, %+v", err, b)
	}
	a.askedAt = now().earlier(busPatience) // nothing came for a while
	if err := a.handle(t.Context(), b, a.message); err != nil || b.abandoned != 2 || b.completed != 0 {
		t.Fatalf("%v, %+v", err, b)
	}
	a.askedAt = now()
	if err := a.handle(t.Context(), b, a.message); err != nil || b.completed != 1 {
		t.Fatalf("%v, %+v", err, b)
	}
	expect(t, a.g.reply(), succeeded, noReason)
}

func TestI24_AMachineWhoseClocksAllStoodStillStartsNothingLate(t *testing.T) {
	for name, own := range map[string]bool{"lock of the session": false, "lock of the message": true} {
		t.Run(name, func(t *testing.T) {
			a, b := newArriving(t), &broker{own: own}
			if !own {
				b.lock = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
				a.seen = witness{b.lock, now()}
			}
			b.paused = 22 * time.Second // after the broker was asked for it, and before it is started
			if err := a.handle(t.Context(), b, a.message); err != nil || b.abandoned != 1 || b.completed != 0 {
				t.Fatalf("%v, %+v", err, b)
			}
			a.notBegun(t)
			a.askedAt, b.paused = now(), 22*time.Second // once more
			if err := a.handle(t.Context(), b, a.message); err != nil || b.abandoned != 1 || b.completed != 1 {
				t.Fatalf("%v, %+v", err, b)
			}
			expect(t, a.g.reply(), overdue, noReason)
			a.notBegun(t)
			a.askedAt = now() // and now it comes without a pause
			if err := a.handle(t.Context(), b, a.message); err != nil {
				t.Fatal(err)
			}
			expect(t, a.g.reply(), succeeded, noReason)
		})
	}
}

func TestI5_NothingIsStartedOnceTheLockIsLost(t *testing.T) {
	a, b := newArriving(t), &broker{lost: errors.New("the lock was lost")}
	if err := a.handle(t.Context(), b, a.message); !errors.Is(err, b.lost) || b.completed != 0 {
		t.Fatalf("%v, %+v", err, b)
	}
	a.notBegun(t)
}
