package broker

import (
	"math"
	"sync"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// content is what a sender sent. It never changes, so that the copies in several subscriptions share it.
type content struct {
	header          amqp.Header
	annotations     []byte    // encoded keys and values of the sender's
	annotationCount int       // keys and values
	properties      []byte    // encoded list, or nil
	application     []byte    // encoded map, or nil
	scheduledFor    time.Time // zero: it is not scheduled
	body            []byte    // encoded sections, as they came
	size            int64     // bytes, as counted against the quota

	decodeProperties sync.Once
	decoded          amqp.Properties
}

// overhead is what keeping a message costs besides its bytes, roughly, in bytes.
const overhead = 512

// deliveryAnnotations is the descriptor of that section of a message.
const deliveryAnnotations = 0x71

const scheduledAnnotation = "x-opt-scheduled-enqueue-time"

// The broker's own annotations, which a sender cannot set.
var reserved = map[amqp.Symbol]bool{
	"x-opt-sequence-number": true, "x-opt-enqueued-time": true, "x-opt-locked-until": true,
	"x-opt-message-state": true, "x-opt-enqueue-sequence-number": true, "x-opt-deadletter-source": true,
}

// parse copies a message out of the caller's buffer.
func parse(encoded []byte) (*content, *amqp.Error) {
	kept := append([]byte(nil), encoded...)
	s, err := amqp.ParseSections(kept)
	if err != nil {
		return nil, amqp.Errorf(amqp.ErrDecode, "the message cannot be read: %v", err)
	}
	c := &content{
		properties: s.Properties, application: s.ApplicationProperties, body: s.Body,
		size: int64(len(kept)) + overhead,
	}
	if c.header, err = amqp.ParseHeader(s.Header); err != nil {
		return nil, amqp.Errorf(amqp.ErrDecode, "the message's header cannot be read: %v", err)
	}
	if !amqp.IsEmptyMap(s.Annotations) {
		if refused := c.keepAnnotations(s.Annotations); refused != nil {
			return nil, refused
		}
	}
	c.identify()
	return c, nil
}

// keepAnnotations keeps what a sender may set.
func (c *content) keepAnnotations(section []byte) *amqp.Error {
	m, err := amqp.ParseMap(section)
	if err != nil {
		return amqp.Errorf(amqp.ErrDecode, "the message's annotations cannot be read: %v", err)
	}
	if at, ok := m.Get(scheduledAnnotation); ok && at != nil {
		if c.scheduledFor, ok = at.(time.Time); !ok {
			return amqp.Errorf(amqp.ErrInvalidField, "the message's %s is not a timestamp", scheduledAnnotation)
		}
	}
	for _, e := range m {
		if e.Key == amqp.Symbol(scheduledAnnotation) && e.Value == nil {
			continue // clients expect a time, if anything
		}
		if key, ok := e.Key.(amqp.Symbol); ok && !reserved[key] {
			c.annotations = amqp.AppendValue(amqp.AppendValue(c.annotations, key), e.Value)
			c.annotationCount += 2
		}
	}
	return nil
}

// Properties are decoded once. A section that cannot be read counts as empty; it is passed on as it is.
func (c *content) Properties() *amqp.Properties {
	c.decodeProperties.Do(func() { c.decoded, _ = amqp.ParseProperties(c.properties) })
	return &c.decoded
}

// ApplicationProperties are decoded at each call.
func (c *content) ApplicationProperties() amqp.Map {
	m, _ := amqp.ParseMap(c.application)
	return m
}

// with answers the content with application properties set.
func (c *content) with(set amqp.Map) *content {
	if len(set) == 0 {
		return c
	}
	application := c.ApplicationProperties()
	for _, e := range set {
		switch key := e.Key.(type) {
		case string:
			application = application.Set(key, e.Value)
		case amqp.Symbol:
			application = application.Set(string(key), e.Value)
		}
	}
	encoded := amqp.AppendValue(nil, application)
	return &content{
		header: c.header, annotations: c.annotations, annotationCount: c.annotationCount,
		properties: c.properties, application: encoded, body: c.body, scheduledFor: c.scheduledFor,
		size: c.size + int64(len(encoded)-len(c.application)),
	}
}

// Delivery is a message as it is handed out, with what was true of it at that time.
type Delivery struct {
	Token       amqp.UUID // of the lock; zero where the message was deleted or only looked at
	LockedUntil time.Time // zero likewise

	message       *message
	content       *content
	deliveryCount uint32
	state         state
}

// SequenceNumber is the broker's, unique in its queue.
func (d *Delivery) SequenceNumber() int64 { return d.message.sequence }

// DeliveryCount is how often the message was handed out before, without success.
func (d *Delivery) DeliveryCount() uint32 { return d.deliveryCount }

// Size is about how many bytes Append appends.
func (d *Delivery) Size() int { return int(d.content.size) }

// Append appends the message as its receiver shall see it.
func (d *Delivery) Append(dst []byte) []byte {
	m, c := d.message, d.content
	header := c.header
	header.FirstAcquirer = d.deliveryCount == 0
	header.DeliveryCount = d.deliveryCount
	header.HasTTL, header.TTL = m.ttl > 0, min(m.ttl, math.MaxUint32*time.Millisecond)
	dst = header.Append(dst)
	if d.state == deferred && d.Token != (amqp.UUID{}) { // there is no delivery tag to carry it
		dst = amqp.AppendValue(dst, amqp.Described{
			Descriptor: uint64(deliveryAnnotations), Value: amqp.Map{{Key: amqp.Symbol("x-opt-lock-token"), Value: d.Token}},
		})
	}

	dst, mark := amqp.BeginAnnotations(dst)
	count := c.annotationCount
	dst = append(dst, c.annotations...)
	add := func(key string, value any) {
		dst = amqp.AppendValue(amqp.AppendSymbolKey(dst, key), value)
		count += 2
	}
	add("x-opt-enqueued-time", m.enqueuedAt)
	add("x-opt-sequence-number", m.sequence)
	add("x-opt-enqueue-sequence-number", m.enqueuedSequence)
	if !d.LockedUntil.IsZero() {
		add("x-opt-locked-until", d.LockedUntil)
	}
	if d.state != active {
		add("x-opt-message-state", int32(d.state))
	}
	if m.deadLetterSource != "" {
		add("x-opt-deadletter-source", m.deadLetterSource)
	}
	dst = amqp.EndAnnotations(dst, mark, count)

	if c.properties != nil {
		dst = amqp.AppendProperties(dst, c.properties)
	}
	if c.application != nil {
		dst = amqp.AppendEncodedApplicationProperties(dst, c.application)
	}
	return append(dst, c.body...)
}
