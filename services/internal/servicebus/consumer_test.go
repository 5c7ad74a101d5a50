package servicebus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	emulator "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/services/internal/config"
)

// claimRenewer may outlive its link: when many at once use a link of the SDK that was lost, each opens it anew, and closing ends the
// renewals of claims of the last one only.
const claimRenewer = "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal.(*Namespace).startNegotiateClaimRenewer.func3"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(claimRenewer)) }

// patience bounds what must happen, so that a failure does not hang; nothing waits for it to pass.
const patience = 30 * time.Second

// heartbeats is a topic "t" with a subscription "s".
func heartbeats(p emulator.SubscriptionProperties) emulator.Config {
	return emulator.Config{UserConfig: emulator.UserConfig{Namespaces: []emulator.Namespace{{
		Topics: []emulator.Topic{{Name: "t", Subscriptions: []emulator.Subscription{{Name: "s", Properties: p}}}},
	}}}}
}

func start(t testing.TB, cfg emulator.Config) *emulator.Emulator {
	t.Helper()
	e, err := emulator.Start(cfg, emulator.Options{})
	check(t, err)
	t.Cleanup(func() { check(t, e.Close()) })
	return e
}

func dial(t testing.TB, e *emulator.Emulator) *Client {
	t.Helper()
	client, err := Dial(Config{ConnectionString: config.Secret(e.ConnectionString())}, DialOptions{})
	check(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = client.Close(ctx)
	})
	return client
}

func consumer(t testing.TB, e *emulator.Emulator) *Consumer {
	t.Helper()
	c := dial(t, e).NewConsumer("t", "s", slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func send(t testing.TB, e *emulator.Emulator, from, to int) {
	t.Helper()
	sender, err := dial(t, e).NewSender("t")
	check(t, err)
	for i := from; i < to; i++ {
		check(t, sender.Send(within(t), &Message{Body: fmt.Append(nil, i)}))
	}
}

// receive gets exactly n messages.
func receive(t testing.TB, c *Consumer, n int) []Delivery {
	t.Helper()
	ctx := within(t)
	var all []Delivery
	for len(all) < n && ctx.Err() == nil {
		all = append(all, c.Receive(ctx, n-len(all))...)
	}
	if len(all) != n {
		t.Fatalf("received %d of %d", len(all), n)
	}
	return all
}

func completions(deliveries []Delivery) []Settlement {
	var settlements []Settlement
	for _, delivery := range deliveries {
		settlements = append(settlements, Settlement{Delivery: delivery})
	}
	return settlements
}

func counts(t testing.TB, e *emulator.Emulator) emulator.Counts {
	t.Helper()
	found, err := e.Counts("t", "s")
	check(t, err)
	return found
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ticker, late := time.NewTicker(2*time.Millisecond), time.After(patience)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-late:
			t.Fatalf("%s: not in time", what)
		}
	}
}

func TestSettlesEachInItsWay(t *testing.T) {
	e := start(t, heartbeats(emulator.SubscriptionProperties{}))
	c := consumer(t, e)
	send(t, e, 0, 30)
	deliveries := receive(t, c, 30)
	settlements := completions(deliveries)
	settlements[7].DeadLetterReason, settlements[7].Description = "BAD", "field seven"
	settlements[9].Release = true
	if got := c.Settle(within(t), settlements); got != (Settled{}) {
		t.Fatalf("settled: %+v", got)
	}
	if got := counts(t, e); got.DeadLetter != 1 || got.Active != 1 || got.Locked != 0 {
		t.Errorf("counts: %+v", got)
	}
	again := receive(t, c, 1)
	if string(again[0].Body) != string(deliveries[9].Body) || again[0].DeliveryCount != 2 {
		t.Errorf("came again: %s, delivery %d", again[0].Body, again[0].DeliveryCount)
	}
	if got := c.LockDuration(); got != unsureLock {
		t.Errorf("lock duration %s; the subscription has one minute, and the broker's clock is not known", got)
	}
}

