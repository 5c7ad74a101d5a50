package amqp

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

func appendNull(dst []byte) []byte { return append(dst, codeNull) }

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, codeTrue)
	}
	return append(dst, codeFalse)
}

func appendUint(dst []byte, v uint32) []byte {
	switch {
	case v == 0:
		return append(dst, codeUint0)
	case v < 256:
		return append(dst, codeSmallUint, byte(v))
	}
	return binary.BigEndian.AppendUint32(append(dst, codeUint), v)
}

func appendUlong(dst []byte, v uint64) []byte {
	switch {
	case v == 0:
		return append(dst, codeUlong0)
	case v < 256:
		return append(dst, codeSmallUlong, byte(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, codeUlong), v)
}

func appendLong(dst []byte, v int64) []byte {
	if v >= math.MinInt8 && v <= math.MaxInt8 {
		return append(dst, codeSmallLong, byte(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, codeLong), uint64(v))
}

func appendTimestamp(dst []byte, at time.Time) []byte {
	return binary.BigEndian.AppendUint64(append(dst, codeTimestamp), uint64(at.UnixMilli()))
}

func appendBinary(dst []byte, v []byte) []byte {
	if len(v) < 256 {
		dst = append(dst, codeBin8, byte(len(v)))
	} else {
		dst = binary.BigEndian.AppendUint32(append(dst, codeBin32), uint32(len(v)))
	}
	return append(dst, v...)
}

func appendText(dst []byte, short, long byte, v string) []byte {
	if len(v) < 256 {
		dst = append(dst, short, byte(len(v)))
	} else {
		dst = binary.BigEndian.AppendUint32(append(dst, long), uint32(len(v)))
	}
	return append(dst, v...)
}

func appendString(dst []byte, v string) []byte { return appendText(dst, codeStr8, codeStr32, v) }

func appendSymbol(dst []byte, v Symbol) []byte {
	return appendText(dst, codeSym8, codeSym32, string(v))
}

// AppendSymbolKey appends a symbol, as the key of an annotations map.
func AppendSymbolKey(dst []byte, key string) []byte { return appendSymbol(dst, Symbol(key)) }

// AppendValue appends one value (see the list of types at Symbol). It panics on any other Go type, which is a
// mistake in the caller and never depends on a peer.
func AppendValue(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return appendNull(dst)
	case bool:
		return appendBool(dst, v)
	case uint8:
		return append(dst, codeUbyte, v)
	case uint16:
		return binary.BigEndian.AppendUint16(append(dst, codeUshort), v)
	case uint32:
		return appendUint(dst, v)
	case uint64:
		return appendUlong(dst, v)
	case int8:
		return append(dst, codeByte, byte(v))
	case int16:
		return binary.BigEndian.AppendUint16(append(dst, codeShort), uint16(v))
	case int32:
		if v >= math.MinInt8 && v <= math.MaxInt8 {
			return append(dst, codeSmallInt, byte(v))
		}
		return binary.BigEndian.AppendUint32(append(dst, codeInt), uint32(v))
	case int64:
		return appendLong(dst, v)
	case float32:
		return binary.BigEndian.AppendUint32(append(dst, codeFloat), math.Float32bits(v))
	case float64:
		return binary.BigEndian.AppendUint64(append(dst, codeDouble), math.Float64bits(v))
	case Char:
		return binary.BigEndian.AppendUint32(append(dst, codeChar), uint32(v))
	case Decimal:
		return append(append(dst, decimalCode(v)), v...)
	case time.Time:
		return appendTimestamp(dst, v)
	case UUID:
		return append(append(dst, codeUUID), v[:]...)
	case []byte:
		return appendBinary(dst, v)
	case string:
		return appendString(dst, v)
	case Symbol:
		return appendSymbol(dst, v)
	}
	return appendCompound(dst, v)
}

func appendCompound(dst []byte, v any) []byte {
	switch v := v.(type) {
	case List:
		dst, mark := begin32(dst, codeList32)
		for _, item := range v {
			dst = AppendValue(dst, item)
		}
		return end32(dst, mark, len(v))
	case Map:
		dst, mark := begin32(dst, codeMap32)
		for _, e := range v {
			dst = AppendValue(AppendValue(dst, e.Key), e.Value)
		}
		return end32(dst, mark, 2*len(v))
	case Array:
		dst, mark := begin32(dst, codeArray32)
		code := widest(v.Code)
		dst = append(dst, code)
		for _, item := range v.Items {
			dst = appendElement(dst, code, item)
		}
		return end32(dst, mark, len(v.Items))
	case Described:
		return AppendValue(AppendValue(append(dst, codeDescribed), v.Descriptor), v.Value)
	}
	panic(fmt.Sprintf("amqp: value of type %T cannot be encoded", v))
}

// appendElement appends an array's element: the value without its constructor, in the array's format.
func appendElement(dst []byte, code byte, v any) []byte {
	switch code {
	case codeBool:
		if v.(bool) {
			return append(dst, 1)
		}
		return append(dst, 0)
	case codeSmallUint:
		return append(dst, byte(v.(uint32)))
	case codeUint:
		return binary.BigEndian.AppendUint32(dst, v.(uint32))
	case codeSmallUlong:
		return append(dst, byte(v.(uint64)))
	case codeUlong:
		return binary.BigEndian.AppendUint64(dst, v.(uint64))
	case codeSmallInt:
		return append(dst, byte(v.(int32)))
	case codeInt:
		return binary.BigEndian.AppendUint32(dst, uint32(v.(int32)))
	case codeSmallLong:
		return append(dst, byte(v.(int64)))
	case codeLong:
		return binary.BigEndian.AppendUint64(dst, uint64(v.(int64)))
	case codeStr32, codeSym32, codeBin32:
		return appendSized32(dst, textBytes(v))
	case codeStr8, codeSym8, codeBin8:
		text := textBytes(v)
		return append(append(dst, byte(len(text))), text...)
	}
	// The remaining types have one format each: the usual encoding less its constructor.
	return append(dst, AppendValue(nil, v)[1:]...)
}

// widest answers the 32-bit format of a compound type, in which all compounds are encoded.
func widest(code byte) byte {
	switch code {
	case codeList8:
		return codeList32
	case codeMap8:
		return codeMap32
	case codeArray8:
		return codeArray32
	}
	return code
}

func appendSized32(dst, v []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(v))), v...)
}

func textBytes(v any) []byte {
	switch v := v.(type) {
	case string:
		return []byte(v)
	case Symbol:
		return []byte(v)
	case []byte:
		return v
	}
	panic(fmt.Sprintf("amqp: array of text holds %T", v))
}

func decimalCode(v Decimal) byte {
	switch len(v) {
	case 4:
		return codeDecimal32
	case 8:
		return codeDecimal64
	}
	return codeDecimal128
}

// begin32 opens a compound whose size and count are filled in by end32.
func begin32(dst []byte, code byte) ([]byte, int) {
	dst = append(dst, code, 0, 0, 0, 0, 0, 0, 0, 0)
	return dst, len(dst)
}

func end32(dst []byte, mark, count int) []byte {
	binary.BigEndian.PutUint32(dst[mark-8:], uint32(len(dst)-mark+4))
	binary.BigEndian.PutUint32(dst[mark-4:], uint32(count))
	return dst
}

// beginComposite opens a described list, the form of every performative and section; end32 closes it.
func beginComposite(dst []byte, descriptor byte) ([]byte, int) {
	dst = append(dst, codeDescribed, codeSmallUlong, descriptor)
	return begin32(dst, codeList32)
}
