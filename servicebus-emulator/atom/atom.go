// Package atom is the administration API of Service Bus: entities as Atom entries over HTTP. It knows XML and what
// Service Bus accepts; what the entities are is behind the interface Entities.
package atom

import (
	"errors"
	"time"
)

// What Entities answer so that clients get the status that Service Bus gives. Any other error means that a setting was
// refused, which its text should name.
var (
	ErrExists   = errors.New("the entity exists already")
	ErrNotFound = errors.New("there is no such entity")
)

// Entities are what is administered. Names are compared without regard to case; the path of a subscription is
// <topic>/Subscriptions/<name>. Lists are in an order that stays, or paging would skip some. Put makes or replaces.
type Entities interface {
	PutTopic(name string, s Settings) error
	PutQueue(name string, s Settings) error
	// PutSubscription with a first rule gives a new subscription that one instead of the rule that selects everything.
	PutSubscription(topic, name string, s Settings, first *Rule) error
	PutRule(topic, subscription string, r Rule) error

	DeleteTopic(name string) bool
	DeleteQueue(name string) bool
	DeleteSubscription(topic, name string) bool
	DeleteRule(topic, subscription, name string) bool

	Topic(name string) (Settings, bool)
	Queue(name string) (Settings, bool)
	Subscription(topic, name string) (Settings, bool)

	Topics() []Settings
	Queues() []Settings
	Subscriptions(topic string) ([]Settings, bool)
	Rules(topic, subscription string) ([]Rule, bool)

	Info(path string) (Info, bool)
}

// Settings of a queue, topic or subscription; what an entity of the kind does not have is zero. Those that were given
// to Put are complete: zero durations mean never or off, not the default.
type Settings struct {
	Name                   string
	LockDuration           time.Duration // queue, subscription
	DefaultTTL             time.Duration // zero: messages do not expire
	MaxDeliveryCount       int           // queue, subscription
	RequiresSession        bool          // queue, subscription; fixed at creation
	DeadLetterOnExpiration bool          // queue, subscription
	ForwardTo              string        // queue, subscription; a path; empty: not
	ForwardDeadLettersTo   string        // queue, subscription; a path; empty: not
	AutoDeleteOnIdle       time.Duration // zero: never
	DuplicateWindow        time.Duration // queue, topic; zero: duplicates are not detected
	MaxSizeInMegabytes     int           // queue, topic
	MaxMessageKilobytes    int           // queue, topic
	Notes                  Notes
}

// Notes are settings that change nothing in an emulator. They are kept so that clients read what they wrote.
type Notes struct {
	UserMetadata              string
	DisableBatchedOperations  bool
	EnablePartitioning        bool
	EnableExpress             bool
	DisableOrdering           bool
	DeadLetterOnFilterFailure bool
	ForwardScheme             string // of the URI that a client set; empty: https
	ForwardDeadLettersScheme  string
}

// Info is what is true of an entity at a moment.
type Info struct {
	Active, DeadLetter, Scheduled, Transfer, TransferDeadLetter int

	Size                             int64 // bytes
	Subscriptions                    int   // of a topic
	CreatedAt, UpdatedAt, AccessedAt time.Time
}

// DefaultRuleName is that of a rule which was made without a name.
const DefaultRuleName = "$Default"

// Rule is a rule of a subscription.
type Rule struct {
	Name   string
	Filter Filter
	Action *SQL // nil: none
}

// FilterKind says which filter a rule has.
type FilterKind string

// The filters of Service Bus, by the names they have in XML.
const (
	TrueFilter        FilterKind = "TrueFilter"
	FalseFilter       FilterKind = "FalseFilter"
	SQLFilter         FilterKind = "SqlFilter"
	CorrelationFilter FilterKind = "CorrelationFilter"
)

// Filter is a filter as it was written.
type Filter struct {
	Kind        FilterKind
	SQL         SQL         // of a SQLFilter
	Correlation Correlation // of a CorrelationFilter
}

// SQL is a condition, or the statements of an action.
type SQL struct {
	Expression string
	Parameters map[string]any // by @name: string, bool, int64, float64, time.Time
}

// Correlation selects messages that equal it in every part that is set.
type Correlation struct {
	ContentType, CorrelationID, Label, MessageID, ReplyTo, ReplyToSessionID, SessionID, To string

	Properties map[string]any // string, bool, int64, float64, time.Time
}