// The SDK by itself hangs for most of a minute here, and then fails.
func TestSettlesWhatALostConnectionDelivered(t *testing.T) {
	e := start(t, heartbeats(emulator.SubscriptionProperties{}))
	c := consumer(t, e)
	send(t, e, 0, 200)
	settlements := completions(receive(t, c, 200))
	settlements[3].DeadLetterReason, settlements[3].Description = "BAD", "field three"
	e.DropConnections()
	began := time.Now()
	if got := c.Settle(within(t), settlements); got != (Settled{}) {
		t.Fatalf("settled: %+v", got)
	}
	t.Logf("settled 200 by token in %s", time.Since(began))
	if got := counts(t, e); got.DeadLetter != 1 || got.Active != 0 || got.Locked != 0 {
		t.Errorf("counts: %+v", got)
	}
	// The receiver heals, and what comes then is settled on the link.
	send(t, e, 0, 5)
	if got := c.Settle(within(t), completions(receive(t, c, 5))); got != (Settled{}) {
		t.Errorf("after the loss: %+v", got)
	}
	if c.Recreated() == 0 {
		t.Error("no receiver was made anew")
	}
}

// A link that was lost is not opened again by those that settle on it: when many do at once, the SDK opens it for each, and closes one.
func TestSettlingOpensNoLinkAnew(t *testing.T) {
	e := start(t, heartbeats(emulator.SubscriptionProperties{}))
	c := consumer(t, e)
	send(t, e, 0, settlers)
	deliveries := receive(t, c, settlers)
	closed, err := c.client.sdk.NewReceiverForSubscription("t", "s", nil) // as after the SDK closed a receiver's links
	check(t, err)
	from := newLink(closed)
	for i := range deliveries {
		deliveries[i].from = from
	}
	_, err = c.managing(within(t))
	check(t, err)
	before := claimRenewers(t)
	if got := c.Settle(within(t), completions(deliveries)); got != (Settled{}) {
		t.Errorf("settled: %+v", got)
	}
	if after := claimRenewers(t); after != before {
		t.Errorf("%d renewers of claims, before %d: links were opened", after, before)
	}
	if got := counts(t, e); got != (emulator.Counts{}) {
		t.Errorf("counts: %+v", got)
	}
	check(t, closed.Close(within(t)))
}

func claimRenewers(t testing.TB) int {
	t.Helper()
	var stacks strings.Builder
	check(t, pprof.Lookup("goroutine").WriteTo(&stacks, 2))
	return strings.Count(stacks.String(), claimRenewer+"(")
}

// What the broker sends between the last receive and the close is nobody's: it is released, and does not wait for its lock to lapse.
func TestI7_CloseLeavesNothingLocked(t *testing.T) {
	e := start(t, heartbeats(emulator.SubscriptionProperties{MaxDeliveryCount: 2000}))
	sender, err := dial(t, e).NewSender("t")
	check(t, err)
	sending, stop := context.WithCancel(within(t))
	var stream sync.WaitGroup
	defer stream.Wait()
	defer stop()
	stream.Go(func() {
		for sending.Err() == nil {
			if err := sender.Send(sending, &Message{}); err != nil && sending.Err() == nil {
				t.Error(err)
			}
		}
	})
	for name, end := range map[string]func(*Consumer, []Settlement){
		"closed": func(c *Consumer, received []Settlement) {
			c.Settle(within(t), received)
			check(t, c.Close(within(t)))
		},
		"released": func(c *Consumer, received []Settlement) {
			received[0].Release = true
			c.Settle(within(t), received)
		},
	} {
		for range 10 {
			c := consumer(t, e)
			received := completions(c.Receive(within(t), 100))
			if len(received) == 0 {
				t.Fatal("nothing was received")
			}
			end(c, received)
			if got := counts(t, e); got.Locked != 0 {
				t.Fatalf("%s: %+v", name, got)
			}
		}
	}
}

func TestLapsedLocksAreToldApart(t *testing.T) {
	e := start(t, heartbeats(emulator.SubscriptionProperties{}))
	c := consumer(t, e)
	send(t, e, 0, 3)
	deliveries := receive(t, c, 3)
	check(t, e.PauseSubscription("t", "s", true)) // so that what lapses is not delivered at once
	check(t, e.ExpireLocks("t", "s"))
	if got := c.Settle(within(t), completions(deliveries)); got != (Settled{Lapsed: 3}) {
		t.Errorf("settled: %+v", got)
	}
}

