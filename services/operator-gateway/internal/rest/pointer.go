package rest

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// pointerAt is the JSON pointer of the value, or the name, that stands at a line and column (both from 1) of a body. It is
// empty when nothing stands there.
func pointerAt(body []byte, line, column int) string {
	target := offsetOf(body, line, column)
	if target < 0 {
		return ""
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var stack []level
	for {
		before := skipBlank(body, int(decoder.InputOffset()))
		token, err := decoder.Token()
		if err != nil {
			return ""
		}
		stack = enter(stack, token)
		if before <= target && target < int(decoder.InputOffset()) {
			return path(stack)
		}
		stack = leave(stack, token)
	}
}

// pointerToBreak is the JSON pointer of the value at which a body stops being JSON, or of the object or array around it.
func pointerToBreak(body []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var stack []level
	for {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		stack = leave(enter(stack, token), token)
		if len(stack) == 0 { // what follows the first value is too much
			break
		}
	}
	if top := len(stack) - 1; top >= 0 && !stack[top].array && !stack[top].hasName {
		stack = stack[:top] // no value of the object, but what stands between them
	}
	return path(stack)
}

// level is one object or array on the way in.
type level struct {
	array   bool
	index   int
	name    string
	hasName bool // a name was read, and its value comes next
}

func enter(stack []level, token json.Token) []level {
	if delim, ok := token.(json.Delim); ok && (delim == '}' || delim == ']') {
		return stack
	}
	if top := len(stack) - 1; top >= 0 && !stack[top].array && !stack[top].hasName {
		if name, ok := token.(string); ok {
			stack[top].name = name
		}
	}
	return stack
}

func leave(stack []level, token json.Token) []level {
	top := len(stack) - 1
	switch delim, isDelim := token.(json.Delim); {
	case isDelim && (delim == '{' || delim == '['):
		return append(stack, level{array: delim == '['})
	case isDelim:
		stack = stack[:top]
		top--
	case top >= 0 && !stack[top].array && !stack[top].hasName:
		stack[top].hasName = true
		return stack
	}
	if top >= 0 {
		stack[top].hasName = false
		stack[top].index++
	}
	return stack
}

func path(stack []level) string {
	var pointer []byte
	for _, at := range stack {
		pointer = append(pointer, '/')
		if at.array {
			pointer = strconv.AppendInt(pointer, int64(at.index), 10)
		} else {
			pointer = append(pointer, escape(at.name)...)
		}
	}
	return string(pointer)
}

func offsetOf(body []byte, line, column int) int {
	offset := 0
	for ; line > 1; line-- {
		end := bytes.IndexByte(body[offset:], '\n')
		if end < 0 {
			return -1
		}
		offset += end + 1
	}
	// Columns count characters, not bytes.
	for ; column > 1 && offset < len(body); column-- {
		offset++
		for offset < len(body) && body[offset]&0xC0 == 0x80 {
			offset++
		}
	}
	if offset >= len(body) {
		return -1
	}
	return offset
}

// skipBlank steps over what the decoder leaves before the next token.
func skipBlank(body []byte, offset int) int {
	for offset < len(body) && bytes.IndexByte([]byte(" \t\r\n,:"), body[offset]) >= 0 {
		offset++
	}
	return offset
}
