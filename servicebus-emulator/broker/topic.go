package broker

import (
	"sync"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// Destination is where messages can be sent: a topic, or a queue, which is one with itself as its only subscription.
type Destination struct {
	path           string
	clock          Clock
	defaultTTL     time.Duration
	maxMessageSize int
	quota          *quota
	subscriptions  []*Queue

	mu       sync.Mutex // makes the order of sequence numbers that of the messages in every subscription
	sequence int64
}

// Path is the destination's name as clients write it.
func (d *Destination) Path() string { return d.path }

// MaxMessageSize is the largest message taken, bytes.
func (d *Destination) MaxMessageSize() int { return d.maxMessageSize }

// Publish takes a message out of the caller's buffer.
func (d *Destination) Publish(encoded []byte) *amqp.Error {
	c, err := parse(encoded)
	if err != nil {
		return err
	}
	return d.publish([]*content{c})
}

// PublishBatch takes all the messages that a batch's body holds, or none of them.
func (d *Destination) PublishBatch(encoded []byte) *amqp.Error {
	s, err := amqp.ParseSections(encoded)
	if err != nil {
		return amqp.Errorf(amqp.ErrDecode, "the batch cannot be read: %v", err)
	}
	var batch []*content
	var refused *amqp.Error
	err = amqp.DataSections(s.Body, func(data []byte) error {
		c, err := parse(data)
		if err != nil {
			refused = err
			return err
		}
		batch = append(batch, c)
		return nil
	})
	switch {
	case refused != nil:
		return refused
	case err != nil:
		return amqp.Errorf(amqp.ErrDecode, "the batch cannot be read: %v", err)
	case len(batch) == 0:
		return nil
	}
	return d.publish(batch)
}

func (d *Destination) publish(batch []*content) *amqp.Error {
	type share struct {
		queue    *Queue
		contents []*content
		indexes  []int
	}
	var shares []share
	var size int64
	arrivals := arrive(batch, d.clock.Now())
	for _, q := range d.subscriptions {
		if q.path == d.path && q.settings.RequiresSession {
			if err := requireSession(batch); err != nil {
				return err
			}
		}
		s := share{queue: q}
		for i := range arrivals {
			s.contents = arrivals[i].appendCopies(s.contents, &q.settings)
			for _, c := range s.contents[len(s.indexes):] {
				s.indexes = append(s.indexes, i)
				size += c.size
			}
		}
		if len(s.contents) > 0 {
			shares = append(shares, s)
		}
	}
	if !d.quota.reserve(size) {
		return amqp.Errorf(amqp.ErrResourceLimitExceeded,
			"the maximum size of '%s' of %d bytes has been reached", d.path, d.quota.limit)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now().Truncate(time.Millisecond)
	first := d.sequence + 1
	d.sequence += int64(len(batch))
	for _, s := range shares {
		sequences := make([]int64, len(s.indexes))
		for i, index := range s.indexes {
			sequences[i] = first + int64(index)
		}
		s.queue.enqueue(s.contents, sequences, d.defaultTTL, now)
	}
	return nil
}

func requireSession(batch []*content) *amqp.Error {
	for _, c := range batch {
		if !c.Properties().HasGroupID {
			return amqp.Errorf(amqp.ErrNotAllowed,
				"the message has no session id, and the entity only takes messages that have one")
		}
	}
	return nil
}