func TestRenewKeepsLocks(t *testing.T) {
	e := start(t, heartbeats(emulator.SubscriptionProperties{LockDuration: emulator.Duration(2 * time.Second), MaxDeliveryCount: 1}))
	c := consumer(t, e)
	send(t, e, 0, 40)
	deliveries := receive(t, c, 40)
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
		c.Renew(within(t), deliveries)
		wait(within(t), 200*time.Millisecond)
	}
	if got := c.Settle(within(t), completions(deliveries)); got != (Settled{}) {
		t.Errorf("settled: %+v", got)
	}
	if got := counts(t, e); got != (emulator.Counts{}) {
		t.Errorf("counts: %+v", got)
	}
}

func TestOldestSeesLockedMessages(t *testing.T) {
	e := start(t, heartbeats(emulator.SubscriptionProperties{}))
	c := consumer(t, e)
	if _, found, err := c.Oldest(within(t)); err != nil || found {
		t.Fatalf("empty: %v, %v", found, err)
	}
	send(t, e, 0, 2)
	first := receive(t, c, 1)[0]
	for range 2 { // peeking again begins at the front again
		at, found, err := c.Oldest(within(t))
		if err != nil || !found || !at.Equal(*first.EnqueuedTime) {
			t.Errorf("oldest %v, %v, %v; expected %v", at, found, err, *first.EnqueuedTime)
		}
	}
}

// Whatever happens to connections and locks, every message is received until it is settled.
func TestI7_NothingIsLostWhileConnectionsDrop(t *testing.T) {
	e := start(t, heartbeats(emulator.SubscriptionProperties{MaxDeliveryCount: 2000, LockDuration: emulator.Duration(2 * time.Second)}))
	const messages = 600
	ctx, stop := context.WithCancel(within(t))
	var mu sync.Mutex
	seen := map[string]bool{}
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for range 2 {
		c := consumer(t, e)
		all.Go(func() {
			for ctx.Err() == nil {
				deliveries := c.Receive(ctx, 50)
				if len(deliveries) == 0 {
					continue
				}
				c.Settle(context.WithoutCancel(ctx), completions(deliveries))
				mu.Lock()
				for _, delivery := range deliveries {
					seen[string(delivery.Body)] = true
				}
				mu.Unlock()
			}
		})
	}
	for at := 0; at < messages; at += 100 {
		send(t, e, at, at+100)
		e.DropConnections()
	}
	eventually(t, "all seen and settled", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) == messages && counts(t, e) == (emulator.Counts{})
	})
}

func TestHealsWhenTheBusIsBack(t *testing.T) {
	e, err := emulator.Start(heartbeats(emulator.SubscriptionProperties{}), emulator.Options{})
	check(t, err)
	c := consumer(t, e)
	send(t, e, 0, 1)
	receive(t, c, 1)
	check(t, e.Close())
	if got := c.Receive(within(t), 1); got != nil {
		t.Fatalf("received %v from nowhere", got)
	}
	again, err := emulator.Start(heartbeats(emulator.SubscriptionProperties{}), emulator.Options{Listen: e.Addr()})
	check(t, err)
	defer func() { check(t, again.Close()) }()
	send(t, again, 0, 1)
	receive(t, c, 1)
}

