package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

const (
	acceptTimeout = 30 * time.Second // a session that another holds may block as long as it likes
	settleTimeout = slotPatience     // so that nothing starts later; after a broken connection the SDK would try for most of a minute
	renewTimeout  = 10 * time.Second
	closeTimeout  = 3 * time.Second
	replyTimeout  = time.Minute // all tries
	// freshLinkInterval is after how long without a command the link is opened anew: receivers are known to go silent
	// after a long idle time.
	freshLinkInterval = 10 * time.Minute
	// promptly is within what time after it was asked for a message counts as having come at once. One that took longer may have
	// waited on its way here for all of that time, and its time to live may be over.
	promptly = 500 * time.Millisecond
)

// errLinkLost is the SDK's way of receiving nothing before the time is over.
var errLinkLost = errors.New("bus: the link that commands come in over was lost")

// takeFromBus takes commands until the context ends, and returns when all are answered, or a host that does not heed its
// context has had its time. taking is closed once it does.
func (a *Agent) takeFromBus(ctx context.Context, taking chan struct{}) {
	t := &taker{agent: a, taking: taking}
	defer func() {
		if !waitForAll(&t.answering, obedience+closeTimeout) {
			a.cfg.Logger.Error("commands from the bus still run or are being answered; they are left behind")
		}
	}()
	for ctx.Err() == nil {
		err := t.take(ctx)
		if err == nil || ctx.Err() != nil { // the link is to be opened anew, or the agent stops
			continue
		}
		t.failures++
		if t.failures == 2 { // one loss is what networks do
			a.cfg.Logger.Warn("commands do not come in over the bus; it is tried on", "error", err)
		}
		pause(ctx, retryDelay(t.failures))
	}
}

// taker takes commands from the bus; all but the answering is one goroutine.
type taker struct {
	agent     *Agent
	failures  int // since commands could last come in
	taking    chan struct{}
	once      sync.Once
	answering sync.WaitGroup

	askedAt moment  // when the broker was asked for the next message
	seen    witness // the broker's clock and ours, before that
	// returned is the message that was given back last, and has not come again.
	returned *azservicebus.ReceivedMessage
}

// take opens the inbox and takes commands from it until it is lost or has been idle too long.
func (t *taker) take(ctx context.Context) error {
	bus := t.agent.cfg.Bus
	c, err := bus.join()
	if err != nil {
		return err
	}
	defer bus.leave(c)
	opened := now()
	in, err := t.open(ctx, c)
	if err != nil {
		return err
	}
	if t.agent.wrapInbox != nil {
		in = t.agent.wrapInbox(in)
	}
	t.seen, t.returned = witness{in.lockedUntil(nil), opened}, nil
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = in.Close(closing) // the broker ends the lock by itself, later
	}()
	if t.failures > 1 {
		t.agent.cfg.Logger.Info("commands come in over the bus again")
	}
	t.once.Do(func() { close(t.taking) })
	return t.receive(ctx, in)
}

