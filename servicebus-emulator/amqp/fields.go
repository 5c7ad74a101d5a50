package amqp

import (
	"encoding/binary"
	"fmt"
)

// fields walks the fields of a composite. Missing and null fields answer false from has.
type fields struct {
	reader
	left int
}

func (r *reader) fields() fields {
	body, count := r.list()
	return fields{reader: body, left: count}
}

func (f *fields) has() bool {
	if f.err != nil || f.left == 0 {
		return false
	}
	f.left--
	if f.peek() == codeNull {
		f.off++
		return false
	}
	return true
}

func (f *fields) skip() {
	if f.has() {
		f.reader.skip(0)
	}
}

func (f *fields) boolean() bool {
	if !f.has() {
		return false
	}
	switch code := f.byte(); code {
	case codeTrue:
		return true
	case codeFalse:
		return false
	case codeBool:
		return f.byte() != 0
	default:
		f.unexpected("a boolean", code)
		return false
	}
}

func (f *fields) ubyte(absent uint8) uint8 {
	if !f.has() {
		return absent
	}
	if code := f.byte(); code != codeUbyte {
		f.unexpected("a ubyte", code)
	}
	return f.byte()
}

func (f *fields) ushort(absent uint16) uint16 {
	if !f.has() {
		return absent
	}
	if code := f.byte(); code != codeUshort {
		f.unexpected("a ushort", code)
	}
	if s := f.next(2); s != nil {
		return binary.BigEndian.Uint16(s)
	}
	return 0
}

func (f *fields) uint(absent uint32) uint32 {
	v, ok := f.optionalUint()
	if !ok {
		return absent
	}
	return v
}

func (f *fields) optionalUint() (uint32, bool) {
	if !f.has() {
		return 0, false
	}
	switch code := f.byte(); code {
	case codeUint0:
		return 0, true
	case codeSmallUint:
		return uint32(f.byte()), true
	case codeUint:
		return f.uint32(), true
	default:
		f.unexpected("a uint", code)
		return 0, false
	}
}

func (f *fields) ulong(absent uint64) uint64 {
	if !f.has() {
		return absent
	}
	switch code := f.byte(); code {
	case codeUlong0:
		return 0
	case codeSmallUlong:
		return uint64(f.byte())
	case codeUlong:
		return f.uint64()
	default:
		f.unexpected("a ulong", code)
		return 0
	}
}

// text reads a string or a symbol: clients differ in which they send.
func (f *fields) text() string {
	if !f.has() {
		return ""
	}
	return string(f.variable("a string"))
}

// binary answers a slice of the input.
func (f *fields) binary() []byte {
	if !f.has() {
		return nil
	}
	return f.variable("a binary")
}

func (f *fields) value() any {
	if !f.has() {
		return nil
	}
	return f.reader.value(0)
}

func (f *fields) mapping() Map {
	switch v := f.value().(type) {
	case nil:
		return nil
	case Map:
		return v
	default:
		f.fail(fmt.Errorf("amqp: expected a map, found %T", v))
		return nil
	}
}