// A receive that comes back empty at once must not become a loop without a pause.
func TestReceiveBacksOff(t *testing.T) {
	e := start(t, heartbeats(emulator.SubscriptionProperties{}))
	c := dial(t, e).NewConsumer("t", "missing", slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	calls := 0
	for ; ctx.Err() == nil; calls++ {
		c.Receive(ctx, 1)
	}
	if calls > 20 {
		t.Errorf("%d receives within half a second", calls)
	}
	check(t, c.Close(within(t)))
}

func TestBackoffGrowsAndIsBounded(t *testing.T) {
	for failures := 1; failures < 100; failures++ {
		shortest, longest := backoff(failures, 0), backoff(failures, 1)
		if shortest < minBackoff || longest > maxBackoff || shortest > longest {
			t.Errorf("%d failures: %s to %s", failures, shortest, longest)
		}
		if failures > 1 && backoff(failures, 0.5) < backoff(failures-1, 0.5) {
			t.Errorf("%d failures: shorter than before", failures)
		}
	}
}

// A receiver that hears nothing while the same message waits through two receives is made anew.
func TestSilentReceiverIsMadeAnew(t *testing.T) {
	e := start(t, heartbeats(emulator.SubscriptionProperties{}))
	c := consumer(t, e)
	ctx := within(t)
	from, err := c.delivering(ctx)
	check(t, err)
	for range 3 {
		c.silence(ctx, from) // nothing waits: nothing is wrong
	}
	if c.Recreated() != 0 {
		t.Fatal("made anew although nothing waited")
	}
	send(t, e, 0, 1)
	c.silence(ctx, from)
	if c.Recreated() != 0 {
		t.Fatal("made anew at the first silent receive")
	}
	c.silence(ctx, from)
	if c.Recreated() != 1 {
		t.Fatal("not made anew")
	}
	receive(t, c, 1)
}

func TestI17_MissingEntitiesAreNamed(t *testing.T) {
	e := start(t, heartbeats(emulator.SubscriptionProperties{}))
	client := dial(t, e)
	for name, err := range map[string]error{
		"subscription t/nope": client.CheckListen(within(t), "t", "nope"),
		"subscription nope/s": client.CheckListen(within(t), "nope", "s"),
		"topic nope":          client.CheckSend(within(t), "nope"),
		"subscription t/none": client.CheckSession(within(t), "t", "none"),
	} {
		var access *AccessError
		if !errors.As(err, &access) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("%s: %v", name, err)
		}
	}
	check(t, client.CheckListen(within(t), "t", "s"))
	check(t, client.CheckSend(within(t), "t"))
}

func TestI17_MissingRightsAreNamed(t *testing.T) {
	e, err := emulator.Start(heartbeats(emulator.SubscriptionProperties{}), emulator.Options{Keys: map[string]string{"app": "fake"}})
	check(t, err)
	defer func() { check(t, e.Close()) }()
	wrong := strings.Replace(e.ConnectionString(), "=fake", "=wrong", 1)
	client, err := Dial(Config{ConnectionString: config.Secret(wrong)}, DialOptions{})
	check(t, err)
	defer client.Close(within(t)) //nolint:errcheck // a test
	for right, err := range map[string]error{
		"Listen": client.CheckListen(within(t), "t", "s"),
		"Send":   client.CheckSend(within(t), "t"),
	} {
		var access *AccessError
		if !errors.As(err, &access) || !strings.Contains(err.Error(), "lacks the right "+right) {
			t.Errorf("%s: %v", right, err)
		}
	}
	var access *AccessError
	if err := client.CheckSession(within(t), "t", "s"); !errors.As(err, &access) || !strings.Contains(err.Error(), "lacks the right Listen") {
		t.Error(err)
	}
}

func TestI17_SessionsWhereNoneAreWanted(t *testing.T) {
	e := start(t, heartbeats(emulator.SubscriptionProperties{RequiresSession: true}))
	err := dial(t, e).CheckListen(within(t), "t", "s")
	var access *AccessError
	if !errors.As(err, &access) || !strings.Contains(err.Error(), "subscription t/s") {
		t.Errorf("%v", err)
	}
	check(t, dial(t, e).CheckSession(within(t), "t", "s"))
}

func TestI17_NoSessionsWhereTheyAreWanted(t *testing.T) {
	e := start(t, heartbeats(emulator.SubscriptionProperties{}))
	err := dial(t, e).CheckSession(within(t), "t", "s")
	var access *AccessError
	if !errors.As(err, &access) || !strings.Contains(err.Error(), "subscription t/s") {
		t.Errorf("%v", err)
	}
}

