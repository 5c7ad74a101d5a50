package broker

import (
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/filter"
)

// QueueSettings describe a queue or a subscription.
type QueueSettings struct {
	Name                   string
	LockDuration           time.Duration // of messages and of sessions; more than zero
	DefaultTTL             time.Duration // zero: messages do not expire by default
	MaxDeliveryCount       uint32        // deliveries after which a message is dead-lettered; at least 1
	RequiresSession        bool
	DeadLetterOnExpiration bool
	Filter                 filter.Filter // of a subscription, its rules without an action; nil: every message
	Actions                []Rule        // of a subscription, its rules with an action
	MaxSize                int64         // of a queue, bytes: see TopicSettings
	MaxMessageSize         int           // of a queue, bytes
}

// TopicSettings describe a topic and its subscriptions.
type TopicSettings struct {
	Name           string
	DefaultTTL     time.Duration // zero: messages do not expire by default
	MaxSize        int64         // bytes that the messages of all its subscriptions may take; more than zero
	MaxMessageSize int           // bytes; more than zero
	Subscriptions  []QueueSettings
}
