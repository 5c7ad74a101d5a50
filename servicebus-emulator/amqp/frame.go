package amqp

import (
	"encoding/binary"
	"fmt"
)

// Sizes in bytes.
const (
	// FrameHeaderSize is the size of the fixed header of every frame.
	FrameHeaderSize = 8
	// MinMaxFrameSize is the least that a peer may name as the largest frame it takes.
	MinMaxFrameSize = 512
)

// Protocol headers, exchanged before any frame.
const (
	ProtocolSASL = "AMQP\x03\x01\x00\x00"
	ProtocolAMQP = "AMQP\x00\x01\x00\x00"
)

// Frame types.
const (
	FrameAMQP = 0
	FrameSASL = 1
)

// FrameHeader is the fixed start of a frame.
type FrameHeader struct {
	Size    uint32 // whole frame, header included, bytes
	Type    uint8
	Channel uint16
	offset  uint8 // start of the body, in words of 4 bytes
}

// ParseFrameHeader reads the header out of at least FrameHeaderSize bytes.
func ParseFrameHeader(b []byte) (FrameHeader, error) {
	if len(b) < FrameHeaderSize {
		return FrameHeader{}, errTruncated
	}
	h := FrameHeader{
		Size:    binary.BigEndian.Uint32(b),
		offset:  b[4],
		Type:    b[5],
		Channel: binary.BigEndian.Uint16(b[6:]),
	}
	if h.offset < 2 || uint32(h.offset)*4 > h.Size {
		return h, fmt.Errorf("amqp: frame of %d bytes claims its body at byte %d", h.Size, uint32(h.offset)*4)
	}
	return h, nil
}

// Body answers the part of a whole frame after its header and extended header.
func (h FrameHeader) Body(frame []byte) []byte { return frame[uint32(h.offset)*4 : h.Size] }

// BeginFrame appends the header of a frame of unknown size; EndFrame fills the size in.
func BeginFrame(dst []byte, frameType uint8, channel uint16) ([]byte, int) {
	mark := len(dst)
	dst = append(dst, 0, 0, 0, 0, 2, frameType, 0, 0)
	binary.BigEndian.PutUint16(dst[mark+6:], channel)
	return dst, mark
}

// EndFrame fills in the size of the frame that BeginFrame started at mark.
func EndFrame(dst []byte, mark int) []byte {
	binary.BigEndian.PutUint32(dst[mark:], uint32(len(dst)-mark))
	return dst
}

// AppendEmptyFrame appends a frame without a body, which only says that the sender is alive.
func AppendEmptyFrame(dst []byte) []byte { return append(dst, 0, 0, 0, 8, 2, FrameAMQP, 0, 0) }
