package amqp

import (
	"encoding/hex"
	"fmt"
)

// Format codes of the primitive types (part 1, section 1.6).
const (
	codeDescribed  = 0x00
	codeNull       = 0x40
	codeTrue       = 0x41
	codeFalse      = 0x42
	codeUint0      = 0x43
	codeUlong0     = 0x44
	codeList0      = 0x45
	codeUbyte      = 0x50
	codeByte       = 0x51
	codeSmallUint  = 0x52
	codeSmallUlong = 0x53
	codeSmallInt   = 0x54
	codeSmallLong  = 0x55
	codeBool       = 0x56
	codeUshort     = 0x60
	codeShort      = 0x61
	codeUint       = 0x70
	codeInt        = 0x71
	codeFloat      = 0x72
	codeChar       = 0x73
	codeDecimal32  = 0x74
	codeUlong      = 0x80
	codeLong       = 0x81
	codeDouble     = 0x82
	codeTimestamp  = 0x83
	codeDecimal64  = 0x84
	codeDecimal128 = 0x94
	codeUUID       = 0x98
	codeBin8       = 0xa0
	codeStr8       = 0xa1
	codeSym8       = 0xa3
	codeBin32      = 0xb0
	codeStr32      = 0xb1
	codeSym32      = 0xb3
	codeList8      = 0xc0
	codeMap8       = 0xc1
	codeList32     = 0xd0
	codeMap32      = 0xd1
	codeArray8     = 0xe0
	codeArray32    = 0xf0
)

// A decoded value is one of: nil, bool, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float32,
// float64, Char, Decimal, time.Time (UTC, milliseconds), UUID, []byte, string, Symbol, List, Map, Array,
// Described. The encoder takes the same.
type (
	// Symbol is an ASCII name out of a constrained domain.
	Symbol string
	// Char is one Unicode character.
	Char rune
	// List is a sequence of values of any type.
	List []any
	// Map keeps its entries in the order of the wire. Keys can be of any type, also ones Go cannot hash.
	Map []MapEntry
	// MapEntry is one key and its value.
	MapEntry struct{ Key, Value any }
	// UUID is in the byte order of RFC 4122.
	UUID [16]byte
	// Decimal is a decimal floating-point number, kept as its bytes (4, 8 or 16 of them).
	Decimal []byte
	// Described is a value with a descriptor that says what it means.
	Described struct{ Descriptor, Value any }
	// Array is a sequence of values of one type; Code is the format code of its elements.
	Array struct {
		Code  byte
		Items []any
	}
)

// Element codes for the arrays that this module sends.
const (
	ArrayOfTimestamps = codeTimestamp
	ArrayOfSymbols    = codeSym32
	ArrayOfUUIDs      = codeUUID
	ArrayOfLongs      = codeLong
	ArrayOfStrings    = codeStr32
)

// Get answers the value of the first entry whose key is this string or symbol.
func (m Map) Get(key string) (any, bool) {
	for _, e := range m {
		switch k := e.Key.(type) {
		case string:
			if k == key {
				return e.Value, true
			}
		case Symbol:
			if string(k) == key {
				return e.Value, true
			}
		}
	}
	return nil, false
}

// Set replaces the value of a string or symbol key, or appends an entry with a string key.
func (m Map) Set(key string, value any) Map {
	for i, e := range m {
		switch k := e.Key.(type) {
		case string:
			if k == key {
				m[i].Value = value
				return m
			}
		case Symbol:
			if string(k) == key {
				m[i].Value = value
				return m
			}
		}
	}
	return append(m, MapEntry{key, value})
}

// String is the canonical 8-4-4-4-12 form.
func (u UUID) String() string {
	h := hex.EncodeToString(u[:])
	return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}

// GUID converts between RFC 4122 byte order and the one that .NET's Guid.ToByteArray uses, in which
// Service Bus writes lock tokens into delivery tags. It is its own inverse.
func (u UUID) GUID() UUID {
	u[0], u[1], u[2], u[3] = u[3], u[2], u[1], u[0]
	u[4], u[5] = u[5], u[4]
	u[6], u[7] = u[7], u[6]
	return u
}