func (t *taker) open(ctx context.Context, c *connection) (inbox, error) {
	select {
	case c.accepting <- struct{}{}:
		defer func() { <-c.accepting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	name, own, bus := t.agent.cfg.Name, t.agent.cfg.CommandSubscription, t.agent.cfg.Bus.cfg
	if own != "" {
		return openSubscription(ctx, c.client, bus.CommandsTopic, own)
	}
	r, err := c.client.AcceptSessionForSubscription(ctx, bus.CommandsTopic, bus.CommandsSubscription, name, nil)
	if err != nil {
		return nil, fmt.Errorf("bus: session %q of subscription %q of topic %q can't be taken: %w",
			name, bus.CommandsSubscription, bus.CommandsTopic, err)
	}
	return sessionInbox{r}, nil
}

// openSubscription peeks once, because a receiver opens its link no earlier.
func openSubscription(ctx context.Context, client *azservicebus.Client, topic, subscription string) (inbox, error) {
	r, err := client.NewReceiverForSubscription(topic, subscription, nil)
	if err == nil {
		if _, err = r.PeekMessages(ctx, 1, nil); err != nil {
			_ = r.Close(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bus: subscription %q of topic %q can't be received from: %w", subscription, topic, err)
	}
	return ownInbox{r}, nil
}

// receive takes commands one by one: with more the SDK would wait for them, 20 ms each time, and what it asked for in
// vain would come when nobody receives.
func (t *taker) receive(ctx context.Context, in inbox) error {
	renewal := jittered(t.agent.cfg.Bus.cfg.LockRenewalInterval, 0.1)
	idle := jittered(freshLinkInterval, 0.2)
	renewedAt, busyAt := time.Now(), time.Now()
	t.askedAt = now()
	for {
		waiting, cancel := context.WithTimeout(ctx, max(0, renewal-time.Since(renewedAt)))
		messages, err := in.ReceiveMessages(waiting, 1, nil)
		ended := waiting.Err() != nil
		cancel()
		for _, m := range messages {
			busyAt = time.Now()
			if err := t.handle(ctx, in, m); err != nil {
				return err
			}
			t.askedAt = now() // the broker owes nothing now; until here, a message may have been on its way all the time
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case len(messages) == 0 && !ended && err == nil:
			return errLinkLost
		case len(messages) == 0 && !ended:
			return fmt.Errorf("bus: commands can't be received: %w", err)
		case time.Since(busyAt) > idle:
			return nil
		}
		t.failures = 0
		if time.Since(renewedAt) >= renewal {
			if err := t.keep(ctx, in); err != nil {
				return err
			}
			renewedAt = time.Now()
		}
	}
}

// keep renews the lock while no command comes, and notes what the broker's clock shows.
func (t *taker) keep(ctx context.Context, in inbox) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	asked := now()
	if err := in.keep(ctx); err != nil {
		return err
	}
	t.seen = witness{in.lockedUntil(nil), asked}
	return nil
}

// handle takes one message. A command counts as arrived when the broker was asked for it: only then it was surely not yet on its
// way, and its time to live not over. What came later than promptly is given back and asked for again, since the broker gives
// it out once more only if its time to live is not over. So it does not matter where it waited: in this process, in a socket,
// or on the network. An error means that the link is of no more use.
func (t *taker) handle(ctx context.Context, in inbox, m *azservicebus.ReceivedMessage) error {
	returned := t.again(m)
	if !countsTheWay {
		t.askedAt = now()
	}
	if !returned && t.askedAt.age() >= promptly {
		return t.giveBack(ctx, in, m)
	}
	t.returned = nil
	t.agent.counters.busCommands.Add(1)
	e, _ := encodingOf(text(m.ContentType))
	cmd, undecodable := decodeCommand(e, m.Body)
	if undecodable != nil {
		t.refuse(ctx, in, m, undecodable)
		return nil
	}
	begun := t.agent.executor.beginFromBus(cmd, t.askedAt)
	if begun.starts() {
		missed, err := t.prove(ctx, in, m)
		if err != nil || missed > 0 && !returned {
			t.agent.executor.abandon(begun)
		}
		switch {
		case err != nil:
			return err
		case missed > 0 && !returned:
			t.agent.cfg.Logger.Warn("this machine's clocks stood still; a command is asked for again", "command_id", m.MessageID, "for", missed)
			return t.giveBack(ctx, in, m)
		}
		begun.receivedAt = begun.receivedAt.earlier(missed)
	}
	t.start(ctx, in, m, begun)
	return nil
}

// again reports whether the message is the one that was given back. It is not given back twice: where it comes slowly once more, the
// way from the broker is slow, and the time counts since it was asked for.
func (t *taker) again(m *azservicebus.ReceivedMessage) bool {
	number := func(m *azservicebus.ReceivedMessage) int64 {
		if m.SequenceNumber == nil {
			return 0
		}
		return *m.SequenceNumber
	}
	return t.returned != nil && number(t.returned) == number(m) && t.returned.MessageID == m.MessageID
}

// giveBack returns a message to the broker, which drops it if its time to live is over, and delivers it again if not.
func (t *taker) giveBack(ctx context.Context, in inbox, m *azservicebus.ReceivedMessage) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := in.AbandonMessage(ctx, m, nil); err != nil {
		return fmt.Errorf("bus: a command that may have waited could not be given back, so it is not started: %w", err)
	}
	t.returned = m
	return nil
}

// prove asks the broker, right before a command is started, whether this machine's clocks counted all of the time: those of a
// virtual machine that was paused count none of it, and then only another machine can tell.
func (t *taker) prove(ctx context.Context, in inbox, m *azservicebus.ReceivedMessage) (missed time.Duration, err error) {
	before := t.seen
	if in.lockedUntil(nil).IsZero() { // the message's own lock: it began when the message was handed out
		before = witness{in.lockedUntil(m), t.askedAt}
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	asked := now()
	if err := in.renew(ctx, m); err != nil {
		return 0, err
	}
	t.seen = witness{in.lockedUntil(nil), asked}
	return before.missed(in.lockedUntil(m), now()), nil
}

// refuse takes what can't be read off the broker's books, into the dead letters, and answers it.
func (t *taker) refuse(ctx context.Context, in inbox, m *azservicebus.ReceivedMessage, undecodable error) {
	if !t.settle(ctx, in, m, undecodable) {
		return
	}
	t.agent.cfg.Logger.Warn("a command can't be read; it was dead-lettered", "command_id", m.MessageID, "error", undecodable)
	t.answering.Go(func() {
		t.reply(ctx, m, t.agent.executor.refused(&agentv1.Command{CommandId: m.MessageID},
			refuse(agentv1.RefusalReason_REFUSAL_REASON_INVALID, "%s", undecodable)))
	})
}

// start settles the message of a command that is in the journal, and then starts it beside the receiving: a crash in between
// leaves a command that is known and not run again. Where the message can't be settled nothing is started, and the journal
// says so: the broker delivers it again, and then it may run; or has it off its books, and the caller who waits is told that it
// may have run.
func (t *taker) start(ctx context.Context, in inbox, m *azservicebus.ReceivedMessage, begun *ticket) {
	if !t.settle(ctx, in, m, nil) {
		t.agent.executor.abandon(begun)
		return
	}
	t.answering.Go(func() {
		result := t.agent.executor.complete(context.Background(), begun)
		ctx, cancel := begun.answering(ctx)
		defer cancel()
		t.reply(ctx, m, result)
		t.agent.executor.answered(begun)
	})
}

// settle takes the message off the broker's books, and reports whether that is sure.
func (t *taker) settle(ctx context.Context, in inbox, m *azservicebus.ReceivedMessage, undecodable error) bool {
	err := settle(ctx, in, m, undecodable)
	if err != nil {
		t.agent.cfg.Logger.Warn("a command could not be settled, so it is not started", "command_id", m.MessageID, "error", err)
	}
	return err == nil
}

// settle takes the message off the broker's books; what can't be read goes to the dead letters.
func settle(ctx context.Context, in inbox, m *azservicebus.ReceivedMessage, undecodable error) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if undecodable == nil {
		return in.CompleteMessage(ctx, m, nil)
	}
	reason, description := "InvalidCommand", shortened(undecodable.Error())
	return in.DeadLetterMessage(ctx, m, &azservicebus.DeadLetterOptions{Reason: &reason, ErrorDescription: &description})
}

// reply sends the answer, also when the agent is stopping by now, though not for long then; but not beyond ctx's deadline.
func (t *taker) reply(ctx context.Context, m *azservicebus.ReceivedMessage, result *agentv1.CommandResult) {
	if !t.agent.cfg.Faults.speak(ctx) {
		return
	}
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), replyTimeout)
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		sending, cancel = context.WithDeadline(sending, deadline)
		defer cancel()
	}
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closeTimeout, cancel) })()
	if err := t.agent.cfg.Bus.sendReply(sending, m, result); err != nil {
		t.agent.counters.repliesFailed.Add(1)
		t.agent.cfg.Logger.Error("the answer to a command could not be sent; whoever waits for it is told that it may have run",
			"command_id", m.MessageID, "outcome", result.GetOutcome().String(), "error", err)
	}
}
