package servicebusemulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Config is the content of a Config.json, of the same shape as that of Microsoft's emulator.
type Config struct {
	UserConfig UserConfig
}

// UserConfig is the one section of a Config.
type UserConfig struct {
	Namespaces []Namespace
	Logging    *Logging `json:",omitempty"`
}

// Logging is accepted because files for Microsoft's emulator have it; this one logs to its Logger.
type Logging struct {
	Type string
}

// Namespace is the entities. There is exactly one; its name only serves as a label.
type Namespace struct {
	Name   string
	Queues []Queue `json:",omitempty"`
	Topics []Topic `json:",omitempty"`
}

// Queue is a queue. Names of entities are compared without regard to case.
type Queue struct {
	Name       string
	Properties QueueProperties
}

// Topic is a topic with its subscriptions.
type Topic struct {
	Name          string
	Properties    TopicProperties
	Subscriptions []Subscription `json:",omitempty"`
}

// Subscription is a subscription. Without rules it gets every message of its topic; with rules, those that at
// least one of them selects.
type Subscription struct {
	Name       string
	Properties SubscriptionProperties
	Rules      []Rule `json:",omitempty"`
}

// QueueProperties are SubscriptionProperties and TopicProperties together.
type QueueProperties struct {
	DeadLetteringOnMessageExpiration bool     `json:",omitempty"`
	DefaultMessageTimeToLive         Duration `json:",omitzero"`
	LockDuration                     Duration `json:",omitzero"`
	MaxDeliveryCount                 int      `json:",omitempty"`
	RequiresSession                  bool     `json:",omitempty"`
	MaxSizeInMegabytes               int      `json:",omitempty"`
	MaxMessageSizeInKilobytes        int      `json:",omitempty"`

	RequiresDuplicateDetection          bool     `json:",omitempty"`
	DuplicateDetectionHistoryTimeWindow Duration `json:",omitzero"`
	ForwardTo                           string   `json:",omitempty"`
	ForwardDeadLetteredMessagesTo       string   `json:",omitempty"`
	AutoDeleteOnIdle                    Duration `json:",omitzero"`
}

// TopicProperties are those of a topic. Zero values mean the default.
type TopicProperties struct {
	// DefaultMessageTimeToLive is how long messages live unless they say less; default: forever.
	DefaultMessageTimeToLive Duration `json:",omitzero"`
	// MaxSizeInMegabytes bounds the memory that the topic's messages take in all subscriptions together, dead-letter
	// queues included; 1 to 81920; default 256.
	MaxSizeInMegabytes int `json:",omitempty"`
	// MaxMessageSizeInKilobytes bounds one message or batch; 1 to 102400; default 256, as on the Standard tier.
	MaxMessageSizeInKilobytes int `json:",omitempty"`
	// RequiresDuplicateDetection drops messages with the id of one that was sent within the window before; default false.
	RequiresDuplicateDetection bool `json:",omitempty"`
	// DuplicateDetectionHistoryTimeWindow is that window; PT20S to P7D; default PT10M.
	DuplicateDetectionHistoryTimeWindow Duration `json:",omitzero"`
	// AutoDeleteOnIdle is after how long without use the topic is deleted; at least PT5M; default: never.
	AutoDeleteOnIdle Duration `json:",omitzero"`
}

// SubscriptionProperties are those of a subscription. Zero values mean the default.
type SubscriptionProperties struct {
	// DeadLetteringOnMessageExpiration moves expired messages to the dead-letter queue; default: they are dropped.
	DeadLetteringOnMessageExpiration bool `json:",omitempty"`
	// DefaultMessageTimeToLive is how long messages live unless they or the topic say less; default: forever.
	DefaultMessageTimeToLive Duration `json:",omitzero"`
	// LockDuration is how long a message or a session stays locked; up to PT5M; default PT1M.
	LockDuration Duration `json:",omitzero"`
	// MaxDeliveryCount is after how many failed deliveries a message is dead-lettered; 1 to 2000; default 10.
	MaxDeliveryCount int `json:",omitempty"`
	// RequiresSession has messages received by session only; default false.
	RequiresSession bool `json:",omitempty"`
	// ForwardTo names the queue or topic that messages move on to; default: they stay.
	ForwardTo string `json:",omitempty"`
	// ForwardDeadLetteredMessagesTo is the same for the dead-letter queue.
	ForwardDeadLetteredMessagesTo string `json:",omitempty"`
	// AutoDeleteOnIdle is after how long without a receiver the subscription is deleted; at least PT5M; default: never.
	AutoDeleteOnIdle Duration `json:",omitzero"`
}

