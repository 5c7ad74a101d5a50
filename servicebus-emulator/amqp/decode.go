package amqp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// maxDepth bounds nesting, so that a hostile value cannot exhaust the stack. Service Bus messages and
// management requests nest at most five deep.
const maxDepth = 24

var errTruncated = errors.New("amqp: value ends beyond the bytes received")

// reader decodes values from a slice. The first error sticks: later reads answer zero values.
type reader struct {
	b   []byte
	off int
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) rest() []byte { return r.b[r.off:] }

func (r *reader) next(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b)-r.off {
		r.fail(errTruncated)
		return nil
	}
	s := r.b[r.off : r.off+n]
	r.off += n
	return s
}

func (r *reader) byte() byte {
	if s := r.next(1); s != nil {
		return s[0]
	}
	return 0
}

func (r *reader) peek() byte {
	if r.err != nil || r.off >= len(r.b) {
		r.fail(errTruncated)
		return codeNull
	}
	return r.b[r.off]
}

func (r *reader) uint32() uint32 {
	if s := r.next(4); s != nil {
		return binary.BigEndian.Uint32(s)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if s := r.next(8); s != nil {
		return binary.BigEndian.Uint64(s)
	}
	return 0
}

// size reads the length of a variable-width value, in its 8-bit or 32-bit form.
func (r *reader) size(wide bool) int {
	if !wide {
		return int(r.byte())
	}
	n := r.uint32()
	if int64(n) > int64(len(r.b)-r.off) {
		r.fail(errTruncated)
		return 0
	}
	return int(n)
}

// compound reads the size and count of a list, map or array and answers a reader for just its body.
func (r *reader) compound(wide bool) (reader, int) {
	size := r.size(wide)
	body := reader{b: r.next(size), err: r.err}
	var count int
	if wide {
		count = int(body.uint32())
	} else {
		count = int(body.byte())
	}
	if body.err != nil {
		r.fail(body.err)
	}
	return body, count
}

func (r *reader) unexpected(want string, code byte) {
	r.fail(fmt.Errorf("amqp: expected %s, found format code 0x%02x", want, code))
}

// listHeader reads the constructor of a list; the answer's body holds exactly the list's fields.
func (r *reader) list() (body reader, count int) {
	switch code := r.byte(); code {
	case codeList0:
		return reader{}, 0
	case codeList8, codeList32:
		body, count = r.compound(code == codeList32)
		if count > len(body.b) {
			r.fail(fmt.Errorf("amqp: list of %d fields in %d bytes", count, len(body.b)))
			return reader{}, 0
		}
		return body, count
	default:
		r.unexpected("a list", code)
		return reader{}, 0
	}
}

// descriptor reads a described value's descriptor, given as a number. Symbolic descriptors are not used by the
// clients this serves; they answer an error.
func (r *reader) descriptor() uint64 {
	if code := r.byte(); code != codeDescribed {
		r.unexpected("a described value", code)
		return 0
	}
	switch code := r.byte(); code {
	case codeUlong0:
		return 0
	case codeSmallUlong:
		return uint64(r.byte())
	case codeUlong:
		return r.uint64()
	default:
		r.unexpected("a numeric descriptor", code)
		return 0
	}
}

func (r *reader) variable(want string) []byte {
	switch code := r.byte(); code {
	case codeStr8, codeSym8, codeBin8, codeStr32, codeSym32, codeBin32:
		return r.next(r.size(code >= codeBin32))
	default:
		r.unexpected(want, code)
		return nil
	}
}

// DecodeValue decodes exactly one value.
func DecodeValue(b []byte) (any, error) {
	r := reader{b: b}
	v := r.value(0)
	if r.err == nil && r.off != len(b) {
		r.fail(fmt.Errorf("amqp: %d bytes after the value", len(b)-r.off))
	}
	return v, r.err
}

func (r *reader) value(depth int) any {
	code := r.byte()
	if r.err != nil {
		return nil
	}
	if code == codeDescribed {
		if depth >= maxDepth {
			r.fail(errors.New("amqp: value nested too deeply"))
			return nil
		}
		descriptor := r.value(depth + 1)
		return Described{descriptor, r.value(depth + 1)}
	}
	return r.body(code, depth)
}

// body decodes what follows a constructor.
func (r *reader) body(code byte, depth int) any {
	switch code {
	case codeNull:
		return nil
	case codeTrue:
		return true
	case codeFalse:
		return false
	case codeBool:
		return r.byte() != 0
	case codeUint0:
		return uint32(0)
	case codeUlong0:
		return uint64(0)
	case codeUbyte:
		return r.byte()
	case codeByte:
		return int8(r.byte())
	case codeSmallUint:
		return uint32(r.byte())
	case codeSmallUlong:
		return uint64(r.byte())
	case codeSmallInt:
		return int32(int8(r.byte()))
	case codeSmallLong:
		return int64(int8(r.byte()))
	case codeUshort, codeShort:
		return r.body16(code)
	case codeUint:
		return r.uint32()
	case codeInt:
		return int32(r.uint32())
	case codeFloat:
		return math.Float32frombits(r.uint32())
	case codeChar:
		return Char(r.uint32())
	case codeUlong:
		return r.uint64()
	case codeLong:
		return int64(r.uint64())
	case codeDouble:
		return math.Float64frombits(r.uint64())
	case codeTimestamp:
		return time.UnixMilli(int64(r.uint64())).UTC()
	}
	return r.bodyVariable(code, depth)
}

func (r *reader) body16(code byte) any {
	s := r.next(2)
	if s == nil {
		return nil
	}
	v := binary.BigEndian.Uint16(s)
	if code == codeShort {
		return int16(v)
	}
	return v
}

func (r *reader) bodyVariable(code byte, depth int) any {
	switch code {
	case codeDecimal32, codeDecimal64, codeDecimal128:
		width := 4 << (code>>4 - 7) // 4, 8, 16 bytes
		return Decimal(append([]byte(nil), r.next(width)...))
	case codeUUID:
		var u UUID
		copy(u[:], r.next(16))
		return u
	case codeBin8, codeBin32:
		return append([]byte{}, r.next(r.size(code == codeBin32))...)
	case codeStr8, codeStr32:
		return string(r.next(r.size(code == codeStr32)))
	case codeSym8, codeSym32:
		return Symbol(r.next(r.size(code == codeSym32)))
	case codeList0:
		return List{}
	}
	if depth >= maxDepth {
		r.fail(errors.New("amqp: value nested too deeply"))
		return nil
	}
	switch code {
	case codeList8, codeList32:
		return r.bodyList(code == codeList32, depth)
	case codeMap8, codeMap32:
		return r.bodyMap(code == codeMap32, depth)
	case codeArray8, codeArray32:
		return r.bodyArray(code == codeArray32, depth)
	}
	r.fail(fmt.Errorf("amqp: unknown format code 0x%02x", code))
	return nil
}

func (r *reader) bodyList(wide bool, depth int) any {
	body, count := r.compound(wide)
	if count > len(body.b) {
		r.fail(fmt.Errorf("amqp: list of %d values in %d bytes", count, len(body.b)))
		return nil
	}
	list := List{}
	for range count {
		list = append(list, body.value(depth+1))
		if body.err != nil {
			r.fail(body.err)
			return nil
		}
	}
	return list
}

func (r *reader) bodyMap(wide bool, depth int) any {
	body, count := r.compound(wide)
	if count%2 != 0 || count > len(body.b) {
		r.fail(fmt.Errorf("amqp: map of %d keys and values in %d bytes", count, len(body.b)))
		return nil
	}
	m := Map{}
	for range count / 2 {
		key := body.value(depth + 1)
		m = append(m, MapEntry{key, body.value(depth + 1)})
		if body.err != nil {
			r.fail(body.err)
			return nil
		}
	}
	return m
}

func (r *reader) bodyArray(wide bool, depth int) any {
	body, count := r.compound(wide)
	code := body.byte()
	if code == codeDescribed {
		r.fail(errors.New("amqp: arrays of described values are not supported"))
		return nil
	}
	// Elements of no width (null, true, ...) could be claimed by the billion; no client sends arrays of them.
	if count > len(body.b) || (code>>4 == 4 && count > 0) {
		r.fail(fmt.Errorf("amqp: array of %d values in %d bytes", count, len(body.b)))
		return nil
	}
	array := Array{Code: code}
	for range count {
		array.Items = append(array.Items, body.body(code, depth+1))
		if body.err != nil {
			r.fail(body.err)
			return nil
		}
	}
	if body.err != nil {
		r.fail(body.err)
	}
	return array
}

// skip passes over one value without decoding it. The width of a value is in the high half of its format code.
func (r *reader) skip(depth int) {
	code := r.byte()
	if r.err != nil {
		return
	}
	if code == codeDescribed {
		if depth >= maxDepth {
			r.fail(errors.New("amqp: value nested too deeply"))
			return
		}
		r.skip(depth + 1)
		r.skip(depth + 1)
		return
	}
	switch code >> 4 {
	case 0x4:
	case 0x5:
		r.next(1)
	case 0x6:
		r.next(2)
	case 0x7:
		r.next(4)
	case 0x8:
		r.next(8)
	case 0x9:
		r.next(16)
	case 0xa, 0xc, 0xe:
		r.next(r.size(false))
	case 0xb, 0xd, 0xf:
		r.next(r.size(true))
	default:
		r.fail(fmt.Errorf("amqp: unknown format code 0x%02x", code))
	}
}
