package servicebusemulator

import (
	"fmt"
	"strings"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/faults"
	"github.com/commandcenter/fleet/servicebus-emulator/node"
)

// Always as the count n of a fault means until it is ended, which a count of 0 or EndFaults does.
const Always = faults.Always

// Fault is one that is on.
type Fault = faults.Fault

// conditionBusy and busy are how Azure throttles.
const (
	conditionBusy amqp.Symbol = "com.microsoft:server-busy"
	busy                      = "The request was terminated because the entity is being throttled. Error code : 50009. " +
		"Please wait 2 seconds and try again."
	onDemand = "a fault on demand"
)

// fieldError is what is wrong with what a fault was given.
type fieldError struct{ field, problem string }

func (e *fieldError) Error() string { return "emulator: " + e.field + ": " + e.problem }

// Faults answers those that are on.
func (e *Emulator) Faults() []Fault { return e.faults.List() }

// EndFaults ends all of them: what was refused works, what was paused or held goes on.
func (e *Emulator) EndFaults() {
	for _, fault := range e.faults.End() {
		if fault.Name != faults.PauseSubscription {
			continue
		}
		if q := e.broker.Queue(fault.Entity); q != nil {
			q.Pause(false)
		}
	}
}

// DropConnections closes every TCP connection now, without a word to the clients, as a network failure does. New
// ones are taken.
func (e *Emulator) DropConnections() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for conn := range e.connections {
		conn.Drop()
	}
}

// DetachLinks ends the links to an entity, its dead-letter queue and its $management now, with an error such as
// amqp:link:detach-forced, and refuses with it those that wait for a session. It answers how many there were. Empty
// means all entities. New links are taken.
func (e *Emulator) DetachLinks(entity, condition string) (int, error) {
	if err := e.checkFault(entity, condition); err != nil {
		return 0, err
	}
	reason := amqp.Errorf(amqp.Symbol(condition), "%s", onDemand)
	picked := func(a *amqp.Attach) bool {
		address := node.Address(a)
		return address != node.CBS && faults.Covers(entity, address)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for conn := range e.connections {
		n += conn.DetachLinks(picked, reason)
	}
	return n, nil
}

// Throttle answers the next n operations as Azure does when it is busy, with com.microsoft:server-busy: sends are
// rejected, links refused, management answers 503. Settling and $cbs work.
func (e *Emulator) Throttle(n int) {
	e.faults.Set(Fault{Name: faults.Throttle, Condition: conditionBusy, Count: max(n, Always)}, busy)
}

// RejectSends rejects the next n messages or batches sent to an entity (empty: to any) with an error; they are not stored.
func (e *Emulator) RejectSends(entity, condition string, n int) error {
	return e.refuse(faults.RejectSends, entity, condition, n)
}

// RefuseAttaches refuses the next n links to an entity, its dead-letter queue and its $management (empty: to any) with
// an error.
func (e *Emulator) RefuseAttaches(entity, condition string, n int) error {
	return e.refuse(faults.RefuseAttaches, entity, condition, n)
}

func (e *Emulator) refuse(name, entity, condition string, n int) error {
	if err := e.checkFault(entity, condition); err != nil {
		return err
	}
	e.faults.Set(Fault{Name: name, Entity: entity, Condition: amqp.Symbol(condition), Count: max(n, Always)}, onDemand)
	return nil
}

// RefuseAuth answers the next n tokens put to $cbs with 401, whatever they are. What is attached stays so.
func (e *Emulator) RefuseAuth(n int) {
	e.faults.Set(Fault{Name: faults.RefuseAuth, Condition: amqp.ErrUnauthorizedAccess, Count: max(n, Always)}, onDemand)
}

// LoseAnswers stores the next n messages or batches sent to an entity (empty: to any), never answers them and drops
// their connections: the sender cannot know whether they were stored, nor those under way on the same connection.
func (e *Emulator) LoseAnswers(entity string, n int) error {
	return e.lose(faults.LoseAnswers, entity, n)
}

// LoseDispositions carries out the next n settlements of an entity's messages (empty: of any), on links and through
// $management, and never answers them. The connections stay.
func (e *Emulator) LoseDispositions(entity string, n int) error {
	return e.lose(faults.LoseDispositions, entity, n)
}

func (e *Emulator) lose(name, entity string, n int) error {
	if err := e.checkEntity(entity); err != nil {
		return err
	}
	e.faults.Set(Fault{Name: name, Entity: entity, Count: max(n, Always)}, onDemand)
	return nil
}

// Delay holds all that clients are sent, such as messages and answers, for d: each frame comes between d and 2d late, in
// order. What they send is acted on at once. Another delay lets go of what is held; 0 ends it. Clients take a connection on
// which nothing comes for longer than their idle timeout for dead.
func (e *Emulator) Delay(d time.Duration) { e.faults.SetDelay(d) }

// PauseSubscription holds back every message of a subscription, or ends that. Settling works meanwhile.
func (e *Emulator) PauseSubscription(topic, subscription string, paused bool) error {
	q, err := e.subscription(topic, subscription)
	if err != nil {
		return err
	}
	q.Pause(paused)
	fault := Fault{Name: faults.PauseSubscription, Entity: topic + "/Subscriptions/" + subscription}
	if paused {
		fault.Count = Always
	}
	e.faults.Set(fault, "")
	return nil
}

// ExpireLocks ends all locks on messages and sessions of a subscription now, as if their time had come.
func (e *Emulator) ExpireLocks(topic, subscription string) error {
	q, err := e.subscription(topic, subscription)
	if err != nil {
		return err
	}
	q.ExpireLocks()
	return nil
}

func (e *Emulator) checkFault(entity, condition string) error {
	notASCII := func(r rune) bool { return r <= ' ' || r > '~' }
	if condition == "" || len(condition) > 255 || strings.ContainsFunc(condition, notASCII) {
		return &fieldError{"condition", fmt.Sprintf("%q is not an AMQP error condition, such as %s", condition, amqp.ErrDetachForced)}
	}
	return e.checkEntity(entity)
}

// checkEntity keeps a fault from never striking because of a misspelling.
func (e *Emulator) checkEntity(entity string) error {
	if entity != "" && (e.broker.Queue(entity) == nil && e.broker.Destination(entity) == nil || strings.Trim(entity, "/") != entity) {
		return &fieldError{"entity", fmt.Sprintf("there is no %q; entities are such as t, or t/Subscriptions/s", entity)}
	}
	return nil
}