// A message that waited long before it was locked does not make the lock look longer than it is.
func TestI7_ABacklogDoesNotTeachALongerLock(t *testing.T) {
	now := time.Now()
	locked := func(waited, lock time.Duration) *ReceivedMessage {
		enqueued, until := now.Add(-waited), now.Add(lock)
		return &ReceivedMessage{EnqueuedTime: &enqueued, LockedUntil: &until}
	}
	// The broker's clock is ahead of this machine's by so much, and known by a message of ours, or not.
	type clock struct {
		ahead time.Duration
		known bool
	}
	for name, row := range map[string]struct {
		messages    []*ReceivedMessage
		clock       clock
		least, most time.Duration
	}{
		"fresh":                     {[]*ReceivedMessage{locked(0, time.Minute)}, clock{known: true}, 50 * time.Second, time.Minute},
		"an hour old":               {[]*ReceivedMessage{locked(time.Hour, 30*time.Second)}, clock{known: true}, 20 * time.Second, 30 * time.Second},
		"old, then fresh":           {[]*ReceivedMessage{locked(time.Minute, 30*time.Second), locked(0, 30*time.Second)}, clock{known: true}, 20 * time.Second, 30 * time.Second},
		"the broker's clock ahead":  {[]*ReceivedMessage{locked(-time.Hour+3*time.Minute, time.Hour+time.Minute)}, clock{time.Hour, true}, 50 * time.Second, time.Minute},
		"the broker's clock behind": {[]*ReceivedMessage{locked(time.Hour+time.Second, -time.Hour+time.Minute)}, clock{-time.Hour, true}, 50 * time.Second, time.Minute + time.Second},
		"behind, and an hour old":   {[]*ReceivedMessage{locked(2*time.Hour, -time.Hour+time.Minute)}, clock{-time.Hour, true}, 50 * time.Second, time.Minute},
		"not known, fresh":          {[]*ReceivedMessage{locked(0, 10*time.Second)}, clock{}, 10 * time.Second, 10 * time.Second},
		"not known, three min old":  {[]*ReceivedMessage{locked(3*time.Minute, time.Minute)}, clock{}, 0, 30 * time.Second},
	} {
		c := &Consumer{}
		if row.clock.known {
			c.clock.Stamped(now.Add(row.clock.ahead), now, now)
		}
		for _, message := range row.messages {
			c.learnLock(message)
		}
		if got := c.LockDuration(); got < row.least || got > row.most {
			t.Errorf("%s: %s", name, got)
		}
	}
	c := &Consumer{}
	c.learnLock(locked(0, time.Minute))
	c.clock.Stamped(now, now, now)
	c.learnLock(locked(0, time.Minute))
	if got := c.LockDuration(); got < 50*time.Second {
		t.Error("once the broker's clock is known, the lock is", got)
	}
}

// A lone message is passed on soon; a flow is gathered.
func TestLingerFollowsTheFlow(t *testing.T) {
	linger := time.Duration(0)
	for range 20 {
		if linger = nextLinger(linger, 1); linger != minLinger {
			t.Fatalf("lone messages linger %s", linger)
		}
	}
	for range 20 {
		linger = nextLinger(linger, 2)
	}
	if linger != maxLinger {
		t.Errorf("a flow is gathered for %s", linger)
	}
	if linger = nextLinger(linger, 0); linger != minLinger {
		t.Errorf("after the flow: %s", linger)
	}
}

// A consumer that stands still holds what the broker sent it ahead: no more than its credit, however many wait.
func TestI7_NoMoreIsSentAheadThanTheCredit(t *testing.T) {
	e := start(t, heartbeats(emulator.SubscriptionProperties{LockDuration: emulator.Duration(time.Minute)}))
	c := dial(t, e).NewConsumer("t", "s", slog.New(slog.DiscardHandler))
	c.Credit = 16
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	send(t, e, 0, 100)
	for got, ctx := 0, within(t); got < 100 && ctx.Err() == nil; {
		deliveries := c.Receive(ctx, 500)
		got += len(deliveries)
		if held := counts(t, e).Locked; len(deliveries) > 16 || held > 16 {
			t.Fatalf("one receive gave %d messages, and %d are locked, with a credit of 16", len(deliveries), held)
		}
		c.Settle(ctx, completions(deliveries))
	}
}
