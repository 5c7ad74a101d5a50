package page

import "time"

// Source is what the pages show.
type Source interface {
	// Entities lists the queues and topics by name, each topic followed by its subscriptions.
	Entities() []Entity
	// Messages answers up to limit messages of a queue, subscription or dead-letter queue, from a sequence number on, and says whether
	// there is such an entity.
	Messages(path string, from int64, limit int) ([]Message, bool)
	// Move moves a message from a dead-letter queue back to its entity.
	Move(path string, sequence int64) error
	// Delete deletes a message.
	Delete(path string, sequence int64) error
}

// Entity is a queue, topic or subscription.
type Entity struct {
	Kind       string // "queue", "topic" or "subscription"
	Name       string
	Path       string
	DeadPath   string // of its dead-letter queue; empty for a topic
	Active     int    // messages, as Service Bus counts them
	Locked     int
	Deferred   int
	Scheduled  int
	DeadLetter int
	Size       int64 // bytes; of a subscription zero: its topic counts them
	Note       string
}

// Message is a message as the pages show it.
type Message struct {
	Sequence      int64
	ID            string
	Subject       string
	SessionID     string
	CorrelationID string
	ContentType   string
	State         string // "active", "locked", "deferred" or "scheduled"
	Until         time.Time
	EnqueuedAt    time.Time
	ExpiresAt     time.Time // zero: never
	DeliveryCount uint32
	Size          int64 // bytes
	Source        string
	Reason        string // of a dead letter
	Description   string
	Properties    []Property
	Body          string // text, or the bytes in hexadecimal
	More          int64  // bytes of the body that are not shown
}

// Property is an application property.
type Property struct{ Name, Value string }
