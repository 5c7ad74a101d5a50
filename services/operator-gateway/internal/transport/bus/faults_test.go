package bus

import (
	"context"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	emulator "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/operator-gateway/internal/command"
)

func TestI3_WhenTheRepliesAreLostNothingIsSentAgain(t *testing.T) {
	for name, lose := range map[string]func(*emulator.Emulator) error{
		"session lock":    func(bus *emulator.Emulator) error { return bus.ExpireLocks("agent-replies", "gateways") },
		"all connections": func(bus *emulator.Emulator) error { bus.DropConnections(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			bus := startBus(t)
			g := startGateway(t, bus)
			cmd := restart()
			answered := make(chan error, 1)
			go func() { _, err := g.send(within(t), cmd); answered <- err }()
			eventually(t, "the command is on the bus", func() bool { return waiting(t, bus) == 1 })
			check(t, lose(bus))
			eventually(t, "the reply path is proven again", func() bool { return g.Ready() == nil })
			if got := waiting(t, bus); got != 1 {
				t.Fatalf("%d commands are on the bus", got)
			}
			// The agent's answer is heard: the session is the same one.
			startAgent(t, bus, succeed)
			check(t, <-answered)
			// And the next one is sent and answered again.
			_, err := g.send(within(t), restart())
			check(t, err)
		})
	}
}

// An agent that doubts whether its reply was sent sends it again.
func TestAReplyThatComesTwiceIsNoLateOne(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	startAgent(t, bus, func(a *agent, to *azservicebus.ReceivedMessage) { succeed(a, to); succeed(a, to) })
	for range 20 {
		_, err := g.send(within(t), restart())
		check(t, err)
	}
	_, err := g.send(within(t), restart())
	check(t, err)
	if log := g.log.String(); strings.Contains(log, "late reply") {
		t.Error(log)
	}
}

// One command may be asked for twice at once; each caller hears of it.
func TestTwoWhoWaitForOneCommandBothHear(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	both := make(chan *azservicebus.ReceivedMessage, 2)
	a := startAgent(t, bus, func(_ *agent, to *azservicebus.ReceivedMessage) { both <- to })
	cmd := restart()
	answered := make(chan error, 2)
	for range 2 {
		go func() { _, err := g.send(within(t), cmd); answered <- err }()
	}
	<-both
	succeed(a, <-both)
	check(t, <-answered)
	check(t, <-answered)
}

// Replies are told apart by id, so one must never stand for another command's.
func TestI4_OneIDStandsForOneCommand(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	a := startAgent(t, bus, nil)
	first := restart()
	answered := make(chan error, 1)
	go func() { _, err := g.send(within(t), first); answered <- err }()
	message := a.next()
	other := restart()
	other.CommandId, other.Operation = first.GetCommandId(), &agentv1.Command_Uninstall{Uninstall: &agentv1.Uninstall{Installation: "x"}}
	elsewhere := restart()
	elsewhere.CommandId = first.GetCommandId()
	refused := func() {
		_, err := g.send(within(t), other)
		if found := notSent(t, err); found.Reason != fault.CommandRefused {
			t.Errorf("another operation: %v", err)
		}
		_, err = g.Send(within(t), command.Target{Name: "BM-0043", Reported: "bm-0043"}, elsewhere, yes)
		if found := notSent(t, err); found.Reason != fault.CommandRefused {
			t.Errorf("another agent: %v", err)
		}
	}
	refused()
	succeed(a, message)
	check(t, <-answered)
	refused() // afterwards too: a reply may come late, or twice
}

// Each gateway has a session of its own, so any replica serves any request; and one that starts again is a new one.
func TestGatewaysSideBySideEachHearTheirOwnReplies(t *testing.T) {
	bus := startBus(t)
	first, second := startGateway(t, bus), startGateway(t, bus)
	startAgent(t, bus, succeed)
	answered := make(chan error, 200)
	for i := range cap(answered) {
		g := []*gateway{first, second}[i%2]
		go func() { _, err := g.send(within(t), restart()); answered <- err }()
	}
	for range cap(answered) {
		check(t, <-answered)
	}
	if first.incarnation == second.incarnation {
		t.Error("two gateways are one")
	}
	for _, g := range []*gateway{first, second} {
		if log := g.log.String(); strings.Contains(log, "late reply") || strings.Contains(log, "session was lost") {
			t.Error(log)
		}
	}
}

func TestI3_AGatewayThatEndsLeavesOthersAlone(t *testing.T) {
	bus := startBus(t)
	dying, living := startGateway(t, bus), startGateway(t, bus)
	a := startAgent(t, bus, nil)
	abandoned := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { _, err := dying.send(ctx, restart()); abandoned <- err }()
	left := a.next()
	stop()
	inDoubt(t, <-abandoned)
	dying.end()
	answered := make(chan error, 1)
	go func() { _, err := living.send(within(t), restart()); answered <- err }()
	succeed(a, left) // nobody hears it
	succeed(a, a.next())
	check(t, <-answered)
	// It starts again, and the agent is not blocked for it.
	again := startGateway(t, bus)
	go func() { _, err := again.send(within(t), restart()); answered <- err }()
	succeed(a, a.next())
	check(t, <-answered)
	if log := again.log.String() + living.log.String(); strings.Contains(log, "late reply") {
		t.Error(log)
	}
}

// A send that the broker stored but did not answer is in doubt: it is not sent again, and its reply is waited for.
func TestI4_ASendThatWasStoredButNotAnsweredIsNotSentAgain(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	a := startAgent(t, bus, succeed)
	check(t, bus.LoseAnswers("agent-commands", 1))
	cmd := restart()
	_, err := g.send(within(t), cmd)
	check(t, err)
	behind := restart()
	_, err = g.send(within(t), behind)
	check(t, err)
	if first, second := a.next().MessageID, a.next().MessageID; first != cmd.GetCommandId() || second != behind.GetCommandId() {
		t.Errorf("the agent got %s and %s", first, second)
	}
}

// What the broker refuses was not sent, and says so.
func TestI3_ASendThatTheBrokerRefusesIsNotSent(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	check(t, g.Prepare(within(t)))
	check(t, bus.RejectSends("agent-commands", "com.microsoft:server-busy", 1))
	_, err := g.send(within(t), restart())
	if found := notSent(t, err); found.Reason != fault.BusUnavailable || waiting(t, bus) != 0 {
		t.Errorf("%+v; %d were sent", found, waiting(t, bus))
	}
	startAgent(t, bus, succeed)
	_, err = g.send(within(t), restart())
	check(t, err)
}

// A throttled broker costs neither the session nor the replies in it.
func TestI3_AThrottlingBrokerLosesNoReply(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	a := startAgent(t, bus, nil)
	answered := make(chan error, 1)
	go func() { _, err := g.send(within(t), restart()); answered <- err }()
	message := a.next()
	bus.Throttle(-1)
	bus.EndFaults()
	succeed(a, message)
	check(t, <-answered)
}

// A command that the broker kept until its time was over is given to nobody.
func TestI5_ACommandThatIsHeldUpIsNotDeliveredLate(t *testing.T) {
	bus := startBus(t)
	g := startGateway(t, bus)
	check(t, bus.PauseSubscription("agent-commands", "agents", true))
	a := startAgent(t, bus, succeed)
	expires(t, bus, g)
	check(t, bus.PauseSubscription("agent-commands", "agents", false))
	behind := restart()
	_, err := g.send(within(t), behind)
	check(t, err)
	if got := a.next().MessageID; got != behind.GetCommandId() {
		t.Errorf("the agent got command %s, whose time was over", got)
	}
}
