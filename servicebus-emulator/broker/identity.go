package broker

import (
	"encoding/hex"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// identify gives a message without an id one of its own, as the service does: clients keep their books by it.
func (c *content) identify() {
	if c.Properties().MessageID != nil {
		return
	}
	token := newToken()
	id := hex.EncodeToString(token[:])
	properties, err := amqp.WithMessageID(c.properties, id)
	if err != nil {
		return // a section that cannot be read is passed on as it is
	}
	c.size += int64(len(properties) - len(c.properties))
	c.properties, c.decoded.MessageID = properties, id
}
