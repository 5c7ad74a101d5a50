package atom

import (
	"encoding/xml"
	"errors"
	"time"
)

// The namespaces. Prefixes are written as Service Bus writes them, since the Node SDK looks at the text of some.
const (
	atomSpace     = "http://www.w3.org/2005/Atom"
	busSpace      = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
	countSpace    = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
	instanceSpace = "http://www.w3.org/2001/XMLSchema-instance"
	typeSpace     = "http://www.w3.org/2001/XMLSchema"
)

type feed struct {
	XMLName xml.Name `xml:"feed"`
	Space   string   `xml:"xmlns,attr"`
	Title   title    `xml:"title"`
	ID      string   `xml:"id"`
	Updated string   `xml:"updated"`
	Links   []link   `xml:"link"`
	Entries []entry  `xml:"entry"`
}

type entry struct {
	XMLName   xml.Name `xml:"entry"`
	Space     string   `xml:"xmlns,attr,omitempty"`
	ID        string   `xml:"id"`
	Title     title    `xml:"title"`
	Published string   `xml:"published,omitempty"`
	Updated   string   `xml:"updated,omitempty"`
	Author    string   `xml:"author>name,omitempty"`
	Links     []link   `xml:"link"`
	Content   content  `xml:"content"`
}

type title struct {
	Type string `xml:"type,attr"`
	Text string `xml:",chardata"`
}

type link struct {
	Rel  string `xml:"rel,attr"`
	HREF string `xml:"href,attr"`
}

type content struct {
	Type         string         `xml:"type,attr"`
	Queue        *description   `xml:"QueueDescription"`
	Topic        *description   `xml:"TopicDescription"`
	Subscription *description   `xml:"SubscriptionDescription"`
	Rule         *ruleXML       `xml:"RuleDescription"`
	Namespace    *namespaceInfo `xml:"NamespaceInfo"`
}

type namespaceInfo struct {
	Space         string `xml:"xmlns,attr"`
	CreatedTime   string
	MessagingSKU  string
	ModifiedTime  string
	Name          string
	NamespaceType string
}

// description is that of a queue, topic or subscription. Values are text: encoding/xml would not name an element whose
// number it cannot read.
type description struct {
	Space         string `xml:"xmlns,attr"`
	InstanceSpace string `xml:"xmlns:i,attr"`

	LockDuration                              *string
	MaxSizeInMegabytes                        *string
	RequiresDuplicateDetection                *string
	RequiresSession                           *string
	DefaultMessageTimeToLive                  *string
	DeadLetteringOnMessageExpiration          *string
	DeadLetteringOnFilterEvaluationExceptions *string
	DefaultRuleDescription                    *ruleXML
	DuplicateDetectionHistoryTimeWindow       *string
	MaxDeliveryCount                          *string
	EnableBatchedOperations                   *string
	SizeInBytes                               *string
	MessageCount                              *string
	IsAnonymousAccessible                     *string
	AuthorizationRules                        *struct {
		Rules []struct{} `xml:"AuthorizationRule"`
	}
	Status                        *string
	ForwardTo                     *string
	UserMetadata                  *string
	CreatedAt                     *string
	UpdatedAt                     *string
	AccessedAt                    *string
	SupportOrdering               *string
	CountDetails                  *countDetails
	SubscriptionCount             *string
	SqlFilterCount                *string
	CorrelationFilterCount        *string
	AutoDeleteOnIdle              *string
	EnablePartitioning            *string
	EntityAvailabilityStatus      *string
	EnableExpress                 *string
	ForwardDeadLetteredMessagesTo *string
	MaxMessageSizeInKilobytes     *string
}

type countDetails struct {
	Space              string `xml:"xmlns:d2p1,attr"`
	Active             int    `xml:"d2p1:ActiveMessageCount"`
	DeadLetter         int    `xml:"d2p1:DeadLetterMessageCount"`
	Scheduled          int    `xml:"d2p1:ScheduledMessageCount"`
	Transfer           int    `xml:"d2p1:TransferMessageCount"`
	TransferDeadLetter int    `xml:"d2p1:TransferDeadLetterMessageCount"`
}

type ruleXML struct {
	Space         string `xml:"xmlns,attr,omitempty"`
	InstanceSpace string `xml:"xmlns:i,attr,omitempty"`
	Filter        *expressionXML
	Action        *expressionXML
	CreatedAt     string `xml:",omitempty"`
	Name          string `xml:",omitempty"`
}

// expressionXML is a filter or an action. Its type is read under any prefix, and written under the usual one.
type expressionXML struct {
	Type    string `xml:"i:type,attr,omitempty"`
	AnyType string `xml:"http://www.w3.org/2001/XMLSchema-instance type,attr,omitempty"`

	SqlExpression string     `xml:",omitempty"`
	Parameters    *valuesXML `xml:",omitempty"`

	CorrelationId    string     `xml:",omitempty"`
	MessageId        string     `xml:",omitempty"`
	To               string     `xml:",omitempty"`
	ReplyTo          string     `xml:",omitempty"`
	Label            string     `xml:",omitempty"`
	SessionId        string     `xml:",omitempty"`
	ReplyToSessionId string     `xml:",omitempty"`
	ContentType      string     `xml:",omitempty"`
	Properties       *valuesXML `xml:",omitempty"`
}

type valuesXML struct {
	Values []valueXML `xml:"KeyValueOfstringanyType"`
}

type valueXML struct {
	Key   string
	Value struct {
		Type      string `xml:"i:type,attr,omitempty"`
		AnyType   string `xml:"http://www.w3.org/2001/XMLSchema-instance type,attr,omitempty"`
		TypeSpace string `xml:"xmlns:d6p1,attr,omitempty"`
		Text      string `xml:",chardata"`
	}
}

// errorXML is what goes with every status that is not a success.
type errorXML struct {
	XMLName xml.Name `xml:"Error"`
	Code    int
	Detail  string
}

// readEntry reads the body of a PUT.
func readEntry(data []byte) (content, error) {
	var e entry
	if err := xml.Unmarshal(data, &e); err != nil {
		return content{}, err
	}
	c := e.Content
	described := 0
	for _, there := range []bool{c.Queue != nil, c.Topic != nil, c.Subscription != nil, c.Rule != nil} {
		if there {
			described++
		}
	}
	if described != 1 {
		return content{}, errors.New("its content is not one QueueDescription, TopicDescription, SubscriptionDescription " +
			"or RuleDescription")
	}
	return c, nil
}

// timestamp writes a time; the zero one is what Service Bus has for an entity that was never accessed.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return "0001-01-01T00:00:00"
	}
	return t.UTC().Format("2006-01-02T15:04:05.9999999Z")
}
