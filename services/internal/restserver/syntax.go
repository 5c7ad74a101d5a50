package restserver

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

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

func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }
