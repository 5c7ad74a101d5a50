package broker

import (
	"slices"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/filter"
)

// ruleNameProperty says on such a copy which rule it is of.
const ruleNameProperty = "RuleName"

// arrival is a message as rules see it, on its way into the subscriptions. It belongs to the goroutine that publishes.
type arrival struct {
	*content
	parcel      *parcel
	at          time.Time
	application amqp.Map
	isDecoded   bool
}

func arrive(batch []*parcel, now time.Time) []arrival {
	arrivals := make([]arrival, len(batch))
	for i, p := range batch {
		arrivals[i] = arrival{content: p.content, parcel: p, at: now.Truncate(time.Millisecond)}
	}
	return arrivals
}

// appendCopies appends what a subscription gets of the message: one copy for all rules without an action, and one for
// each rule with an action. A queue has no rules, and gets every message.
func (a *arrival) appendCopies(dst []*parcel, rules *[]Rule) []*parcel {
	if rules == nil {
		return append(dst, a.parcel)
	}
	plain := false
	for i := range *rules {
		r := &(*rules)[i]
		switch {
		case r.Action == nil && plain || !r.Filter.Matches(a):
		case r.Action == nil:
			plain = true
			dst = append(dst, a.parcel)
		default:
			own := *a.parcel
			own.content, own.of = r.apply(a), a.parcel
			dst = append(dst, &own)
		}
	}
	return dst
}

// ApplicationProperties are decoded once for all rules.
func (a *arrival) ApplicationProperties() amqp.Map {
	if !a.isDecoded {
		a.application, a.isDecoded = a.content.ApplicationProperties(), true
	}
	return a.application
}

// System answers what is known before the message is enqueued; a sequence number, for one, is not.
func (a *arrival) System(p filter.SystemProperty) any {
	switch p {
	case filter.TimeToLive:
		if a.header.HasTTL {
			return a.ttl()
		}
	case filter.ExpiresAtUtc:
		if a.header.HasTTL {
			return a.at.Add(a.ttl())
		}
	case filter.EnqueuedTimeUtc:
		return a.at
	case filter.DeliveryCount:
		return int64(0)
	case filter.Size:
		return a.size - overhead
	default:
		if key, ok := annotationOf[p]; ok {
			v, _ := a.annotationMap().Get(key)
			return v
		}
	}
	return nil
}

var annotationOf = map[filter.SystemProperty]string{
	filter.PartitionKey:            "x-opt-partition-key",
	filter.ViaPartitionKey:         "x-opt-via-partition-key",
	filter.ScheduledEnqueueTimeUtc: scheduledAnnotation,
}

var fieldOf = map[filter.SystemProperty]amqp.PropertiesField{
	filter.ContentType:      amqp.FieldContentType,
	filter.CorrelationID:    amqp.FieldCorrelationID,
	filter.Label:            amqp.FieldSubject,
	filter.MessageID:        amqp.FieldMessageID,
	filter.ReplyTo:          amqp.FieldReplyTo,
	filter.ReplyToSessionID: amqp.FieldReplyToGroupID,
	filter.SessionID:        amqp.FieldGroupID,
	filter.To:               amqp.FieldTo,
}

// apply answers the rule's copy.
func (r *Rule) apply(a *arrival) *content {
	c := a.content.with(amqp.Map{{Key: ruleNameProperty, Value: r.Name}})
	e := edited{arrival{content: c, at: a.at}}
	r.Action.Apply(&e)
	if e.isDecoded {
		e.replace(&c.application, amqp.AppendValue(nil, e.application))
	}
	return c
}

// edited is a copy that an action changes. Nobody else has it yet.
type edited struct{ arrival }

// SetApplicationProperties keeps them decoded until the action is done.
func (e *edited) SetApplicationProperties(m amqp.Map) { e.application, e.isDecoded = m, true }

// SetSystem sets a property. The scheduled time is not: it means nothing any more, as in Service Bus.
func (e *edited) SetSystem(p filter.SystemProperty, v any) {
	c := e.content
	switch p {
	case filter.ScheduledEnqueueTimeUtc:
	case filter.TimeToLive:
		c.header.TTL, c.header.HasTTL = v.(time.Duration)
	case filter.PartitionKey, filter.ViaPartitionKey:
		e.annotate(amqp.Symbol(annotationOf[p]), v)
	default:
		field, ok := fieldOf[p]
		if !ok {
			return
		}
		if text, ok := v.(string); ok && p == filter.ContentType {
			v = amqp.Symbol(text) // the one that is
		}
		c.Properties() // decodes what was; it would not decode again
		e.replace(&c.properties, amqp.SetPropertiesField(c.properties, field, v))
		c.decoded, _ = amqp.ParseProperties(c.properties)
	}
}

// annotate sets an annotation, or removes it.
func (e *edited) annotate(key amqp.Symbol, v any) {
	m := slices.DeleteFunc(e.annotationMap(), func(old amqp.MapEntry) bool { return old.Key == any(key) })
	if v != nil {
		m = append(m, amqp.MapEntry{Key: key, Value: v})
	}
	var encoded []byte
	for _, entry := range m {
		encoded = amqp.AppendValue(amqp.AppendValue(encoded, entry.Key), entry.Value)
	}
	e.replace(&e.annotations, encoded)
	e.annotationCount = 2 * len(m)
}

// replace replaces a section and counts the difference in size.
func (e *edited) replace(section *[]byte, with []byte) {
	e.size += int64(len(with) - len(*section))
	*section = with
}

// annotationMap decodes the sender's annotations.
func (c *content) annotationMap() amqp.Map {
	section, mark := amqp.BeginAnnotations(nil)
	section = amqp.EndAnnotations(append(section, c.annotations...), mark, c.annotationCount)
	s, err := amqp.ParseSections(section)
	if err != nil {
		return nil
	}
	m, _ := amqp.ParseMap(s.Annotations)
	return m
}
