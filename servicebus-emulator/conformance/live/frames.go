package live

import (
	"io"
	"strings"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// watcher counts the messages that a service sends on one connection: the transfers on links from entities, not the answers of $cbs
// and $management.
type watcher struct {
	answers map[link]bool // links of requesters
}

type link struct {
	channel uint16
	handle  uint32
}

// next reads the service's next frame, or protocol header, and reports whether it is a message.
func (w *watcher) next(in io.Reader) (frame []byte, message bool, err error) {
	frame = make([]byte, amqp.FrameHeaderSize)
	if _, err := io.ReadFull(in, frame); err != nil {
		return nil, false, err
	}
	if strings.HasPrefix(string(frame), "AMQP") {
		return frame, false, nil
	}
	header, err := amqp.ParseFrameHeader(frame)
	if err != nil {
		return nil, false, err
	}
	frame = append(frame, make([]byte, int(header.Size)-len(frame))...)
	if _, err := io.ReadFull(in, frame[amqp.FrameHeaderSize:]); err != nil {
		return nil, false, err
	}
	if header.Type != amqp.FrameAMQP || len(header.Body(frame)) == 0 {
		return frame, false, nil
	}
	performative, err := amqp.ParsePerformative(header.Body(frame))
	if err != nil {
		return nil, false, err
	}
	switch p := performative.(type) {
	case amqp.Attach:
		if p.Role == amqp.RoleSender && p.Source != nil {
			address := strings.ToLower(p.Source.Address)
			w.answers[link{header.Channel, p.Handle}] = address == "$cbs" || strings.HasSuffix(address, "$management")
		}
	case amqp.Transfer:
		return frame, !w.answers[link{header.Channel, p.Handle}], nil
	}
	return frame, false, nil
}