// Rule selects messages of a topic for a subscription.
type Rule struct {
	Name       string
	Properties RuleProperties
}

// RuleProperties are a rule's filter and action. FilterType is "Correlation" or "Sql", each with its filter, "True" for
// every message, or "False" for none.
type RuleProperties struct {
	FilterType        string
	CorrelationFilter *CorrelationFilter `json:",omitempty"`
	SqlFilter         *Sql               `json:",omitempty"`
	// Action gives the rule a copy of its own of every message it selects, and changes that copy.
	Action *Sql `json:",omitempty"`
}

// Sql is an expression: a condition, or the SET and REMOVE statements of an action.
type Sql struct {
	SqlExpression string
	Parameters    map[string]any `json:",omitempty"` // values of @name: strings, numbers, booleans
}

// CorrelationFilter selects messages that equal it in every part that is set.
type CorrelationFilter struct {
	ContentType      string         `json:",omitempty"`
	CorrelationId    string         `json:",omitempty"`
	Label            string         `json:",omitempty"` // the message's subject
	MessageId        string         `json:",omitempty"`
	ReplyTo          string         `json:",omitempty"`
	ReplyToSessionId string         `json:",omitempty"`
	SessionId        string         `json:",omitempty"`
	To               string         `json:",omitempty"`
	Properties       map[string]any `json:",omitempty"` // application properties: strings, numbers, booleans
}

// LoadConfig reads a Config.json.
func LoadConfig(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("emulator config: %w", err)
	}
	cfg, err := ParseConfig(data)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}

// ParseConfig reads the content of a Config.json, in which // and /* */ comments and trailing commas are allowed.
// Unknown keys, wrong values and unsupported settings are errors that name the key.
func ParseConfig(data []byte) (Config, error) {
	plain, err := plainJSON(data)
	if err != nil {
		return Config{}, fmt.Errorf("emulator config: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(plain))
	decoder.DisallowUnknownFields()
	decoder.UseNumber() // whole numbers stay exact
	var cfg Config
	if err := decoder.Decode(&cfg); err != nil {
		return Config{}, fmt.Errorf("emulator config: %w", describe(plain, err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Config{}, errors.New("emulator config: there is more after the end of the object")
	}
	if _, err := cfg.entities(); err != nil {
		return Config{}, fmt.Errorf("emulator config: %w", err)
	}
	return cfg, nil
}

// describe adds the line to errors that know the byte.
func describe(data []byte, err error) error {
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	var offset int64
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &wrongType):
		offset = wrongType.Offset
	default:
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:min(int(offset), len(data))], []byte("\n")), err)
}

// Duration is a length of time that is written in ISO 8601, such as PT1M30S or P14D.
type Duration time.Duration

// unlimited says that the duration is, for us, forever: Service Bus writes it as P10675199DT2H48M5.4775807S.
func (d Duration) unlimited() bool { return time.Duration(d) >= 100*365*24*time.Hour }

// UnmarshalJSON reads the ISO 8601 form.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("duration %s is not a string such as \"PT1M\"", data)
	}
	parsed, err := parseDuration(text)
	*d = Duration(parsed)
	return err
}

// MarshalJSON writes the ISO 8601 form.
func (d Duration) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "\"PT%gS\"", time.Duration(d).Seconds()), nil
}
