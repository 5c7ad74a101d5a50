package broker

import (
	"fmt"
	"strings"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/filter"
)

// Defaults of Service Bus, but for the size, which there is 1024 MB and on disk. They stand in for zero values.
const (
	DefaultLockDuration           = time.Minute
	DefaultMaxDeliveryCount       = 10
	DefaultMaxSize          int64 = 256 << 20
	DefaultMaxMessageSize         = 256 << 10
	DefaultDuplicateWindow        = 10 * time.Minute // where duplicates are detected
)

// QueueSettings describe a queue or a subscription.
type QueueSettings struct {
	Name                   string
	LockDuration           time.Duration // of messages and of sessions
	DefaultTTL             time.Duration // zero: messages do not expire by default
	MaxDeliveryCount       uint32        // deliveries after which a message is dead-lettered
	RequiresSession        bool          // fixed at creation
	DeadLetterOnExpiration bool
	ForwardTo              string        // path of the queue or topic its messages move on to; empty: they stay
	ForwardDeadLettersTo   string        // the same for its dead-letter queue
	AutoDeleteOnIdle       time.Duration // without use for so long it is deleted; zero: never
	Rules                  []Rule        // of a new subscription; none: one that selects every message
	DuplicateWindow        time.Duration // of a queue: see TopicSettings
	MaxSize                int64         // of a queue, bytes: see TopicSettings
	MaxMessageSize         int           // of a queue, bytes
	Notes                  any           // kept for whoever made it
}

// SubscriptionSettings describe a subscription, which is a queue with rules.
type SubscriptionSettings = QueueSettings

// Rule selects messages of a topic for a subscription. All rules without an action give one copy together; one with an action gives
// a copy of its own, which the action changes.
type Rule struct {
	Name      string
	Filter    filter.Filter
	Action    *filter.Action // nil: none
	CreatedAt time.Time      // set by the broker
}

// DefaultRuleName is the name of the rule that a subscription created without rules has.
const DefaultRuleName = "$Default"

// TopicSettings describe a topic and its subscriptions.
type TopicSettings struct {
	Name             string
	DefaultTTL       time.Duration // zero: messages do not expire by default
	MaxSize          int64         // bytes that the messages of all its subscriptions may take
	MaxMessageSize   int           // bytes
	DuplicateWindow  time.Duration // a message with the id of one sent so long ago is dropped; zero at creation: never
	AutoDeleteOnIdle time.Duration // without use for so long it is deleted; zero: never
	Subscriptions    []SubscriptionSettings
	Notes            any // kept for whoever made it
}

func (s TopicSettings) withDefaults() TopicSettings {
	s.MaxSize, s.MaxMessageSize = orDefault(s.MaxSize, DefaultMaxSize), orDefault(s.MaxMessageSize, DefaultMaxMessageSize)
	return s
}

func (s QueueSettings) withDefaults() QueueSettings {
	s.LockDuration = orDefault(s.LockDuration, DefaultLockDuration)
	s.MaxDeliveryCount = orDefault(s.MaxDeliveryCount, DefaultMaxDeliveryCount)
	s.MaxSize, s.MaxMessageSize = orDefault(s.MaxSize, DefaultMaxSize), orDefault(s.MaxMessageSize, DefaultMaxMessageSize)
	return s
}

func orDefault[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}

// check refuses what Service Bus refuses of a queue, or of a subscription of that topic, with this path.
func (s QueueSettings) check(path, topic string) error {
	switch {
	case s.RequiresSession && s.ForwardTo != "":
		return fmt.Errorf("%q: ForwardTo cannot be set where RequiresSession is", path)
	case strings.EqualFold(s.ForwardTo, path), strings.EqualFold(s.ForwardDeadLettersTo, path):
		return fmt.Errorf("%q: it cannot forward to itself", path)
	case strings.EqualFold(s.ForwardTo, topic), strings.EqualFold(s.ForwardDeadLettersTo, topic):
		return fmt.Errorf("%q: it cannot forward to its own topic", path)
	}
	return nil
}

// destination is the part of a queue's settings that is about sending to it.
func (s QueueSettings) destination() TopicSettings {
	return TopicSettings{
		Name: s.Name, MaxSize: s.MaxSize, MaxMessageSize: s.MaxMessageSize,
		DuplicateWindow: s.DuplicateWindow, AutoDeleteOnIdle: s.AutoDeleteOnIdle, Notes: s.Notes,
	}
}

// forDeadLetters is the settings of a queue's dead-letter queue.
func (s QueueSettings) forDeadLetters() QueueSettings {
	return QueueSettings{
		Name: s.Name, LockDuration: s.LockDuration, MaxDeliveryCount: s.MaxDeliveryCount, ForwardTo: s.ForwardDeadLettersTo,
	}
}
