package filter

import (
	"fmt"
	"strings"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// SystemProperty is a property that expressions name with the scope sys.
type SystemProperty string

// System properties. Those from ContentType to To are in Message.Properties; a message answers the others itself.
const (
	ContentType             SystemProperty = "ContentType"
	CorrelationID           SystemProperty = "CorrelationId"
	Label                   SystemProperty = "Label"
	MessageID               SystemProperty = "MessageId"
	ReplyTo                 SystemProperty = "ReplyTo"
	ReplyToSessionID        SystemProperty = "ReplyToSessionId"
	SessionID               SystemProperty = "SessionId"
	To                      SystemProperty = "To"
	DeadLetterSource        SystemProperty = "DeadLetterSource"
	DeliveryCount           SystemProperty = "DeliveryCount"
	EnqueuedSequenceNumber  SystemProperty = "EnqueuedSequenceNumber"
	EnqueuedTimeUtc         SystemProperty = "EnqueuedTimeUtc"
	ExpiresAtUtc            SystemProperty = "ExpiresAtUtc"
	ForcePersistence        SystemProperty = "ForcePersistence"
	LockedUntilUtc          SystemProperty = "LockedUntilUtc"
	LockToken               SystemProperty = "LockToken"
	PartitionKey            SystemProperty = "PartitionKey"
	ScheduledEnqueueTimeUtc SystemProperty = "ScheduledEnqueueTimeUtc"
	SequenceNumber          SystemProperty = "SequenceNumber"
	Size                    SystemProperty = "Size"
	State                   SystemProperty = "State"
	TimeToLive              SystemProperty = "TimeToLive"
	ViaPartitionKey         SystemProperty = "ViaPartitionKey"
)

// systemNames are the properties by their names in lower case.
var systemNames = func() map[string]SystemProperty {
	names := map[string]SystemProperty{"subject": Label, "scheduledenqueuetime": ScheduledEnqueueTimeUtc}
	for _, p := range []SystemProperty{
		ContentType, CorrelationID, Label, MessageID, ReplyTo, ReplyToSessionID, SessionID, To, DeadLetterSource,
		DeliveryCount, EnqueuedSequenceNumber, EnqueuedTimeUtc, ExpiresAtUtc, ForcePersistence, LockedUntilUtc, LockToken,
		PartitionKey, ScheduledEnqueueTimeUtc, SequenceNumber, Size, State, TimeToLive, ViaPartitionKey,
	} {
		names[strings.ToLower(string(p))] = p
	}
	return names
}()

// property is a message's: a system property, or the application property of a name.
type property struct {
	system SystemProperty // "": not one
	name   string
}

func (p property) value(m Message) any {
	if p.system != "" {
		return systemValue(m, p.system)
	}
	v, _ := lookup(m.ApplicationProperties(), p.name)
	return v
}

// exists says that the message has the property, be it null. A system property always is there; what counts is whether it
// has a value.
func (p property) exists(m Message) bool {
	if p.system != "" {
		return systemValue(m, p.system) != nil
	}
	_, ok := lookup(m.ApplicationProperties(), p.name)
	return ok
}

func systemValue(m Message, p SystemProperty) any {
	set := m.Properties()
	switch p {
	case ContentType:
		return orNil(set.ContentType)
	case CorrelationID:
		return idText(set.CorrelationID)
	case Label:
		return orNil(set.Subject)
	case MessageID:
		return idText(set.MessageID)
	case ReplyTo:
		return orNil(set.ReplyTo)
	case ReplyToSessionID:
		return orNil(set.ReplyToGroupID)
	case SessionID:
		if set.HasGroupID {
			return set.GroupID
		}
		return nil
	case To:
		return orNil(set.To)
	}
	return m.System(p)
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// idText is an id as Service Bus has it: text, whatever it was on the wire.
func idText(id any) any {
	switch id := id.(type) {
	case nil:
		return nil
	case []byte:
		return string(id)
	case amqp.UUID:
		return id.String()
	}
	return fmt.Sprint(id)
}
